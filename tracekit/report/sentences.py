"""The lower half of the screen: a line each on idle, copies, host and memory; top kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from tracekit.analysis import Analysis
from tracekit.model import Run
from tracekit.report import details
from tracekit.report.lines import SHARES, labelled, shares
from tracekit.wording import duration, kernel_name, percent, plain, size, time_unit

CAUSES = {
    "host_late": "host late",
    "stream_wait": "waiting for another stream",
    "launch_latency": "launch latency",
    "unknown": "launch not in the trace",
}
HOST: dict[str, Callable[[float], str]] = {
    "launches": "{:,.0f} launches a step".format,
    "launch_delay_median_ns": lambda ns: f"launch delay {duration(ns)} (median)",
    "queue_mean": "{:,.1f} launches queued".format,
    "sync_ns": lambda ns: f"{duration(ns)} in synchronising calls",
    "data_loading_ns": lambda ns: f"{duration(ns)} in data loading",
    "garbage_collection_ns": lambda ns: f"{duration(ns)} in garbage collection",
}
KIND_STYLES = {"compute": "green", "comm": "magenta", "memory": "blue"}
KERNEL_ROWS = 6
SPEED_FROM_BYTES = 1 << 20
"""Fewer bytes a step tell how long a copy takes to begin, not how fast it is."""

Cells = tuple[str, ...]


def detail_section(analysis: Analysis) -> Iterator[RenderableType]:
    """A line for each of `SENTENCES` that the run has something to say on."""
    return labelled(SENTENCES, analysis)


def _idle(analysis: Analysis) -> str:
    causes = details.idle_by_cause(analysis)
    if not causes:
        return ""
    mean = f"{duration(sum(causes.values()))} a step: {_causes(causes)}"
    if analysis.run.ranks["rank"].nunique() == 1:
        return mean
    rank, most = details.most_idle(analysis)
    return f"{mean}; most on rank {rank}, {duration(sum(most.values()))}: {_causes(most)}"


def _causes(causes: details.Shares) -> str:
    return shares({CAUSES[cause]: ns for cause, ns in causes.items()})


def _copies(analysis: Analysis) -> str:
    return ", ".join(_copied(one) for one in details.copies(analysis)[:SHARES])


def _copied(one: details.Copies) -> str:
    amount = f"{one.copies:,.0f} times" if one.byte_count is None else size(one.byte_count)
    tells_speed = one.bandwidth_gbs is not None and (one.byte_count or 0) >= SPEED_FROM_BYTES
    speed = f" at {one.bandwidth_gbs:,.4g} GB/s" if tells_speed else ""
    return f"{plain(one.direction, 40).replace('_', ' ')} {amount}{speed}"


def _host(analysis: Analysis) -> str:
    means = details.host(analysis)
    return ", ".join(form(means[name]) for name, form in HOST.items() if means.get(name))


def _memory(analysis: Analysis) -> str:
    peak = details.peak_memory(analysis)
    reserved = f", {size(peak.reserved_bytes)} reserved" if peak.reserved_bytes else ""
    return (
        f"{size(peak.allocated_bytes)} allocated{reserved} "
        f"(rank {peak.rank}, step {peak.step}, {plain(peak.device, 40)})"
    )


def kernel_section(analysis: Analysis, width: int) -> Iterator[RenderableType]:
    """The kernels (or operators) that take the most time, their names as long as the width allows."""
    kernels = details.top_kernels(analysis, KERNEL_ROWS)
    headings, numbers = _kernel_numbers(kernels)
    used = sum(max(map(len, column)) + 2 for column in zip(headings, *numbers, strict=True))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("name", no_wrap=True)
    for one, cells in zip(kernels, numbers, strict=True):
        name = kernel_name(one.name, max(width - used, 20))
        table.add_row(*cells, Text(name, style=KIND_STYLES.get(one.kind, "")))
    yield Text(_kernel_title(analysis.run), style="bold")
    yield table


def _kernel_numbers(kernels: list[details.Kernel]) -> tuple[Cells, list[Cells]]:
    """The headings of a kernel's numbers, and each kernel's numbers."""
    unit = time_unit(max((one.per_step_ns for one in kernels), default=0))
    return (unit.name, "%", "calls", "mean"), [
        (
            unit.of(one.per_step_ns),
            percent(one.step_frac, 1).removesuffix(" %"),
            f"{one.calls:,.1f}".removesuffix(".0"),
            duration(one.mean_ns),
        )
        for one in kernels
    ]


def _kernel_title(run: Run) -> str:
    what = "operators" if (run.ranks["device"] == "cpu").all() else "kernels"
    return f"Top {what} a step{', mean over the ranks' if run.ranks['rank'].nunique() > 1 else ''}"


SENTENCES: dict[str, Callable[[Analysis], str]] = {
    "idle": _idle,
    "copies": _copies,
    "host": _host,
    "peak memory": _memory,
}
