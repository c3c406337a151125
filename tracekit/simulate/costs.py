"""How long each kernel of a layer takes, in nanoseconds, and how many bytes each call moves.

The sums are those that `plan` predicts with, so that a plan and its simulation can differ by what happens in time only.
A layer's matrix products share its time by their FLOPs, its pointwise kernels by halves; a backward's product has two
parts of equal length, the gradient of its input and that of its weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tracekit.plan import compute, memory
from tracekit.plan.layout import Layout
from tracekit.plan.memory import Precision
from tracekit.plan.transformer import Transformer
from tracekit.simulate import kernels
from tracekit.simulate.job import Job
from tracekit.simulate.kernels import Kernel

NS = 1e9
SMALL_NS = 5_000
"""Kernels that no formula counts: an embedding's look-up, clearing gradients, a loss of few numbers."""
COPY_BYTES_PER_S = 20e9
TOKEN_BYTES = 8


@dataclass(frozen=True)
class Piece:
    """One kernel of a layer; of a backward's, `weights` tells whether it gives the weights' gradient."""

    kernel: Kernel
    ns: int
    weights: bool = False


Half = tuple[Piece, ...]
"""The kernels of one half of a layer, attention or feed-forward, between two points where tensor ranks meet."""


@dataclass(frozen=True)
class Costs:
    """All times and sizes of a job's layers."""

    job: Job

    @property
    def precision(self) -> Precision:
        """Bytes per value."""
        return self.job.precision

    @cached_property
    def _sizes(self) -> tuple[Transformer, Layout, int]:
        return self.job.model, self.job.layout, self.precision.activation_bytes

    @cached_property
    def forward(self) -> tuple[Half, Half]:
        """A layer's forward of one micro-batch: attention, feed-forward."""
        whole = compute.layer_forward(*self._sizes).seconds(self.job.cluster) * NS
        return self._halves(whole, backward=False)

    @cached_property
    def backward(self) -> tuple[Half, Half]:
        """A layer's backward, feed-forward first, without what full activation checkpointing computes again."""
        whole = compute.layer_backward(*self._sizes).seconds(self.job.cluster) * NS
        if self.recomputes:
            whole -= sum(piece.ns for half in self.forward for piece in half)
        return self._halves(whole, backward=True)

    @property
    def recomputes(self) -> bool:
        """Whether each layer's forward is computed again before its backward."""
        return self.job.layout.checkpointing == "full"

    @cached_property
    def output(self) -> Half:
        """The output layer's forward and the loss."""
        whole = compute.output_forward(*self._sizes).seconds(self.job.cluster) * NS
        return (Piece(kernels.GEMM, round(0.9 * whole)), Piece(kernels.LOSS, round(0.1 * whole)))

    @cached_property
    def output_backward(self) -> Half:
        """Twice its forward."""
        each = sum(piece.ns for piece in self.output)
        return (Piece(kernels.INPUT_GRADIENT, each), Piece(kernels.WEIGHT_GRADIENT, each, True))

    def optimizer_ns(self, parameters: float) -> int:
        """The optimizer's step on so many of the rank's parameters."""
        seconds = compute.optimizer_step(parameters, self.precision).seconds(self.job.cluster)
        return max(SMALL_NS, round(seconds * NS))

    @cached_property
    def layer_parameters(self) -> float:
        """Of one layer on one rank, before sharding."""
        return memory.layer_held(self.job.model, self.job.layout).total

    @cached_property
    def embedding_parameters(self) -> float:
        """Of the embedding on one rank."""
        return self.job.model.embedding_parameters / self.job.layout.vocabulary_parts

    @cached_property
    def output_parameters(self) -> float:
        """Of the output layer on one rank; of one that shares the embedding's weights, its norm's."""
        return self.job.model.output_parameters / self.job.layout.vocabulary_parts

    def gradient_bytes(self, parameters: float) -> int:
        """Of so many parameters; whole values, of two bytes or of four."""
        return 4 * round(self.precision.gradient_bytes * parameters / 4)

    def weight_bytes(self, parameters: float) -> int:
        """As `gradient_bytes`, of weights."""
        return 4 * round(self.precision.weight_bytes * parameters / 4)

    @cached_property
    def tokens(self) -> int:
        """Of one micro-batch."""
        return round(compute.tokens(self.job.model, self.job.layout))

    @cached_property
    def hidden_bytes(self) -> int:
        """One micro-batch's values between two layers, as tensor ranks exchange them."""
        return self.tokens * self.job.model.hidden * self.precision.activation_bytes

    @cached_property
    def boundary_bytes(self) -> int:
        """What a stage sends to the next: each tensor rank its part."""
        return self.hidden_bytes // self.job.layout.tensor

    @cached_property
    def tied_bytes(self) -> int:
        """Gradients of an embedding that two stages share."""
        return self.gradient_bytes(self.job.model.hidden * self.job.model.vocabulary / self.job.layout.vocabulary_parts)

    @cached_property
    def load_ns(self) -> int:
        """Copying a micro-batch's tokens to the device."""
        return max(2_000, round(self.tokens * TOKEN_BYTES / COPY_BYTES_PER_S * NS))

    @cached_property
    def activation_bytes(self) -> int:
        """What a layer keeps of a micro-batch for its backward."""
        return round(memory.layer_activation_bytes(self.job.model, self.job.layout))

    def _halves(self, whole_ns: float, *, backward: bool) -> tuple[Half, Half]:
        model = self.job.model
        inward = (2 if model.gated else 1) * model.width
        flops = [
            model.hidden * (model.query_width + 2 * model.key_width),
            2 * model.sequence * model.query_width,
            model.hidden * model.query_width,
            model.hidden * inward * model.experts_per_token,
            model.hidden * model.width * model.experts_per_token,
        ]
        products_ns = whole_ns * self._products_frac(backward=backward)
        each = [round(products_ns * one / sum(flops)) for one in flops]
        pointwise = max(1, round((whole_ns - products_ns) / 4))
        attention = _backward(each[:3], pointwise) if backward else _attention(each[:3], pointwise)
        rest = _feed_forward_backward(each[3:], pointwise) if backward else _feed_forward(each[3:], pointwise)
        return (rest, attention) if backward else (attention, rest)

    def _products_frac(self, *, backward: bool) -> float:
        make = compute.layer_backward if backward else compute.layer_forward
        work = make(*self._sizes)
        products = work.flops / (self.job.cluster.flops * self.job.cluster.efficiency)
        return products / work.seconds(self.job.cluster)


