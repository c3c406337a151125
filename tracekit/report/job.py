"""The upper part of the screen: the job as one. Its layout, who waits for whom, its bubble, its links and clocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from rich.console import RenderableType

from tracekit.analysis import Analysis
from tracekit.measures.layout import shape
from tracekit.report import details
from tracekit.report.account import in_complete_steps
from tracekit.report.lines import labelled, shares
from tracekit.waiting import SYNCHRONIZING
from tracekit.wording import counted, duration, percent, plain

NAMED_FRAC = 0.01
"""Who is to blame for less is not named."""
LARGE_BYTES = 1 << 20
"""Smaller messages tell a link's latency, not its bandwidth."""


def job_section(analysis: Analysis) -> Iterator[RenderableType]:
    """A line for each of `SENTENCES` that the run has something to say on."""
    return labelled(SENTENCES, analysis)


def _layout(analysis: Analysis) -> str:
    layout = analysis["layout"]
    sure = layout["confidence"].min()
    return shape(layout) + ("" if sure == 1 else f" (confidence {sure:.1f})")


def _waiting(analysis: Analysis) -> str:
    wait_ns = details.step_shares(analysis["ranks"], analysis.run, ["wait_ns"])["wait_ns"].sum()
    step_ns = in_complete_steps(analysis["breakdown"], analysis.run)["step_ns"].mean()
    blamed = details.blamed(analysis)
    if not blamed:
        return "no rank waits for another"
    told = f"{duration(wait_ns)} a step, {percent(wait_ns, step_ns)} of it: {shares(blamed, 'for rank ', NAMED_FRAC)}"
    return f"{told}; {shares(details.waits_by_operation(analysis), 'in ', NAMED_FRAC)}"


def _bubble(analysis: Analysis) -> str:
    rows = in_complete_steps(analysis["pipeline"], analysis.run)
    window_ns, busy_ns, bubble_ns = (rows[name].sum() for name in ("window_ns", "busy_ns", "bubble_ns"))
    told = f"{percent(bubble_ns, window_ns)} of the makespan"
    if busy_ns > 0:
        told += f", {percent(bubble_ns, busy_ns)} of the ideal time"
    if rows["theory_frac"].isna().any():
        return f"{told}; the schedule is none of those known"
    theory, ideal = rows["theory_frac"].mean(), rows["theory_ideal_frac"].mean()
    return f"{told}; in theory {percent(theory, 1)} and {percent(ideal, 1)} ({_schedule(rows)})"


def _schedule(rows: pd.DataFrame) -> str:
    """Schedule, stages and micro-batches, each as far as all pipelines have the same."""
    names = ", ".join(plain(str(name)) for name in sorted(set(rows["schedule"])))
    counts = {"ranks": "rank", "microbatches": "micro-batch"}
    same = [
        counted(int(rows[column].iloc[0]), thing, f"{thing}es" if thing.endswith("h") else "")
        for column, thing in counts.items()
        if rows[column].nunique() == 1
    ]
    return ", ".join([names, *same])


def _exposed(analysis: Analysis) -> str:
    by_operation = details.exposed_by(analysis, "overlap_operation", "op")
    if not by_operation:
        return ""
    told = f"{duration(sum(by_operation.values()))} a step: {shares(by_operation)}"
    by_axis, by_group = details.exposed_by_axis(analysis), details.exposed_by(analysis, "overlap_group", "group")
    if len(by_axis) > 1:
        return f"{told}; by axis {shares(by_axis)}"
    return f"{told}; by group {shares(by_group)}" if len(by_group) > 1 and not by_axis else told


def _bandwidth(analysis: Analysis) -> str:
    speeds = details.bus_bandwidth(analysis, LARGE_BYTES)
    return ", ".join(f"{plain(what)} {gbs:,.4g} GB/s" for what, gbs in speeds.items()) + " on the bus" if speeds else ""


def _clocks(analysis: Analysis) -> str:
    ranks, spread_ns = analysis.run.ranks, details.ends_apart_ns(analysis.run, SYNCHRONIZING)
    if not len(spread_ns):
        return ""
    offset_ns, error_ns = ranks["clock_offset_ns"].fillna(0).abs(), ranks["clock_error_ns"].max()
    moved = int((offset_ns > 0).sum())
    error = "" if pd.isna(error_ns) else f", give or take {duration(error_ns)}"
    told = f"{moved} of {counted(len(ranks), 'file')} put right by up to {duration(offset_ns.max())}{error}; "
    median, most = np.median(spread_ns), np.quantile(spread_ns, 0.95)
    ends = f"members of a call end {duration(median)} apart (median), {duration(most)} (95 %)"
    return f"{told if moved else ''}{ends}"


SENTENCES: dict[str, Callable[[Analysis], str]] = {
    "layout": _layout,
    "waiting": _waiting,
    "bubble": _bubble,
    "exposed comm": _exposed,
    "bandwidth": _bandwidth,
    "clocks": _clocks,
}
