"""What each axis of a layout communicates in a step, and on which link.

    data, ZeRO 0    all-reduce of gradients, once a step (Li et al. 2020, PyTorch DDP, `no_sync`)
    data, ZeRO 1    reduce-scatter of gradients, all-gather of weights, once a step (Rajbhandari et al. 2020, 7)
    data, ZeRO 2    reduce-scatter per micro-batch, as a shard has no room for whole gradients; all-gather once a step
    data, ZeRO 3    per micro-batch all-gather in forward and in backward, reduce-scatter (the same; PyTorch FSDP)
    tensor          per layer 2 all-reduces in forward, 2 in backward, 2 where computed again (Shoeybi et al. 2019, 3)
    with sequence   all-gather and reduce-scatter for each, 2 all-gathers more in backward (Korthikanti et al. 2022)
    pipeline        per micro-batch and stage, activations forward and gradients back; tied embeddings, once a step
    context         per layer keys and values once round the ring; in backward with their gradients (Liu et al. 2023)
    expert          per layer all-to-all there and back in forward and in backward (Lepikhin et al. 2020, GShard)

Plain data parallelism moves 2Ψ, ZeRO-3 3Ψ: 1.5 times as much. A pipeline sends each value once, split over the tensor
ranks, and gathers it on the other side (Narayanan et al. 2021, 4.1). Context parallelism counts as data parallelism for
gradients: both are one group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from tracekit.plan import collectives
from tracekit.plan.hardware import Cluster, Link
from tracekit.plan.layout import Layout
from tracekit.plan.memory import Precision, held, layers_of_rank, output_place
from tracekit.plan.transformer import Transformer

FORWARD, BACKWARD, STEP = "forward", "backward", "step"
DATA, TENSOR, PIPELINE, CONTEXT, EXPERT = "data", "tensor", "pipeline", "context", "expert"


@dataclass(frozen=True)
class Calls:
    """`count` calls of one operation per step on one rank.

    `axis` is what they are for, `group` the layout's axis along which their members stand, `size_bytes` the whole
    array (see `plan.collectives`), `phase` when: in each micro-batch's forward or backward, or once a step.
    """

    axis: str
    group: str
    op: str
    ranks: int
    size_bytes: float
    count: float
    phase: str

    @property
    def bytes(self) -> float:
        """Of all arrays in the step."""
        return self.count * self.size_bytes

    @property
    def sent_bytes(self) -> float:
        """Bytes that the rank sends in the step, in rings."""
        return self.count * (collectives.sent_bytes(self.op, self.ranks, 1) or 0.0) * self.size_bytes

    def seconds(self, link: Link) -> float:
        """Of all calls, one after the other, each by the quicker of ring and tree."""
        return self.count * collectives.quickest(self.op, self.ranks, self.size_bytes, link)[1]


def calls(model: Transformer, layout: Layout, precision: Precision, place: int = 0) -> list[Calls]:
    """All communication of a step on the rank at this place of the pipeline; calls in groups of one are left out."""
    told = [
        *_data(model, layout, precision, place),
        *_tensor(model, layout, precision, place),
        *_pipeline(model, layout, precision, place),
        *_context(model, layout, precision),
        *_expert(model, layout, precision),
    ]
    return [call for call in told if call.ranks > 1 and call.count and call.size_bytes]


def link_of(group: str, layout: Layout, cluster: Cluster) -> Link:
    """What a rank gets of the links in a group along this axis; of a pipeline, between neighbours."""
    ranks = layout.group(group)
    if group == PIPELINE and len(ranks) > 1:
        crossing = any(cluster.node(a) != cluster.node(b) for a, b in pairwise(ranks))
        return cluster.between if crossing else cluster.inside
    return cluster.link(ranks)


def link_for(call: Calls, layout: Layout, cluster: Cluster) -> Link:
    """The link of a call. All-to-all has no rings that share adapters: across nodes each rank has its own only."""
    if call.op == "all_to_all" and not layout.inside_node(call.group, cluster):
        return cluster.between
    return link_of(call.group, layout, cluster)


def activation_size(model: Transformer, layout: Layout, precision: Precision) -> float:
    """Bytes of one micro-batch's activations between layers, on one context rank."""
    return layout.micro_batch * model.sequence / layout.context * model.hidden * precision.activation_bytes


def _data(model: Transformer, layout: Layout, precision: Precision, place: int) -> Iterator[Calls]:
    mine = held(model, layout, place)
    yield from _of_states(mine.dense, "gradients", layout.shards, layout, precision)
    yield from _of_states(mine.experts, "expert_data", layout.size("expert_data") * layout.context, layout, precision)


