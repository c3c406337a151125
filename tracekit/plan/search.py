"""Which layouts a job may have, which fit, and which is quickest.

All ways to split the cluster's GPUs into tensor × context × data × pipeline (× expert, along data) that divide the
model and the batch, with ZeRO stage, micro-batch, stages per rank and activation checkpointing. Of those that fit into
USABLE of a GPU's memory the one with the shortest predicted step is best; of two alike the simpler.

Left out unless asked for: tensor groups wider than a node (see `plan.explain`). Left out: ZeRO-2 and 3 with a pipeline
(each micro-batch would scatter and gather what the pipeline already splits; neither torchtitan nor Megatron-LM does by
default). Sequence parallelism is on wherever tensor is, unless told otherwise, as it moves as much and holds less.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

from tracekit.errors import TracekitError, WrongUse
from tracekit.plan import pipeline as schedules
from tracekit.plan.hardware import Cluster
from tracekit.plan.layout import CHECKPOINTING, ONE_STAGE, TWO_STAGES, Checkpointing, Layout, check_model
from tracekit.plan.memory import PRECISIONS, USABLE, Memory, Precision, peak
from tracekit.plan.step import Prediction, predict
from tracekit.plan.transformer import Transformer

MICRO_BATCHES = (1, 2, 4, 8, 16)
MOST_STAGES = 4
"""Stages per rank at most: more make a schedule of very short pieces."""
LONG_SEQUENCE = 32_768
"""Tokens from which on context parallelism is tried."""
ALIKE = 0.01
"""Two step times that differ by less than this share count as one: the arithmetic is no more exact than that."""


class Impossible(TracekitError):
    """No layout meets the request; the sentence says which number makes it so, and what would make it possible."""


@dataclass(frozen=True)
class Request:
    """What is asked: a model on a cluster, with so many samples per step.

    `fixed` are layout fields that are given (`{"tensor": 8}`). `schedules` are those to choose from.
    """

    model: Transformer
    cluster: Cluster
    batch: int
    precision: Precision = PRECISIONS["mixed-adam"]
    trainable: float = 1.0
    schedules: tuple[str, ...] = (schedules.ONE_F_ONE_B, schedules.INTERLEAVED)
    fused_attention: bool = True
    fixed: tuple[tuple[str, object], ...] = ()

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise WrongUse(f"a step has at least 1 sample, not {self.batch}")
        known = {field.name for field in fields(Layout)}
        for name, _ in self.fixed:
            if name not in known:
                raise WrongUse(f"a layout has no {name!r}")

    @property
    def room(self) -> float:
        """Bytes of a GPU that a layout may fill."""
        return USABLE * self.cluster.memory_bytes


@dataclass(frozen=True)
class Candidate:
    """A layout with its memory on the fullest rank."""

    layout: Layout
    memory: Memory


@dataclass(frozen=True)
class Plans:
    """The layouts that fit, best first, and those that do not, least memory first."""

    request: Request
    best: tuple[Prediction, ...]
    too_big: tuple[Candidate, ...]

    @cached_property
    def chosen(self) -> Prediction:
        """The best."""
        return self.best[0]

    def best_with(self, **given: object) -> Prediction | None:
        """The best that fits of the layouts with these fields; None where none does."""
        return next((plan for plan in self.best if _has(plan.layout, given)), None)

    def least_memory_with(self, **given: object) -> float | None:
        """Bytes of the layout with these fields that needs least; None where no layout has them."""
        fitting = (plan.memory.total for plan in self.best if _has(plan.layout, given))
        too_big = (candidate.memory.total for candidate in self.too_big if _has(candidate.layout, given))
        return min([*fitting, *too_big], default=None)


def plans(request: Request) -> Plans:
    """All layouts of the request, ranked; Impossible where none fits."""
    found = [Candidate(layout, _peak(request, layout)) for layout in layouts(request)]
    if not found:
        raise Impossible(_no_layout(request))
    fitting = [one for one in found if one.memory.total <= request.room]
    too_big = sorted((one for one in found if one.memory.total > request.room), key=lambda one: one.memory.total)
    if not fitting:
        raise Impossible(_nothing_fits(request, too_big[0]))
    told = [
        predict(request.model, one.layout, request.cluster, request.precision, trainable=request.trainable)
        for one in fitting
    ]
    return Plans(request, tuple(_ranked(told)), tuple(too_big))


def _ranked(told: list[Prediction]) -> list[Prediction]:
    """By time, and among those within ALIKE of the quickest by simplicity."""
    by_time = sorted(told, key=lambda plan: plan.seconds)
    limit = by_time[0].seconds * (1 + ALIKE)
    alike = [plan for plan in by_time if plan.seconds <= limit]
    return sorted(alike, key=lambda plan: (_complexity(plan.layout), plan.seconds)) + by_time[len(alike) :]


def _complexity(layout: Layout) -> int:
    """How much a layout asks of who runs it: each axis, and what is done beside it."""
    axes = sum(3 for size in (layout.tensor, layout.context, layout.pipeline, layout.expert) if size > 1)
    return axes + layout.zero_stage + (layout.stages_per_rank > 1) + CHECKPOINTING.index(layout.checkpointing)


def _peak(request: Request, layout: Layout) -> Memory:
    return peak(request.model, layout, request.precision, trainable=request.trainable)


def _has(layout: Layout, given: dict[str, object]) -> bool:
    return all(getattr(layout, name) == value for name, value in given.items())


# Enumerating ----------------------------------------------------------------------------------------------------------


def layouts(request: Request) -> Iterator[Layout]:
    """Every layout of the request that divides the GPUs, the model and the batch, whether it fits or not."""
    fixed = dict(request.fixed)
    for split in _splits(request):
        for micro_batch in MICRO_BATCHES:
            per_replica, rest = divmod(request.batch, split.data * micro_batch)
            if rest or not per_replica:
                continue
            sized = replace(split, micro_batch=micro_batch, microbatches=per_replica)
            for layout in _variants(request, sized):
                if _has(layout, fixed):
                    yield layout


def _splits(request: Request) -> Iterator[Layout]:
    """Degrees that multiply to the GPUs and divide the model."""
    model, cluster = request.model, request.cluster
    whole = dict(request.fixed).get("sequence_parallel", True) is True
    contexts = [1, 2, 4, 8, 16] if model.sequence >= LONG_SEQUENCE else [1, *_fixed(request, "context")]
    for tensor in _divisors(cluster.gpus, max([cluster.gpus_per_node, *_fixed(request, "tensor")])):
        for pipeline in _divisors(cluster.gpus // tensor, model.layers):
            for context in contexts:
                data, rest = divmod(cluster.gpus, tensor * pipeline * context)
                if rest or not data:
                    continue
                for expert in _divisors(data, model.experts):
                    split = Layout(
                        data, tensor, pipeline, context, expert, sequence_parallel=tensor > 1 and whole,
                        fused_attention=request.fused_attention,
                    )  # fmt: skip
                    if _divides(split, model):
                        yield split


def _fixed(request: Request, name: str) -> list[int]:
    return [value for field, value in request.fixed if field == name and isinstance(value, int) and value > 1]


def _divides(layout: Layout, model: Transformer) -> bool:
    try:
        check_model(layout, model)
    except WrongUse:
        return False
    return True


def _divisors(number: int, most: int) -> list[int]:
    return [value for value in range(1, min(number, most) + 1) if number % value == 0]


def _variants(request: Request, layout: Layout) -> Iterator[Layout]:
    """ZeRO stages, schedules and checkpointing of a split."""
    if layout.shards == 1:
        stages: Sequence[int] = (0,)
    else:
        stages = (0, 1) if layout.pipeline > 1 else (0, 1, 2, 3)
    checkpointings: list[Checkpointing] = [
        kind for kind in CHECKPOINTING if kind != "selective" or not layout.fused_attention
    ]
    for schedule, stages_per_rank in _schedules(request, layout):
        for zero_stage in stages:
            for checkpointing in checkpointings:
                yield replace(
                    layout, zero_stage=zero_stage, schedule=schedule, stages_per_rank=stages_per_rank,
                    checkpointing=checkpointing,
                )  # fmt: skip


def _schedules(request: Request, layout: Layout) -> Iterator[tuple[str, int]]:
    if layout.pipeline == 1:
        yield schedules.ONE_F_ONE_B, 1
        return
    for schedule in request.schedules:
        for stages in _stages(schedule):
            needs = 2 * layout.pipeline if schedule in TWO_STAGES else 1
            rounds = layout.pipeline if stages > 1 else 1
            if layout.microbatches < needs or layout.microbatches % rounds:
                continue
            if _divides(replace(layout, schedule=schedule, stages_per_rank=stages), request.model):
                yield schedule, stages


def _stages(schedule: str) -> Iterable[int]:
    """Numbers of stages per rank that a schedule can have."""
    if schedule in ONE_STAGE:
        return (1,)
    return (2,) if schedule in TWO_STAGES else range(2, MOST_STAGES + 1)


# What makes a request impossible --------------------------------------------------------------------------------------


def _no_layout(request: Request) -> str:
    model, cluster = request.model, request.cluster
    if any(True for _ in layouts(replace(request, fixed=()))):
        asked = ", ".join(f"{name} {value}" for name, value in request.fixed)
        return f"no layout of {cluster.gpus} GPUs for batch {request.batch} has {asked}: {_conflict(request)}"
    replicas = sorted({split.data for split in _splits(request)})
    if replicas and request.batch < replicas[0]:
        return (
            f"batch {request.batch} is too small for {cluster.gpus} GPUs: with the widest tensor and pipeline "
            f"parallelism that {model.heads} heads and {model.layers} layers allow, {replicas[0]} replicas remain, "
            f"and each needs a sample; a batch of {replicas[0]} would do, or fewer GPUs"
        )
    if replicas:
        most = next(data for data in range(min(cluster.gpus, request.batch), 0, -1) if request.batch % data == 0)
        return (
            f"batch {request.batch} does not divide by any number of replicas that {cluster.gpus} GPUs allow "
            f"({', '.join(map(str, replicas[:6]))}); batch {replicas[0] * max(1, request.batch // replicas[0])} would "
            f"do, or {most} GPUs"
        )
    return f"{cluster.gpus} GPUs cannot be split so that {model.heads} heads and {model.layers} layers divide"


def _conflict(request: Request) -> str:
    """Why the given fields exclude each other: what they leave of the GPUs, the model and the batch; what would do."""
    given = {name: value for name, value in request.fixed if isinstance(value, int)}
    axes = {name: given.get(name, 1) for name in ("tensor", "pipeline", "context", "data")}
    product, gpus, model = math.prod(axes.values()), request.cluster.gpus, request.model
    samples = axes["data"] * given.get("micro_batch", 1)
    if gpus % product:
        return f"their product {product} does not divide {gpus} GPUs; {_near(product, gpus)} would, or {product} GPUs"
    if model.heads % axes["tensor"]:
        return (
            f"{model.heads} heads do not divide by tensor {axes['tensor']}; {_near(axes['tensor'], model.heads)} would"
        )
    if axes["pipeline"] > model.layers:
        return f"{model.layers} layers cannot be shared out to pipeline {axes['pipeline']}; {model.layers} would"
    if request.batch % samples:
        more = samples * max(1, round(request.batch / samples))
        return f"batch {request.batch} does not divide by the {samples} samples of all replicas; batch {more} would"
    return "they exclude each other, the batch or the model's shape; leave one of them open"


def _near(number: int, of: int) -> int:
    """The largest divisor of `of` that is not above `number`."""
    return max(value for value in _divisors(of, of) if value <= number)


def _nothing_fits(request: Request, least: Candidate) -> str:
    """The number that is too small, and what would be enough."""
    memory, cluster, free = least.memory, request.cluster, replace(request, fixed=())
    parts = {
        "weights": memory.weights,
        "gradients": memory.gradients,
        "optimizer states": memory.optimizer,
        "activations": memory.activations,
        "gathered layers": memory.gathered,
    }
    largest = max(parts, key=lambda name: parts[name])
    needed = memory.total / USABLE
    each = f"each of {cluster.gpus} GPUs" if cluster.gpus > 1 else "the GPU"
    sentence = (
        f"memory: the leanest layout ({described(least.layout)}) needs {memory.total / 1e9:.1f} GB on "
        f"{each}, most of it {largest} ({parts[largest] / 1e9:.1f} GB), and {request.room / 1e9:.1f} of "
        f"{cluster.memory_bytes / 1e9:.0f} GB can be planned with; possible with {needed / 1e9:.0f} GB GPUs"
    )
    if request.fixed and any(_peak(free, layout).total <= free.room for layout in layouts(free)):
        return f"{sentence}, or without fixing {', '.join(name for name, _ in request.fixed)}"
    more = _enough_gpus(free)
    return f"{sentence}, or with {more} GPUs like these" if more else sentence


def _enough_gpus(request: Request) -> int | None:
    """The least doubling of GPUs (and of the batch, if replicas need it) with which something fits."""
    gpus = request.cluster.gpus
    for factor in (2, 4, 8, 16, 32, 64, 128, 256):
        wider = replace(request, cluster=replace(request.cluster, gpus=factor * gpus), batch=factor * request.batch)
        if any(_peak(wider, layout).total <= wider.room for layout in _leanest(wider)):
            return factor * gpus
    return None


def _leanest(request: Request) -> Iterator[Layout]:
    """Layouts that hold least: one sample per micro-batch, all sharded that can be, full checkpointing."""
    for layout in layouts(replace(request, schedules=(schedules.ONE_F_ONE_B,))):
        sharded = layout.zero_stage == (1 if layout.pipeline > 1 else 3) or layout.shards == 1
        if layout.micro_batch == 1 and layout.checkpointing == "full" and sharded:
            yield layout


def described(layout: Layout) -> str:
    """A layout in a line: `data 8 × tensor 8 × pipeline 16, ZeRO-1, ...`; what is 1 or off is left out."""
    sizes = {name: getattr(layout, name) for name in ("data", "tensor", "context", "pipeline")}
    axes = " × ".join(f"{name} {size}" for name, size in sizes.items() if size > 1) or "one GPU"
    told = [
        f"expert {layout.expert}" if layout.expert > 1 else "",
        f"ZeRO-{layout.zero_stage}" if layout.zero_stage else "",
        f"micro-batch {layout.micro_batch} × {layout.microbatches}",
        _schedule(layout),
        f"{layout.checkpointing} checkpointing" if layout.checkpointing != "none" else "",
    ]
    return ", ".join([axes, *filter(None, told)])


def _schedule(layout: Layout) -> str:
    if layout.pipeline == 1:
        return ""
    return layout.schedule + (f" ({layout.stages_per_rank} stages per rank)" if layout.stages_per_rank > 1 else "")
