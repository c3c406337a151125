"""A plan beside a measured run: memory, bytes per axis, exposed communication, bubble, step time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pandas as pd

from tracekit import axes
from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured
from tracekit.plan.communication import CONTEXT, PIPELINE, calls
from tracekit.plan.layout import Layout
from tracekit.plan.step import Prediction
from tracekit.report.account import in_complete_steps
from tracekit.report.plan_text import span, table

AXES = ("tensor", "context", "expert", "data", "gradients", "pipeline")


@dataclass(frozen=True)
class Row:
    """One quantity planned and measured; where one of them is missing, `why` says so."""

    what: str
    unit: str
    planned: float | None
    measured: float | None
    why: str = ""


def verified(plan: Prediction, analysis: Analysis, state_bytes: float | None = None) -> list[Row]:
    """The plan's quantities beside the run's, means over complete steps and the worst rank where that is what counts.

    `state_bytes` are what the run says its fullest rank held of weights, gradients and optimizer states.
    """
    memory = plan.memory
    rows = []
    if state_bytes is not None:
        states = memory.weights + memory.gradients + memory.optimizer
        rows.append(Row("states on the fullest rank", "B", states, state_bytes))
    return [
        *rows,
        _row("peak memory", "B", memory.total, lambda: float(analysis["memory"]["peak_allocated_bytes"].max())),
        *_volumes(plan, analysis),
        *_exposed(plan, analysis),
        _bubble(plan, analysis),
        _row("compute", "s", plan.compute, lambda: _mean(analysis, "compute_ns") / 1e9),
        _row("step", "s", plan.seconds, lambda: _mean(analysis, "step_ns") / 1e9),
    ]


def _row(what: str, unit: str, planned: float | None, measured: Callable[[], float]) -> Row:
    try:
        return Row(what, unit, planned, measured())
    except NotMeasured as why:
        return Row(what, unit, planned, None, str(why))


def _mean(analysis: Analysis, column: str) -> float:
    """Of the rank on which it is largest, mean over complete steps."""
    rows = in_complete_steps(analysis["breakdown"], analysis.run)
    return float(rows.groupby("rank")[column].mean().max())


def _volumes(plan: Prediction, analysis: Analysis) -> Iterator[Row]:
    planned = _planned_volumes(plan)
    try:
        measured = _measured_volumes(plan.layout, analysis)
    except NotMeasured as absent:
        for axis, size in sorted(planned.items()):
            yield Row(f"sent along {axis}", "B", size, None, str(absent))
        return
    for axis in sorted({*planned, *measured}):
        sent = measured.get(axis)
        why = "" if sent is not None else "the run has no such call, or does not tell its size"
        yield Row(f"sent along {axis}", "B", planned.get(axis, 0.0), sent, why)


def _planned_volumes(plan: Prediction) -> dict[str, float]:
    """Bytes that the rank with most sends along each axis: at either end of a pipeline, or between."""
    most: dict[str, float] = {}
    for place in {0, min(1, plan.layout.pipeline - 1), plan.layout.pipeline - 1}:
        of_place: dict[str, float] = {}
        for call in calls(plan.model, plan.layout, plan.precision, place):
            name = _named(plan.layout, call.group, call.op)
            of_place[name] = of_place.get(name, 0.0) + call.sent_bytes
        most |= {name: max(size, most.get(name, 0.0)) for name, size in of_place.items()}
    return most


def _measured_volumes(layout: Layout, analysis: Analysis) -> dict[str, float]:
    """Bytes that the rank with most sends along each axis in a step, in rings."""
    rows = in_complete_steps(analysis["volume"], analysis.run)
    members = axes.members(analysis.run.calls, analysis.run.ranks["rank"].tolist())
    keys = rows[["group", "op"]].drop_duplicates().itertuples(index=False)
    named = {(group, op): _axis(layout, tuple(members.get(group, ())), op) for group, op in keys}
    told = [named[key] for key in zip(rows["group"].tolist(), rows["op"].tolist(), strict=True)]
    known = rows.assign(axis=told).dropna(subset=["ring_bytes"]).astype({"ring_bytes": "float64"})
    sent = known.groupby(["axis", "rank", "step"])["ring_bytes"].sum().groupby(["axis", "rank"]).mean()
    return {str(axis): float(size) for axis, size in sent.groupby("axis").max().items()}


def _axis(layout: Layout, members: tuple[int, ...], op: str) -> str:
    if op in ("send", "recv", "sendrecv"):
        return PIPELINE if layout.pipeline > 1 else CONTEXT
    wide = [axis for axis in AXES if layout.size(axis) > 1]
    found = [axis for axis in wide if sorted(members) in layout.groups(axis)]
    found = found or [axis for axis in wide if any(set(members) <= set(group) for group in layout.groups(axis))]
    if "expert" in found and op != "all_to_all" and len(found) > 1:
        found.remove("expert")
    return _named(layout, found[0], op) if found else "other groups"


def _named(layout: Layout, group: str, op: str) -> str:
    """Groups that cannot be told apart have one name."""
    if op in ("send", "recv", "sendrecv"):
        return PIPELINE if layout.pipeline > 1 else CONTEXT
    return "data" if group in ("gradients", "expert_data") else group


def _exposed(plan: Prediction, analysis: Analysis) -> Iterator[Row]:
    """By axis, mean over ranks. In a trace a receive that waits is exposed, so the bubble counts as the pipeline's."""
    planned = dict(plan.exposed)
    if plan.layout.pipeline > 1:
        planned[PIPELINE] = planned.get(PIPELINE, 0.0) + plan.bubble_frac * plan.makespan
    try:
        rows = in_complete_steps(analysis["exposed"], analysis.run)
    except NotMeasured as why:
        for axis, seconds in sorted(planned.items()):
            yield Row(f"exposed {axis}", "s", seconds, None, str(why))
        return
    measured = rows.groupby(["axis", "rank"])["exposed_ns"].mean().groupby("axis").mean() / 1e9
    for axis in sorted({*planned, *measured.index}):
        value = float(measured[axis]) if axis in measured.index else None
        yield Row(f"exposed {axis}", "s", planned.get(axis, 0.0), value, "" if value is not None else "no call")


def _bubble(plan: Prediction, analysis: Analysis) -> Row:
    planned = plan.bubble_frac if plan.layout.pipeline > 1 else None
    return _row("bubble, of the makespan", "1", planned, lambda: _measured_bubble(analysis))


def _measured_bubble(analysis: Analysis) -> float:
    rows: pd.DataFrame = in_complete_steps(analysis["pipeline"], analysis.run)
    return float(rows["bubble_ns"].sum() / rows["window_ns"].sum())


def verified_text(rows: list[Row]) -> str:
    """The rows as a table, and what could not be measured."""
    shown = [row for row in rows if row.planned is not None or row.measured is not None]
    lines = table(
        ("", "planned", "measured", "measured by planned"),
        [(row.what, _value(row.planned, row.unit), _value(row.measured, row.unit), _ratio(row)) for row in shown],
    )
    absent = [f"{row.what} is not measured: {row.why}" for row in shown if row.measured is None and row.why]
    return "\n".join([*lines, *([""] if absent else []), *absent]) + "\n"


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    if unit == "s":
        return span(value)
    if unit == "1":
        return f"{value:.1%}"
    return f"{value / 1e9:,.2f} GB" if value >= 1e8 else f"{value / 1e6:,.2f} MB"


def _ratio(row: Row) -> str:
    return f"{row.measured / row.planned:.2f}" if row.planned and row.measured is not None else "-"
