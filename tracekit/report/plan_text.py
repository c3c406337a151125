"""The screen of `tracekit plan`: the layout, what it costs, and why it and no other."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tracekit.plan import batch, operations
from tracekit.plan.explain import reasons
from tracekit.plan.memory import USABLE
from tracekit.plan.scaling import Point
from tracekit.plan.search import Plans, Request, described
from tracekit.plan.step import Prediction
from tracekit.wording import counted, plain

GB = 1e9
NEXT_BEST = 4
RULES: tuple[batch.Rule, ...] = ("linear", "square-root")


@dataclass(frozen=True)
class Operating:
    """What a job's operation is reckoned with: storage in bytes per second, failures per GPU and day, restart.

    `samples` are those of an epoch, `base_batch` one for which a learning rate is known; None where nothing is asked.
    """

    storage_bandwidth: float
    failures_per_gpu_day: float = operations.FAILURES_PER_GPU_DAY
    restart_s: float = 600.0
    samples: int | None = None
    base_batch: int | None = None


def plan_text(
    plans: Plans, name: str, cluster: str, points: Sequence[Point], operating: Operating, *, width: int = 100
) -> str:
    """The whole screen, at most `width` columns where words allow it."""
    chosen = plans.chosen
    lines = [
        *_wrapped(_asked(plans.request, name, cluster), width),
        "",
        *_wrapped(f"Layout   {described(chosen.layout)}", width, 9),
        *_wrapped(f"Step     {_speed(chosen)}", width, 9),
        *_wrapped(f"Time     {_shares(chosen)}", width, 9),
        *_wrapped(f"Memory   {_memory(chosen, plans.request)}", width, 9),
        "",
        *_communication(chosen),
        "",
        "Why",
        *(line for reason in reasons(plans) for line in _wrapped(f"- {reason}", width, 2)),
        *_next_best(plans),
        *_scaling(points),
        "",
        *_wrapped(f"Operate  {operating_sentence(plans.request, operating)}", width, 9),
        *_wrapped(f"Batch    {batch_sentence(chosen, operating)}", width, 9),
    ]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _wrapped(text: str, width: int, indent: int = 0) -> list[str]:
    return textwrap.wrap(text, max(40, width), subsequent_indent=" " * indent, break_long_words=False)


def _asked(request: Request, name: str, cluster: str) -> str:
    model, hardware = request.model, request.cluster
    nodes = f"{hardware.gpus_per_node} per node" if hardware.gpus > hardware.gpus_per_node else "one node"
    return (
        f"{plain(name)} ({big(model.parameters)} parameters) on {counted(hardware.gpus, 'GPU')} ({cluster}, {nodes}), "
        f"{counted(request.batch, 'sample')} of {model.sequence:,} tokens a step"
    )


def _speed(plan: Prediction) -> str:
    return (
        f"{span(plan.seconds)}, {big(plan.tokens_per_second)} tokens/s, MFU {plan.mfu:.0%} "
        f"({plan.model_flops_per_second / 1e12:.0f} of {plan.cluster.flops / 1e12:.0f} TFLOP/s per GPU)"
    )


def _shares(plan: Prediction) -> str:
    parts = {"compute": plan.compute, **{f"exposed {axis}": s for axis, s in sorted(plan.exposed.items())}}
    parts |= {"bubble": plan.bubble, "optimizer": plan.optimizer}
    return ", ".join(f"{name} {span(s)} ({s / plan.seconds:.1%})" for name, s in parts.items() if s > 0)


def _memory(plan: Prediction, request: Request) -> str:
    held = plan.memory
    parts = {
        "weights": held.weights,
        "gradients": held.gradients,
        "optimizer": held.optimizer,
        "activations": held.activations,
        "gathered layers": held.gathered,
    }
    told = ", ".join(f"{name} {size / GB:.1f}" for name, size in parts.items() if size > 0)
    return f"{held.total / GB:.1f} GB on the fullest GPU, {room(request)}: {told}"


def room(request: Request) -> str:
    """What may be planned with of a GPU's memory."""
    return f"of {request.room / GB:.0f} GB ({USABLE:.0%} of {request.cluster.memory_bytes / GB:.0f})"


def _communication(plan: Prediction) -> Iterator[str]:
    if not plan.traffic:
        yield "No communication."
        return
    yield "Each GPU of the first stage, a step"
    rows = [
        (
            call.axis,
            call.op,
            f"{call.ranks}",
            plan.link(call),
            f"{call.count:,.0f}",
            f"{call.size_bytes / 1e6:,.1f}",
            f"{call.sent_bytes / GB:,.2f}",
        )
        for call in plan.traffic
    ]
    yield from table(("axis", "operation", "ranks", "link", "calls", "MB each", "GB sent"), rows)


