"""What a GPU must hold: weights, gradients, optimizer states, activations.

States: bytes per parameter by precision, shared over the ranks of a ZeRO group from its stage on (Rajbhandari et al.
2020, ZeRO, section 3 and figure 1). Activations: Korthikanti et al. 2022, "Reducing activation recomputation in large
transformer models", which counts what each operation of a layer must keep for its backward. At 16 bits, a GPT keeps

    no parallelism          s·b·h·(34 + 5·a·s/h)            bytes per layer and micro-batch
    tensor t                s·b·h·(10 + 24/t + 5·a·s/(h·t))
    tensor and sequence t   s·b·h/t·(34 + 5·a·s/h)
    selective               without the terms in a·s: the scores are computed again (as FlashAttention does)
    full                    2·s·b·h: the layer's input

(s tokens, b samples, h hidden, a heads), where the 34 are 8 for queries, keys, values and what the projection takes,
16 inside the feed-forward, 4 inputs of norms, 4 inputs of the first products, 2 masks of dropouts. The same count is
made here for other widths, gated feed-forwards, fewer heads of keys, no dropout, and experts.

Not counted: the CUDA context, buffers of NCCL, workspaces, fragmentation (USABLE stands for them), DDP's second copy
of gradients where `gradient_as_bucket_view` is off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tracekit.errors import WrongUse
from tracekit.plan import pipeline
from tracekit.plan.layout import Layout, layers_of_stage
from tracekit.plan.transformer import Transformer

USABLE = 0.9
"""Share of a GPU's memory that a plan may fill."""
LOGIT_BYTES = 4
GATHERED_LAYERS = 2
"""Layers whose parameters ZeRO-3 holds whole at once: the one at work and the one that is prefetched."""


@dataclass(frozen=True)
class Precision:
    """Bytes per parameter of weights, gradients and all optimizer states; bytes per activation."""

    weight_bytes: float = 2
    gradient_bytes: float = 2
    optimizer_bytes: float = 12
    activation_bytes: int = 2

    @property
    def per_parameter(self) -> float:
        """Bytes of all states per parameter."""
        return self.weight_bytes + self.gradient_bytes + self.optimizer_bytes


PRECISIONS: Mapping[str, Precision] = {
    "mixed-adam": Precision(2, 2, 12, 2),
    "mixed-adam-fp32-gradients": Precision(2, 4, 12, 2),
    "bf16-adam": Precision(2, 2, 4, 2),
    "mixed-adam-8bit": Precision(2, 2, 6, 2),
    "fp32-adam": Precision(4, 4, 8, 4),
    "fp32-momentum": Precision(4, 4, 4, 4),
    "fp32-sgd": Precision(4, 4, 0, 4),
}
"""By name. Mixed: 16-bit weights and activations, and an optimizer with 32-bit weights (4) and Adam's two moments (8);
Megatron-LM keeps gradients in 32 bits. 8-bit Adam: Dettmers et al. 2022."""


@dataclass(frozen=True)
class States:
    """Bytes on one rank."""

    weights: float
    gradients: float
    optimizer: float

    @property
    def total(self) -> float:
        """All three."""
        return self.weights + self.gradients + self.optimizer


def states(
    parameters: float, precision: Precision, zero_stage: int = 0, shards: int = 1, *, trainable: float = 1.0
) -> States:
    """What one rank holds of so many parameters that `shards` ranks share by ZeRO.

    `trainable` is the share of parameters that are trained (LoRA, frozen layers): only these have gradients and
    optimizer states. WrongUse unless it is from 0 to 1 and the stage from 0 to 3.
    """
    if zero_stage not in (0, 1, 2, 3):
        raise WrongUse(f"ZeRO has stages 0 to 3, not {zero_stage}")
    if not 0 <= trainable <= 1:
        raise WrongUse(f"the trainable share is from 0 to 1, not {trainable}")
    trained = trainable * parameters
    return States(
        precision.weight_bytes * parameters / (shards if zero_stage >= 3 else 1),
        precision.gradient_bytes * trained / (shards if zero_stage >= 2 else 1),
        precision.optimizer_bytes * trained / (shards if zero_stage >= 1 else 1),
    )


def lora_parameters(model: Transformer, rank: int) -> int:
    """Parameters of LoRA adapters of this rank beside queries and values of each layer (Hu et al. 2021, section 4.2).

    A matrix of n × k gets two of n × rank and rank × k.
    """
    return model.layers * rank * (2 * model.hidden + model.query_width + model.key_width)


# What a rank holds of the model ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Held:
    """Parameters on one rank before ZeRO: those that data × context ranks share, and experts that fewer share."""

    dense: float
    experts: float

    @property
    def total(self) -> float:
        """Both."""
        return self.dense + self.experts


def layer_held(model: Transformer, layout: Layout) -> Held:
    """Of one layer. Norms and the router are whole on each tensor rank, all else is split."""
    dense = model.attention_parameters / layout.tensor + model.router_parameters + 2 * model.norm_parameters
    forward = model.expert_parameters / layout.tensor
    if model.experts == 1:
        return Held(dense + forward, 0.0)
    return Held(dense, model.experts / layout.expert * forward)


def layers_of_rank(model: Transformer, layout: Layout) -> int:
    """Layers on the rank with most."""
    return layout.stages_per_rank * layers_of_stage(layout, model)


