"""What of a run can be gated: every column whose measure says which way is better, a number for each step.

A metric is named `measure.column`, or `measure.column[key, ...]` where the measure tells groups, operations or axes
apart. Names that people use (`step`, `bubble`) stand for some of them. Values are means over the ranks (peaks: the
highest), one for each step that is complete on all ranks; of measures that tell no steps there is one for the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
import pandas as pd

from tracekit.analysis import Analysis, measure_columns, measure_names
from tracekit.compare.account import Figure
from tracekit.errors import NotMeasured
from tracekit.model import MEMORY, Column, RankTables, Run

HEADLINES = {
    "step": "breakdown.step_ns",
    "compute": "breakdown.compute_ns",
    "exposed_comm": "breakdown.exposed_comm_ns",
    "exposed_memory": "breakdown.exposed_memory_ns",
    "comm": "breakdown.comm_ns",
    "idle": "breakdown.idle_ns",
    "host_late": "idle.host_late_ns",
    "stream_wait": "idle.stream_wait_ns",
    "launch_latency": "idle.launch_latency_ns",
    "bubble": "pipeline.bubble_frac",
    "overlap": "overlap.overlap_frac",
    "wait": "ranks.wait_ns",
    "busbw": "bandwidth.busbw_gbs",
    "kernels": "counts.kernels",
    "copies": "counts.copies",
    "copied": "copies.bytes",
    "memory": "memory.peak_allocated_bytes",
    "reserved": "memory.peak_reserved_bytes",
}
"""Names that people use; `NAME[key]` is the metric's with that key."""
KEYED_HEADLINES = {"exposed_comm": "exposed.exposed_ns"}
"""What a name stands for when it is followed by a key: `exposed_comm[data]`."""
WORSE_UP = ("breakdown.compute_ns", "counts.kernels", "counts.copies")
"""Less of these is better for the gate, although what is better for a step is not told by them alone."""
KEYS = ("axis", "group", "op", "direction", "link", "from_bytes", "action", "blamed_rank", "name")
"""Columns that tell metrics apart; other keys (stage, device, ...) are averaged over."""
AVERAGED = {"pipeline": ("group",), "kernels": ("kind",)}
"""Keys of some measures that are averaged over, too."""
PEAKS = ("memory",)
STEP_BY_STEP = ("bandwidth", "collectives")
"""Measures without steps that are quickly taken of each step for itself."""
SUMS = {"kernels": ("total_ns",), "blame": ("wait_ns", "exposed_wait_ns")}
"""Columns that are sums over the run: they are told per step."""
LEAST_WORK_FRAC = 0.001
"""Kernels that take less of a rank's work than this are no metric of their own."""

Unit = Literal["ns", "bytes", "GB/s", "frac", "count"]
Better = Literal["up", "down"]


@dataclass(frozen=True)
class Series:
    """A metric's values in the run's steps, in order; `better` is up or down."""

    unit: Unit
    better: Better
    values: tuple[Figure, ...]


def metrics_of(analysis: Analysis) -> dict[str, Series]:
    """All metrics that the run's measures give, by name; values that are no number are left out."""
    found: dict[str, Series] = {}
    ranks, complete = analysis.run.ranks["rank"].nunique(), _complete(analysis.run)
    for measure in measure_names():
        columns = {
            name: column for name, column in measure_columns(measure).items() if _direction(measure, name, column)
        }
        if columns:
            rows = _rows(analysis, measure)
            if rows is not None and len(rows):
                every = len(complete) if "step" in measure_columns(measure) else 0
                found.update(_of_measure(measure, columns, rows, ranks, every))
    return found | _counts(analysis.run)


def full_names(name: str, known: Iterable[str]) -> list[str]:
    """The metrics that a name stands for, `NAME` or `NAME[key]`, among those that are known."""
    stem, bracket, key = name.partition("[")
    metric = KEYED_HEADLINES.get(stem, HEADLINES.get(stem, stem)) if bracket else HEADLINES.get(stem, stem)
    exact = f"{metric}{bracket}{key}"
    return [one for one in known if one == exact or (not bracket and one.startswith(f"{exact}["))]


def _direction(measure: str, name: str, column: Column) -> Better | None:
    return column.better or ("down" if f"{measure}.{name}" in WORSE_UP else None)


def _rows(analysis: Analysis, measure: str) -> pd.DataFrame | None:
    """The measure's rows with `at`, the number of the step from 0; None where it is not measured."""
    steps = _complete(analysis.run)
    if not len(steps):
        return None
    try:
        rows = analysis[measure]
    except NotMeasured:
        return None
    if "step" in measure_columns(measure):
        keys = [key for key in ("window", "step") if key in rows]
        return rows.merge(steps[[*keys, "at"]].drop_duplicates(keys), on=keys)
    if measure in STEP_BY_STEP:
        return _step_by_step(analysis.run, measure, steps)
    return _of_whole_run(rows, analysis.run, SUMS.get(measure, ()))