def _next_best(plans: Plans) -> Iterator[str]:
    others = plans.best[1 : 1 + NEXT_BEST]
    if not others:
        return
    yield ""
    yield f"Next best of {len(plans.best):,} layouts that fit ({len(plans.too_big):,} do not)"
    yield from table(
        ("step", "MFU", "GB", "layout"),
        [(span(p.seconds), f"{p.mfu:.0%}", f"{p.memory.total / GB:.1f}", described(p.layout)) for p in others],
    )


def _scaling(points: Sequence[Point]) -> Iterator[str]:
    if not any(point.plan for point in points):
        return
    first = next(point.gpus for point in points if point.plan)
    yield ""
    yield "The same batch on other numbers of GPUs"
    rows = []
    for point in points:
        if point.plan is None or point.speedup is None:
            rows.append((f"{point.gpus:,}", "-", "-", "-", "does not fit, or the batch does not divide"))
            continue
        ideal = point.gpus / first
        rows.append(
            (
                f"{point.gpus:,}",
                span(point.plan.seconds),
                f"{point.speedup:.2f}",
                f"{point.speedup / ideal:.0%}",
                described(point.plan.layout),
            )
        )
    yield from table(("GPUs", "step", "speed-up", "of ideal", "layout"), rows)


def operating_sentence(request: Request, operating: Operating) -> str:
    """Checkpoint, failures, interval and goodput."""
    size = operations.checkpoint_bytes(request.model.parameters, request.precision, trainable=request.trainable)
    writing = operations.checkpoint_seconds(size, operating.storage_bandwidth)
    gpus = request.cluster.gpus
    mean = operations.seconds_between_failures(gpus, operating.failures_per_gpu_day)
    interval = operations.daly_interval(writing, mean)
    good = operations.goodput(interval, writing, mean, operating.restart_s)
    return (
        f"a checkpoint is {size / GB:,.0f} GB, {span(writing)} at {operating.storage_bandwidth / GB:,.0f} GB/s; "
        f"{operations.failures_per_day(gpus, operating.failures_per_gpu_day):.2g} failures a day at "
        f"{operating.failures_per_gpu_day:.1e} per GPU; save every {span(interval)} (Daly); goodput {good:.1%} with "
        f"{span(operating.restart_s)} to restart"
    )


def batch_sentence(plan: Prediction, operating: Operating) -> str:
    """What makes up the batch, steps of an epoch, and where to start looking for a learning rate."""
    layout = plan.layout
    told = (
        f"{layout.batch:,} samples = data {layout.data} × micro-batch {layout.micro_batch} × {layout.microbatches} "
        f"accumulated, {big(layout.batch * plan.model.sequence)} tokens a step"
    )
    if operating.samples:
        steps = batch.steps_per_epoch(operating.samples, layout.batch)
        told += f"; {operating.samples:,} samples are {counted(steps, 'step')}, {span(steps * plan.seconds)}"
    if operating.base_batch:
        linear, root = (batch.learning_rate(1.0, operating.base_batch, layout.batch, rule) for rule in RULES)
        told += (
            f"; from a tuned batch of {operating.base_batch:,} start at {linear:.3g} times its learning rate with SGD "
            f"(linear), {root:.3g} times with Adam (square root), warm up, and search: these are heuristics"
        )
    return told


# How numbers read -----------------------------------------------------------------------------------------------------


def span(seconds: float) -> str:
    """A length of time: `17.6 s`, `2.3 h`, `4.1 ms`."""
    for name, length in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 3 * length:
            return f"{seconds / length:.1f} {name}"
    if seconds >= 0.1:
        return f"{seconds:.2f} s"
    return f"{1e3 * seconds:.2f} ms" if seconds >= 1e-4 else f"{1e6 * seconds:.1f} µs"


def big(number: float) -> str:
    """A large count: `174.6 billion`, `12,400`."""
    for name, size in (("trillion", 1e12), ("billion", 1e9), ("million", 1e6)):
        if number >= size:
            return f"{number / size:.1f} {name}"
    return f"{number:,.0f}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Lines of a table: numbers right, words left."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(line[nth]) for line in lines) for nth in range(len(header))]
    right = [all(_is_number(line[nth]) for line in lines[1:]) for nth in range(len(header))]
    for line in lines:
        cells = [
            cell.rjust(size) if at_right else cell.ljust(size)
            for cell, size, at_right in zip(line, widths, right, strict=True)
        ]
        yield "  " + "  ".join(cells).rstrip()


def _is_number(text: str) -> bool:
    return text[:1].isdigit() or text == "-"