def held(model: Transformer, layout: Layout, place: int = 0) -> Held:
    """Of the rank at this place in the pipeline: its layers; the first has the embedding, the last the output layer.

    With the V of zbv and dualpipev the first has both. A tied output layer on another rank is a second copy.
    """
    layer, layers = layer_held(model, layout), layers_of_rank(model, layout)
    dense = layers * layer.dense
    if place == 0:
        dense += model.embedding_parameters / layout.vocabulary_parts
    if place == output_place(layout):
        copied = model.hidden * model.vocabulary if model.tied and place != 0 else 0
        matrices = model.output_parameters - model.norm_parameters + copied
        dense += model.norm_parameters + matrices / layout.vocabulary_parts
    return Held(dense, layers * layer.experts)


def output_place(layout: Layout) -> int:
    """The place in the pipeline whose rank has the output layer."""
    return 0 if layout.schedule in (pipeline.ZBV, pipeline.DUALPIPEV) else layout.pipeline - 1


# Activations ----------------------------------------------------------------------------------------------------------


def layer_activation_bytes(model: Transformer, layout: Layout, activation_bytes: int = 2) -> float:
    """Kept by one rank for one layer and micro-batch."""
    tokens = layout.micro_batch * model.sequence / layout.context
    along = layout.tensor if layout.sequence_parallel else 1
    if layout.checkpointing == "full":
        return tokens * model.hidden * activation_bytes / along
    scored = layout.checkpointing == "none" and not layout.fused_attention
    scores = _score_bytes(model, activation_bytes) if scored else 0.0
    apart = _whole_bytes(model, activation_bytes) / along
    return tokens * (apart + (_split_bytes(model, activation_bytes) + scores) / layout.tensor)


def _whole_bytes(model: Transformer, size: int) -> float:
    """Per token: inputs of the two norms and of the first products after them, masks of two dropouts. GPT: 10·h."""
    return model.hidden * (4 * size + 2 * model.dropout)


def _split_bytes(model: Transformer, size: int) -> float:
    """Per token: queries, keys, values, the projection's input, and the feed-forward's insides. GPT: 24·h."""
    inside = (3 if model.gated else 2) * model.width * model.experts_per_token
    return size * (2 * model.query_width + 2 * model.key_width + inside)


def _score_bytes(model: Transformer, size: int) -> float:
    """Per token: the softmax's output, and with dropout its mask and what comes of it. GPT: 5·a·s."""
    return model.heads * model.sequence * (2 * size + 1 if model.dropout else size)


def activation_bytes(model: Transformer, layout: Layout, place: int = 0, size: int = 2) -> float:
    """Kept at most by the rank at this place: of all layers and micro-batches in flight, and of the output layer.

    Full checkpointing adds the one layer that is being computed again.
    """
    layers = layers_of_rank(model, layout) / layout.stages_per_rank
    flying = in_flight(layout, place)
    kept = flying * layers * layer_activation_bytes(model, layout, size)
    if layout.checkpointing == "full":
        kept += layer_activation_bytes(model, replace(layout, checkpointing="none"), size)
    return kept + (_output_bytes(model, layout, size) if place == output_place(layout) else 0.0)


def in_flight(layout: Layout, place: int = 0) -> int:
    """Stages times micro-batches of which a rank holds activations; 1 without a pipeline."""
    if layout.pipeline == 1:
        return layout.stages_per_rank
    return pipeline.in_flight(
        layout.schedule, layout.pipeline, layout.microbatches, layout.stages_per_rank, place=place
    )


def _output_bytes(model: Transformer, layout: Layout, size: int) -> float:
    """Inputs of the last norm and of the output layer, and the logits at 32 bits (Korthikanti et al. 2022, 4.3)."""
    tokens = layout.micro_batch * model.sequence / layout.context
    return tokens * (2 * size * model.hidden + LOGIT_BYTES * model.vocabulary) / layout.vocabulary_parts


# All of it ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Memory:
    """Bytes on one rank at the peak. `gathered`: parameters, and gradients of one layer, that ZeRO-3 holds whole."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    gathered: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.gathered


def memory_at(
    model: Transformer, layout: Layout, precision: Precision | None = None, *, place: int = 0, trainable: float = 1.0
) -> Memory:
    """What the rank at this place in the pipeline holds."""
    chosen = precision or PRECISIONS["mixed-adam"]
    mine = held(model, layout, place)
    of_dense = states(mine.dense, chosen, layout.zero_stage, layout.shards, trainable=trainable)
    shards = layout.size("expert_data") * layout.context
    of_experts = states(mine.experts, chosen, layout.zero_stage, shards, trainable=trainable)
    return Memory(
        of_dense.weights + of_experts.weights,
        of_dense.gradients + of_experts.gradients,
        of_dense.optimizer + of_experts.optimizer,
        activation_bytes(model, layout, place, chosen.activation_bytes),
        _gathered(model, layout, chosen, trainable) if layout.zero_stage == 3 and layout.shards > 1 else 0.0,
    )


def _gathered(model: Transformer, layout: Layout, precision: Precision, trainable: float) -> float:
    layer = layer_held(model, layout).total
    return layer * (GATHERED_LAYERS * precision.weight_bytes + trainable * precision.gradient_bytes)


def peak(model: Transformer, layout: Layout, precision: Precision | None = None, *, trainable: float = 1.0) -> Memory:
    """What the fullest rank holds: the pipeline's first, or the one with the output layer."""
    places = {0, output_place(layout)}
    return max((memory_at(model, layout, precision, place=place, trainable=trainable) for place in places), key=_total)


def _total(memory: Memory) -> float:
    return memory.total
