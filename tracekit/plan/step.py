"""How long a step takes with a layout, and where its time goes.

    step = micro-batches × (compute + exposed communication of one on the slowest rank)
           + the pipeline's ramp + exposed data-parallel communication + optimizer

What hides: a collective of the tensor or expert axis stands between two products that need each other, so all of it
is exposed. Keys and values of context parallelism go round while attention computes. ZeRO-3's gathers and scatters of a
layer run beside its neighbour's compute; the first gather has none to run beside. Gradients are reduced while the last
micro-batch's backward still runs, at the end of which the last layer's remain; ZeRO-1 and 2 gather weights while the
next step's first forward runs, except for the first layer's. A pipeline's sends are hidden while there is another
micro-batch to work on; in the ramp each hop is waited for. An axis that is not in `overlapped` hides nothing.
Compute and communication that run at once are taken not to slow each other, which on GPUs they do by some percent.

The ramp, from the first forward to the last backward on any rank: what the other ranks' stages take for one micro-batch
by v stages per rank. Where the schedule splits the backward, without twice the gradients of weights, which fill it: of
F + I + W remain F + I - W (Qi et al. 2023; a third where all are alike). Exact for equal stages.

MFU: FLOPs of forward and backward without what is computed again, by the time and the GPUs' peak (Chowdhery et al.
2022). `hardware_flops` counts that too, as Narayanan et al. 2021 do.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from tracekit.plan import pipeline as schedules
from tracekit.plan.communication import (
    CONTEXT,
    DATA,
    FORWARD,
    PIPELINE,
    STEP,
    Calls,
    calls,
    link_for,
)
from tracekit.plan.compute import (
    layer_backward,
    layer_forward,
    optimizer_step,
    scores,
    stage_backward,
    stage_forward,
    stage_weights,
)
from tracekit.plan.hardware import Cluster
from tracekit.plan.layout import Layout
from tracekit.plan.memory import PRECISIONS, Memory, Precision, held, layers_of_rank, output_place, peak
from tracekit.plan.transformer import Transformer

OVERLAPPED = frozenset({DATA, CONTEXT, PIPELINE})


@dataclass(frozen=True)
class Prediction:
    """A step with a layout; seconds on the slowest rank, bytes per rank.

    `compute` is of all micro-batches, with what is computed again; `exposed` by axis; `bubble` the ramp. `bubble_frac`
    is the share of the makespan in which a pipeline's ranks have nothing to do, mean over them: `plan.pipeline`'s where
    all stages are alike, more where one is longer, since the others wait for it in each micro-batch. `traffic` are the
    calls of the pipeline's first rank.
    """

    model: Transformer
    layout: Layout
    cluster: Cluster
    precision: Precision
    memory: Memory
    compute: float
    exposed: Mapping[str, float]
    bubble: float
    optimizer: float
    bubble_frac: float
    traffic: tuple[Calls, ...]
    hardware_flops: float

    @property
    def seconds(self) -> float:
        """Of one step."""
        return self.compute + sum(self.exposed.values()) + self.bubble + self.optimizer

    @property
    def makespan(self) -> float:
        """Seconds from the first forward to the last backward."""
        return self.seconds - self.optimizer - self.exposed.get(DATA, 0.0)

    @property
    def tokens_per_second(self) -> float:
        """Of the whole job."""
        return self.layout.batch * self.model.sequence / self.seconds

    @property
    def model_flops_per_second(self) -> float:
        """Per GPU, without what is computed again."""
        flops = self.model.step_flops(self.layout.batch * self.model.sequence)
        return flops / self.layout.ranks / self.seconds

    @property
    def hardware_flops_per_second(self) -> float:
        """Per GPU, with what is computed again."""
        return self.hardware_flops / self.layout.ranks / self.seconds

    @property
    def mfu(self) -> float:
        """Model FLOPs by the peak."""
        return self.model_flops_per_second / self.cluster.flops

    def link(self, call: Calls) -> str:
        """`inside` or `between` nodes: where the call's bytes go."""
        return "inside" if self.layout.inside_node(call.group, self.cluster) else "between"


def predict(
    model: Transformer,
    layout: Layout,
    cluster: Cluster,
    precision: Precision = PRECISIONS["mixed-adam"],
    *,
    overlapped: Set[str] = OVERLAPPED,
    trainable: float = 1.0,
) -> Prediction:
    """The step with this layout. The layout need not fill the cluster, nor fit into its memory."""
    last = output_place(layout)
    ends = [
        _rank(model, layout, cluster, precision, place, overlapped) for place in dict.fromkeys((last, _other(layout)))
    ]
    slowest, common = max(ends, key=lambda rank: rank.per_microbatch), ends[-1]
    first = ends[0] if last == 0 else common
    exposed = {axis: layout.microbatches * value for axis, value in slowest.exposed.items() if value}
    bubble = _ramp(layout, common)
    if layout.pipeline > 1:
        exposed[PIPELINE] = exposed.get(PIPELINE, 0.0) + _hops(layout, first)
    data = max(_data(rank, layout, overlapped) for rank in ends)
    if data:
        exposed[DATA] = exposed.get(DATA, 0.0) + data
    parameters = trainable * held(model, layout).total / (layout.shards if layout.zero_stage else 1)
    return Prediction(
        model,
        layout,
        cluster,
        precision,
        peak(model, layout, precision, trainable=trainable),
        layout.microbatches * (slowest.forward + slowest.backward),
        exposed,
        bubble,
        optimizer_step(parameters, precision).seconds(cluster),
        _mean_idle_frac(layout, ends, bubble),
        tuple(first.calls),
        _hardware_flops(model, layout),
    )


