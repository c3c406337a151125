"""How long a rank computes: matrix products by FLOPs, pointwise work by bytes.

Matrix products run at the cluster's `efficiency` times its peak. Between them stands work that reads and writes memory
and hardly computes: norms, residuals, activation functions, the scores' softmax. Its time is bytes by MEMORY_SHARE of
the memory's bandwidth; none where the cluster's `memory_bandwidth` is not given. Counted per token of a layer's forward
at A bytes per value, each array that a kernel reads or writes once (as fused kernels do, Narayanan et al. 2021, 4.2):

    two norms, two residual additions     10·A·h (+ 2·h of masks)   whole on each rank, or by sequence parallel
    activation function                   2·A·width, or 3·A·width where gated
    queries, keys, values turned          2·A·(their widths)
    scores, unless attention is fused     (6·A + 1)·a·s with dropout, 4·A·a·s without

A backward takes twice the forward of both. Activation checkpointing adds what is computed again.
"""

from __future__ import annotations

from dataclasses import dataclass

from tracekit.plan.hardware import Cluster
from tracekit.plan.layout import Layout
from tracekit.plan.memory import Precision, layers_of_rank, output_place
from tracekit.plan.transformer import Transformer

MEMORY_SHARE = 0.8
"""Share of the memory's bandwidth that pointwise kernels reach (BabelStream on A100: 0.85 and more)."""


@dataclass(frozen=True)
class Work:
    """FLOPs of matrix products and bytes of pointwise work, on one rank."""

    flops: float
    moved_bytes: float

    def times(self, factor: float) -> Work:
        """So many times as much."""
        return Work(factor * self.flops, factor * self.moved_bytes)

    def plus(self, other: Work) -> Work:
        """Both."""
        return Work(self.flops + other.flops, self.moved_bytes + other.moved_bytes)

    def seconds(self, cluster: Cluster) -> float:
        """How long a GPU of the cluster takes."""
        products = self.flops / (cluster.flops * cluster.efficiency)
        if cluster.memory_bandwidth is None:
            return products
        return products + self.moved_bytes / (MEMORY_SHARE * cluster.memory_bandwidth)


def tokens(model: Transformer, layout: Layout) -> float:
    """Of one micro-batch on one rank."""
    return layout.micro_batch * model.sequence / layout.context


def layer_forward(model: Transformer, layout: Layout, size: int = 2) -> Work:
    """One layer's forward of one micro-batch on one rank."""
    count = tokens(model, layout)
    apart = layout.tensor if layout.sequence_parallel else 1
    whole = model.hidden * (10 * size + 2 * model.dropout) / apart
    inside = (3 if model.gated else 2) * model.width * model.experts_per_token
    split = size * (inside + 2 * (model.query_width + 2 * model.key_width))
    moved = count * (whole + split / layout.tensor) + scores(model, layout, size).moved_bytes
    return Work(model.layer_flops(count) / layout.tensor, moved)


def layer_backward(model: Transformer, layout: Layout, size: int = 2) -> Work:
    """One layer's backward of one micro-batch on one rank, with what checkpointing computes again."""
    forward = layer_forward(model, layout, size)
    again = Work(0.0, 0.0)
    if layout.checkpointing == "full":
        again = forward
    elif layout.checkpointing == "selective":
        again = scores(model, layout, size)
    if layout.fused_attention and layout.checkpointing != "selective":
        # The backward of FlashAttention multiplies queries by keys once more (Dao et al. 2022, algorithm 4).
        again = again.plus(scores(model, layout, size).times(0.5))
    return forward.times(2).plus(again)


def scores(model: Transformer, layout: Layout, size: int) -> Work:
    """The attention of all heads: products, and the passes over scores that a fused kernel does not make."""
    count = tokens(model, layout)
    passes = 0 if layout.fused_attention else 6 * size + 1 if model.dropout else 4 * size
    moved = count * model.heads * model.sequence * passes / layout.tensor
    return Work(model.score_flops(count) / layout.tensor, moved)


def output_forward(model: Transformer, layout: Layout, size: int = 2) -> Work:
    """The output layer's forward of one micro-batch: logits written, and read and written once at 32 bits."""
    count = tokens(model, layout)
    moved = count * model.vocabulary * (size + 8) / layout.vocabulary_parts
    return Work(model.output_flops(count) / layout.vocabulary_parts, moved)


def stage_forward(model: Transformer, layout: Layout, place: int = 0, size: int = 2) -> Work:
    """One micro-batch's forward through all stages of the rank at this place."""
    work = layer_forward(model, layout, size).times(layers_of_rank(model, layout))
    return work.plus(output_forward(model, layout, size)) if place == output_place(layout) else work


def stage_backward(model: Transformer, layout: Layout, place: int = 0, size: int = 2) -> Work:
    """One micro-batch's backward through all stages of the rank at this place."""
    work = layer_backward(model, layout, size).times(layers_of_rank(model, layout))
    return work.plus(output_forward(model, layout, size).times(2)) if place == output_place(layout) else work


def stage_weights(model: Transformer, layout: Layout, place: int = 0) -> Work:
    """Of one micro-batch's backward, what computes the gradients of weights: a forward's products, without scores."""
    count = tokens(model, layout)
    products = (model.layer_flops(count) - model.score_flops(count)) / layout.tensor * layers_of_rank(model, layout)
    at_end = model.output_flops(count) / layout.vocabulary_parts if place == output_place(layout) else 0.0
    return Work(products + at_end, 0.0)


def optimizer_step(parameters: float, precision: Precision) -> Work:
    """Reading gradients, reading and writing states, writing weights of so many parameters; hardly any FLOPs."""
    return Work(0.0, parameters * (precision.gradient_bytes + 2 * precision.optimizer_bytes + precision.weight_bytes))