def _of_states(parameters: float, group: str, ranks: int, layout: Layout, precision: Precision) -> Iterator[Calls]:
    weights, gradients = parameters * precision.weight_bytes, parameters * precision.gradient_bytes
    often = layout.microbatches
    if layout.zero_stage == 0:
        yield Calls(DATA, group, "all_reduce", ranks, gradients, layout.reductions, BACKWARD)
        return
    yield Calls(DATA, group, "reduce_scatter", ranks, gradients, layout.reductions, BACKWARD)
    if layout.zero_stage < 3:
        yield Calls(DATA, group, "all_gather", ranks, weights, 1, STEP)
        return
    yield Calls(DATA, group, "all_gather", ranks, weights, often, FORWARD)
    yield Calls(DATA, group, "all_gather", ranks, weights, often, BACKWARD)


def _tensor(model: Transformer, layout: Layout, precision: Precision, place: int) -> Iterator[Calls]:
    size = activation_size(model, layout, precision)
    layers = layers_of_rank(model, layout) * layout.microbatches
    again = 2 if layout.checkpointing == "full" else 0
    # The embedding adds its parts up in forward, the output layer the gradients of its input in backward.
    ends = layout.microbatches if layout.split_vocabulary else 0
    first, last = ends if place == 0 else 0, ends if place == output_place(layout) else 0
    if not layout.sequence_parallel:
        yield Calls(TENSOR, TENSOR, "all_reduce", layout.tensor, size, 2 * layers + first, FORWARD)
        yield Calls(TENSOR, TENSOR, "all_reduce", layout.tensor, size, (2 + again) * layers + last, BACKWARD)
        return
    yield Calls(TENSOR, TENSOR, "all_gather", layout.tensor, size, 2 * layers + last, FORWARD)
    yield Calls(TENSOR, TENSOR, "reduce_scatter", layout.tensor, size, 2 * layers + first, FORWARD)
    yield Calls(TENSOR, TENSOR, "all_gather", layout.tensor, size, (4 + again) * layers + first + last, BACKWARD)
    yield Calls(TENSOR, TENSOR, "reduce_scatter", layout.tensor, size, (2 + again) * layers + last, BACKWARD)


def _pipeline(model: Transformer, layout: Layout, precision: Precision, place: int) -> Iterator[Calls]:
    if layout.pipeline == 1:
        return
    whole = activation_size(model, layout, precision)
    sends = boundaries(layout, place)
    for phase, count in ((FORWARD, sends), (BACKWARD, boundaries(layout, place, backward=True))):
        often = count * layout.microbatches
        yield Calls(PIPELINE, PIPELINE, "send", 2, whole / layout.tensor, often, phase)
        if not layout.sequence_parallel:
            yield Calls(PIPELINE, TENSOR, "all_gather", layout.tensor, whole, often, phase)
    if model.tied and place in (0, output_place(layout)) and output_place(layout) != 0:
        tied = model.hidden * model.vocabulary / layout.tensor * precision.gradient_bytes
        yield Calls(PIPELINE, PIPELINE, "all_reduce", 2, tied, 1, STEP)


def boundaries(layout: Layout, place: int, *, backward: bool = False) -> int:
    """To how many later (backward: earlier) stages on another rank the rank at this place sends a micro-batch.

    Stages lie in rounds over the ranks, in zbv and dualpipev in a V: its point is on the last rank.
    """
    if output_place(layout) == 0:
        # Down the V, up again: the first rank sends and gets one array each way, the last too, others two.
        return 1 if place in (0, layout.pipeline - 1) else 2
    ends = place == 0 if backward else place == layout.pipeline - 1
    return layout.stages_per_rank - ends


def _context(model: Transformer, layout: Layout, precision: Precision) -> Iterator[Calls]:
    tokens = layout.micro_batch * model.sequence / layout.context
    size = tokens * 2 * model.key_width / layout.tensor * precision.activation_bytes
    times = layers_of_rank(model, layout) * layout.microbatches * (layout.context - 1)
    again = 1 if layout.checkpointing == "full" else 0
    yield Calls(CONTEXT, CONTEXT, "sendrecv", layout.context, size, times, FORWARD)
    yield Calls(CONTEXT, CONTEXT, "sendrecv", layout.context, size, (2 + again) * times, BACKWARD)


def _expert(model: Transformer, layout: Layout, precision: Precision) -> Iterator[Calls]:
    # Tensor ranks hold the same tokens and would send them twice: each sends its part.
    size = activation_size(model, layout, precision) * model.experts_per_token / layout.tensor
    times = layers_of_rank(model, layout) * layout.microbatches
    again = 2 if layout.checkpointing == "full" else 0
    yield Calls(EXPERT, EXPERT, "all_to_all", layout.expert, size, 2 * times, FORWARD)
    yield Calls(EXPERT, EXPERT, "all_to_all", layout.expert, size, (2 + again) * times, BACKWARD)