def _attention(each: list[int], pointwise: int) -> Half:
    inward, scores, outward = each
    return (
        Piece(kernels.NORM, 2 * pointwise),
        Piece(kernels.GEMM, inward),
        Piece(kernels.ATTENTION, scores),
        Piece(kernels.GEMM, outward),
    )


def _feed_forward(each: list[int], pointwise: int) -> Half:
    inward, outward = each
    return (
        Piece(kernels.NORM, pointwise),
        Piece(kernels.GEMM, inward),
        Piece(kernels.ACTIVATION, pointwise),
        Piece(kernels.GEMM, outward),
    )


def _feed_forward_backward(each: list[int], pointwise: int) -> Half:
    inward, outward = each
    return (
        *_gradients(outward),
        Piece(kernels.ACTIVATION_BACKWARD, pointwise),
        *_gradients(inward),
        Piece(kernels.NORM_BACKWARD, pointwise),
    )


def _backward(each: list[int], pointwise: int) -> Half:
    inward, scores, outward = each
    return (
        *_gradients(outward),
        Piece(kernels.ATTENTION_BACKWARD, scores),
        *_gradients(inward),
        Piece(kernels.NORM_BACKWARD, 2 * pointwise),
    )


def _gradients(ns: int) -> Half:
    """A product's two parts of a backward."""
    return Piece(kernels.INPUT_GRADIENT, ns - ns // 2), Piece(kernels.WEIGHT_GRADIENT, ns // 2, True)