def _complete(run: Run) -> pd.DataFrame:
    """Steps that are complete on all ranks that have them: `window`, `step`, `at`."""
    complete = run.steps.groupby(["window", "step"])["complete"].all()
    kept = complete[complete].index.to_frame(index=False)
    return kept.assign(at=np.arange(len(kept)))


def _step_by_step(run: Run, measure: str, steps: pd.DataFrame) -> pd.DataFrame | None:
    parts = []
    for step, at in zip(steps["step"].tolist(), steps["at"].tolist(), strict=True):
        try:
            parts.append(Analysis(run.only_steps(step, step))[measure].assign(at=at))
        except NotMeasured:
            continue
    return pd.concat(parts, ignore_index=True) if parts else None


def _of_whole_run(rows: pd.DataFrame, run: Run, sums: tuple[str, ...]) -> pd.DataFrame:
    if "work_frac" in rows:
        rows = rows[rows["work_frac"] >= LEAST_WORK_FRAC]
    steps = run.steps.groupby("rank")["complete"].agg(lambda complete: complete.sum() or len(complete))
    return rows.assign(at=0, **{name: rows[name] / rows["rank"].map(steps) for name in sums})


def _of_measure(
    measure: str, columns: dict[str, Column], rows: pd.DataFrame, ranks: int, every: int
) -> Iterator[tuple[str, Series]]:
    """The measure's metrics; `every` is the number of complete steps where it tells steps, else 0."""
    keys = [key for key in KEYS if key in rows and key not in AVERAGED.get(measure, ())]
    per_rank = ranks if "rank" in rows else 1
    steps = list(range(every)) or sorted(set(rows["at"].tolist()))
    groups = rows.groupby(keys, dropna=False, sort=True) if keys else [((), rows)]
    for key, held in groups:
        for name, column in columns.items():
            unit, better = unit_of(name, column), _direction(measure, name, column)
            values = _values(measure, name, unit, held, per_rank, steps)
            if values and better:
                yield metric_name(measure, name, key), Series(unit, better, values)


def metric_name(measure: str, column: str, key: tuple[object, ...]) -> str:
    """`measure.column[key, ...]`, sizes without a fraction."""
    told = ",".join(str(int(one)) if isinstance(one, float) and one.is_integer() else str(one) for one in key)
    return f"{measure}.{column}" + (f"[{told}]" if key else "")


def unit_of(name: str, column: Column) -> Unit:
    """ns, bytes, GB/s, frac (a share) or count."""
    if column.unit != "1":
        return cast(Unit, column.unit)
    return "frac" if name.endswith("_frac") else "count"


def _values(measure: str, name: str, unit: str, rows: pd.DataFrame, ranks: int, steps: list[int]) -> tuple[float, ...]:
    known = rows[["at"]].assign(value=pd.to_numeric(rows[name], errors="coerce").astype("float64"))
    known = known[np.isfinite(known["value"])]
    by_step = known.groupby("at")["value"]
    if not len(known):
        return ()
    if measure in PEAKS:
        values = by_step.max()
    elif unit in ("frac", "GB/s"):
        values = by_step.mean()
    else:  # what a rank does not have in a step is nothing of it, but what is not known of a rank is not
        unknown = (len(rows) - len(known)) / max(len(steps), 1)
        values = by_step.sum().reindex(steps, fill_value=0.0) / max(ranks - unknown, 1)
    return tuple(float(value) for value in values)


def _counts(run: Run) -> dict[str, Series]:
    """Kernels and copies of a rank in each step, by the step that launched them."""
    steps = _complete(run)
    rows = run.map(_counted)
    if not len(rows) or not len(steps):
        return {}
    sums = rows.groupby("step")[["kernels", "copies"]].sum() / run.ranks["rank"].nunique()
    held = sums.reindex(sorted(set(steps["step"].tolist()))).dropna()
    return {
        f"counts.{name}": Series("count", "down", tuple(float(value) for value in held[name]))
        for name in ("kernels", "copies")
        if len(held)
    }


def _counted(one: RankTables) -> pd.DataFrame:
    work = one.work
    rows = pd.DataFrame({"step": work["step"].to_numpy(), "copy": (work["kind"] == MEMORY).to_numpy()})
    rows = rows[rows["step"].isin(one.steps["step"])]
    groups = rows.groupby("step")["copy"].agg(copies="sum", all="size").reset_index()
    return groups.assign(kernels=groups["all"] - groups["copies"])[["step", "kernels", "copies"]].astype("int64")
