"""Which kernels take the time?

Per rank and kernel, over its complete steps (over all where none is complete): `calls` run in these steps, `total_ns`
is the sum of their time inside the steps, `mean_ns` that of one call, `per_step_ns` that of one step. `step_frac` is
the total's share of the steps' time; calls that run at once count each, so these shares may sum to more than 1.
`work_frac` is its share of the total of all the rank's kernels and copies. The rank's longest total stands first. In a
CPU trace operators stand for kernels, each with its self time: without the operators that it calls on its thread.
Count, sum and mean as in HTA's kernel breakdown, but clipped to the steps.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from tracekit.errors import NotMeasured
from tracekit.intervals import Nanoseconds, Spans, length_within, union
from tracekit.model import Asked, Column, RankTables

COLUMNS = {
    "rank": Column(),
    "kind": Column(),
    "name": Column(),
    "calls": Column("1"),
    "total_ns": Column("ns", better="down"),
    "mean_ns": Column("ns", better="down"),
    "per_step_ns": Column("ns", better="down"),
    "step_frac": Column("1", better="down"),
    "work_frac": Column("1"),
}


def measure(asked: Asked) -> pd.DataFrame:
    """One row per rank, kind and name; NotMeasured where nothing runs in any step."""
    rows = asked.run.map(_of_rank)
    if rows.empty:
        raise NotMeasured("the run has no kernel, copy or operator in any step")
    return rows


def _of_rank(one: RankTables) -> pd.DataFrame:
    steps = one.steps[one.steps["complete"]] if one.steps["complete"].any() else one.steps
    windows = union(steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy())
    step_ns = int((steps["end_ns"] - steps["start_ns"]).sum())
    work = one.work[_runs_in(windows, one.work)]
    time = _self_time(work, windows) if one.on_cpu else _time(work, windows)
    rows = (
        work[["kind"]].assign(name=_names(work["name"]), time=time)
        .groupby(["kind", "name"], observed=True)["time"]
        .agg(["size", "sum"]).reset_index()
    )  # fmt: skip
    calls, total = rows["size"].astype("int64"), rows["sum"].astype("int64")
    return pd.DataFrame({
        "kind": rows["kind"].astype("str"), "name": rows["name"].astype("str"), "calls": calls, "total_ns": total,
        "mean_ns": (total / calls).round().astype("int64"),
        "per_step_ns": (total / max(len(steps), 1)).round().astype("int64"),
        "step_frac": total / max(step_ns, 1), "work_frac": total / max(int(total.sum()), 1),
    }).sort_values(["total_ns", "name"], ascending=[False, True], ignore_index=True)  # fmt: skip


def _names(names: pd.Series) -> pd.Categorical:
    """The rows' names; waits for sends and receives, each of which names its call, under one name."""
    told = names.cat.categories.str.replace(r"^(wait:\w+) .*", r"\1", regex=True)
    codes, labels = pd.factorize(told)
    return pd.Categorical.from_codes(np.append(codes, -1)[names.cat.codes], categories=labels)


def _time(work: pd.DataFrame, windows: Spans) -> Nanoseconds:
    """Each row's time inside the windows."""
    return length_within(windows, work["start_ns"].to_numpy(), work["end_ns"].to_numpy())


def _runs_in(windows: Spans, work: pd.DataFrame) -> pd.Series:
    """Whether a row has time inside the windows or, without length, starts in one."""
    starts = work["start_ns"].to_numpy()
    return pd.Series(length_within(windows, starts, np.maximum(work["end_ns"].to_numpy(), starts + 1)) > 0, work.index)


def _self_time(work: pd.DataFrame, windows: Spans) -> Nanoseconds:
    """Each row's time inside the windows without that of the rows nested directly in it on its lane."""
    time = pd.Series(_time(work, windows), work.index)
    for _, lane in work.groupby("lane", observed=True):
        long = lane[lane["end_ns"] > lane["start_ns"]]
        nested = long.iloc[np.lexsort((-long["end_ns"].to_numpy(), long["start_ns"].to_numpy()))]
        parent = _parents(nested)
        inner = nested[parent >= 0].assign(parent=nested.index.to_numpy()[parent[parent >= 0]])
        within = inner.assign(end_ns=np.minimum(inner["end_ns"], nested["end_ns"].loc[inner["parent"]].to_numpy()))
        covered = pd.Series(_time(within, windows)).groupby(inner["parent"].to_numpy()).sum()
        time = time.sub(covered, fill_value=0)
    return time.loc[work.index].to_numpy(np.int64)


def _parents(nested: pd.DataFrame) -> Nanoseconds:
    """For each row of a lane, by start and the longer first, the position of the row that encloses it; -1 for none."""
    ended = np.searchsorted(np.sort(nested["end_ns"].to_numpy()), nested["start_ns"].to_numpy(), side="right")
    depth = np.arange(len(nested)) - ended
    parent = np.full(len(nested), -1)
    for level in range(1, int(depth.max(initial=0)) + 1):
        outer, mine = np.flatnonzero(depth == level - 1), np.flatnonzero(depth == level)
        parent[mine] = outer[np.searchsorted(outer, mine) - 1]
    return parent
