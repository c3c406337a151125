"""Every instant of a rank's steps is given to what runs in it, so that the parts add up to the steps.

An instant belongs to compute where anything is computed, else to communication, else to copies, else it is idle: the
split of `breakdown`. Where several pieces of the winning kind run at once they share it equally. On a CPU trace
operators nest: an instant goes to the innermost on its thread, and threads share.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.intervals import Spans, length_within, union
from tracekit.model import COMM, COMPUTE, WORK_KINDS, RankTables, table

Floats = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]

LONGEST_ORDER = 64
"""Later calls of a kernel within a step are told together."""
ROWS = {
    "kind": "str", "name": "str", "shape": "str", "nth": "int64", "calls": "float64", "ns": "float64",
    "total_ns": "float64", "place": "float64",
}  # fmt: skip
"""One rank's work, means per complete step: `nth` of the step's calls of this name and shape, what it adds to the step
(`ns`), how long it runs (`total_ns`), and after how much of the step's work it starts (`place`)."""

GAPS = {"name": "str", "gaps": "float64", "ns": "float64"}


def attributed(one: RankTables) -> pd.DataFrame:
    """The rows of `ROWS` of one rank; empty where it has no step."""
    steps = complete_steps(one)
    if not len(steps):
        return table(ROWS)
    windows = union(steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy())
    work = _shaped(one, one.work[_reaches(windows, one.work)])
    shares = _shares(work, windows, one.on_cpu)
    inside = length_within(windows, work["start_ns"].to_numpy(), work["end_ns"].to_numpy())
    at = np.searchsorted(steps["start_ns"].to_numpy(), work["start_ns"].to_numpy(), side="right")
    keys = ["kind", "name", "shape"]
    told = work[keys].astype("str").assign(ns=shares, total_ns=inside.astype(float), step=at)
    told["nth"] = told.groupby(["step", *keys]).cumcount().clip(upper=LONGEST_ORDER)
    in_step = told.groupby("step")
    told["place"] = in_step.cumcount() / in_step["ns"].transform("size")
    rows = told.groupby([*keys, "nth"]).agg(
        calls=("ns", "size"), ns=("ns", "sum"), total_ns=("total_ns", "sum"), place=("place", "mean")
    ).reset_index()  # fmt: skip
    for name in ("calls", "ns", "total_ns"):
        rows[name] = rows[name] / len(steps)
    return rows.astype(ROWS)[list(ROWS)]


def complete_steps(one: RankTables) -> pd.DataFrame:
    """The rank's complete steps, or all of them where none is."""
    return one.steps[one.steps["complete"]] if one.steps["complete"].any() else one.steps


def gaps_before(one: RankTables) -> pd.DataFrame:
    """Idle time per complete step by the work that ends it: `name`, `gaps` and `ns`."""
    steps, work = complete_steps(one), one.work[one.work["end_ns"] > one.work["start_ns"]]
    if not len(steps) or not len(work):
        return table(GAPS)
    busy = union(work["start_ns"].to_numpy(), work["end_ns"].to_numpy())
    windows = union(steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy())
    free = length_within(windows, busy.ends[:-1], busy.starts[1:])
    first = np.searchsorted(work["start_ns"].to_numpy(), busy.starts[1:], side="left")
    rows = pd.DataFrame({"name": work["name"].astype("str").to_numpy()[first], "ns": free / len(steps)})
    rows = rows[rows["ns"] > 0]
    return rows.groupby("name")["ns"].agg(gaps="size", ns="sum").reset_index().assign(
        gaps=lambda told: told["gaps"] / len(steps)
    )  # fmt: skip


def _reaches(windows: Spans, work: pd.DataFrame) -> npt.NDArray[np.bool_]:
    starts = work["start_ns"].to_numpy()
    return np.asarray(length_within(windows, starts, np.maximum(work["end_ns"].to_numpy(), starts + 1)) > 0)


def _shaped(one: RankTables, work: pd.DataFrame) -> pd.DataFrame:
    """The work with `shape`: a kernel's own, the size of copies and calls; a call is named by operation and group."""
    calls = one.calls[["lane", "start_ns", "group", "op", "bytes"]].drop_duplicates(["lane", "start_ns"])
    told = work[["lane", "start_ns"]].astype({"lane": "str"}).merge(calls, on=["lane", "start_ns"], how="left")
    communicates = (work["kind"] == COMM).to_numpy()
    size = work["bytes"].reset_index(drop=True)
    size = size.where(~communicates, told["bytes"].astype("Int64"))
    sizes = size.map(lambda count: "" if pd.isna(count) else f"{count} B").astype("str")
    own = work["shape"].astype("str").fillna("").reset_index(drop=True)
    shape = sizes.where(pd.Series((work["kind"] != COMPUTE).to_numpy()), own)
    named = work["name"].astype("str").reset_index(drop=True)
    call = (told["op"].fillna("") + " " + told["group"].fillna("")).str.strip()
    name = named.where(~(pd.Series(communicates) & (call != "")), call)
    return work.reset_index(drop=True).assign(name=name, shape=shape)


def _shares(work: pd.DataFrame, windows: Spans, on_cpu: bool) -> Floats:
    """Nanoseconds of the windows that each row is given."""
    starts, ends = work["start_ns"].to_numpy(), work["end_ns"].to_numpy()
    edges = np.unique(np.concatenate((starts, ends, windows.starts, windows.ends)))
    first, last = np.searchsorted(edges, starts), np.searchsorted(edges, ends)
    free = length_within(windows, edges[:-1], edges[1:]).astype(float)
    shares = np.zeros(len(work))
    for kind in WORK_KINDS:
        mine = np.flatnonzero((work["kind"] == kind).to_numpy())
        parents = _parents(work.iloc[mine]) if on_cpu and kind == COMPUTE else np.full(len(mine), -1, np.intp)
        outer = mine[parents < 0]
        steps = np.zeros(len(edges))
        np.add.at(steps, first[outer], 1)
        np.add.at(steps, last[outer], -1)
        cover = np.cumsum(steps)[:-1]
        weight = np.where(cover > 0, free / np.maximum(cover, 1), 0.0)
        before = np.concatenate(([0.0], np.cumsum(weight)))
        shares[mine] = before[last[mine]] - before[first[mine]]
        nested = parents >= 0
        np.subtract.at(shares, mine[parents[nested]], (before[last] - before[first])[mine[nested]])
        free = np.where(cover > 0, 0.0, free)
    return shares


def _parents(rows: pd.DataFrame) -> Index:
    """For each row the position of the row of its lane that encloses it most closely, -1 for none."""
    parents = np.full(len(rows), -1, np.intp)
    lanes = rows["lane"].astype("str").to_numpy()
    starts, ends = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
    for lane in np.unique(lanes):
        held = np.flatnonzero(lanes == lane)
        held = held[np.lexsort((-ends[held], starts[held]))]
        open_rows: list[int] = []
        for row in held.tolist():
            while open_rows and ends[open_rows[-1]] < ends[row]:
                open_rows.pop()
            while open_rows and ends[open_rows[-1]] <= starts[row]:
                open_rows.pop()
            parents[row] = open_rows[-1] if open_rows else -1
            open_rows.append(row)
    return parents