def _mean_idle_frac(layout: Layout, ends: list[_Rank], bubble: float) -> float:
    """Of the rank with the output layer and all others, which are alike."""
    if layout.pipeline == 1:
        return 0.0
    makespan = layout.microbatches * max(rank.per_microbatch for rank in ends) + bubble
    busy = ends[0].per_microbatch + (layout.pipeline - 1) * ends[-1].per_microbatch
    return 1 - layout.microbatches * busy / layout.pipeline / makespan


def _other(layout: Layout) -> int:
    """The first place in the pipeline without the output layer; 0 without a pipeline."""
    return min(1, layout.pipeline - 1) if output_place(layout) == 0 else 0


@dataclass(frozen=True)
class _Rank:
    """One rank's seconds per micro-batch, and its calls with their seconds in the step."""

    forward: float
    backward: float
    weights: float
    exposed: Mapping[str, float]
    calls: list[Calls]
    took: Mapping[Calls, float]
    layers: int

    @property
    def per_microbatch(self) -> float:
        return self.forward + self.backward + sum(self.exposed.values())


def _rank(
    model: Transformer, layout: Layout, cluster: Cluster, precision: Precision, place: int, overlapped: Set[str]
) -> _Rank:
    size = precision.activation_bytes
    forward = stage_forward(model, layout, place, size).seconds(cluster)
    backward = stage_backward(model, layout, place, size).seconds(cluster)
    mine = calls(model, layout, precision, place)
    took = {call: call.seconds(link_for(call, layout, cluster)) for call in mine}
    attention = _attention_seconds(model, layout, cluster, size)
    exposed: dict[str, float] = {}
    for axis, phase in dict.fromkeys((call.axis, call.phase) for call in mine if _per_microbatch(call, layout)):
        seconds = sum(value for call, value in took.items() if (call.axis, call.phase) == (axis, phase))
        beside = forward if phase == FORWARD else backward
        hidden = _hidden(axis, beside, attention if phase == FORWARD else 2 * attention) if axis in overlapped else 0.0
        exposed[axis] = exposed.get(axis, 0.0) + max(0.0, seconds / layout.microbatches - hidden)
    weights = stage_weights(model, layout, place).seconds(cluster)
    return _Rank(forward, backward, weights, exposed, mine, took, layers_of_rank(model, layout))


def _per_microbatch(call: Calls, layout: Layout) -> bool:
    return call.phase != STEP and (call.axis != DATA or layout.reductions > 1 or layout.zero_stage >= 2)


def _hidden(axis: str, compute: float, attention: float) -> float:
    """Seconds per micro-batch and phase that an axis's communication has to hide under."""
    return {PIPELINE: float("inf"), CONTEXT: attention, DATA: compute}.get(axis, 0.0)


def _attention_seconds(model: Transformer, layout: Layout, cluster: Cluster, size: int) -> float:
    """What the scores of all layers take in one micro-batch's forward."""
    return layers_of_rank(model, layout) * scores(model, layout, size).seconds(cluster)


def _ramp(layout: Layout, common: _Rank) -> float:
    """What all ranks but the slowest take for one micro-batch, shortened by the schedule."""
    if layout.pipeline == 1:
        return 0.0
    one = common.per_microbatch
    if layout.schedule in schedules.SPLIT_BACKWARD:
        one = max(0.0, one - 2 * common.weights)
    return (layout.pipeline - 1) * one / layout.stages_per_rank


def _hops(layout: Layout, first: _Rank) -> float:
    """Sends of the ramp: down the ranks and up again, each waited for; and the sum of tied embeddings, once a step."""
    sends = {call: seconds for call, seconds in first.took.items() if call.axis == PIPELINE}
    one = sum(seconds / call.count for call, seconds in sends.items() if call.phase != STEP)
    once = sum(seconds for call, seconds in sends.items() if call.phase == STEP)
    return (layout.pipeline - 1) * one + once


def _data(rank: _Rank, layout: Layout, overlapped: Set[str]) -> float:
    """Exposed seconds of what is paid once a step for gradients and weights."""
    exposed = 0.0
    for call, seconds in rank.took.items():
        if call.axis != DATA:
            continue
        one = seconds if call.count == 1 else seconds / call.count
        if DATA not in overlapped:
            exposed += 0.0 if _per_microbatch(call, layout) else one
        elif _per_microbatch(call, layout):
            # The first gather and the last scatter have nothing to run beside; a gather in backward follows on another.
            exposed += one / rank.layers if call.phase == FORWARD or call.op != "all_gather" else 0.0
        else:
            exposed += max(one / rank.layers, one - (rank.forward if call.op == "all_gather" else rank.backward))
    return exposed


def _hardware_flops(model: Transformer, layout: Layout) -> float:
    """Of a step on all ranks, with what is computed again."""
    layer = layer_forward(model, layout).flops + layer_backward(model, layout).flops
    output = 3 * model.output_flops(layout.batch * model.sequence)
    replicas = layout.tensor * layout.context * layout.data * layout.microbatches
    return layer * model.layers * replicas + output
