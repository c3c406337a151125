"""What did the host do while its device had nothing to do?

Per rank and step. `stalled_ns` is the time in which the device is idle because the host was late (`host_late_ns` of
`idle`), or on a CPU trace the time in which the rank neither computes nor communicates nor waits for another rank. Of
it `loading_ns` lies in spans of data loading, `collection_ns` in garbage collection, `profiling_ns` in the profiler's
own work (category `overhead`), `synchronizing_ns` in gaps that begin when the host, in a call that waits for the
device, could not launch anything ahead; the rest, `launching_ns`, is Python and the launches themselves. What several
tell goes to the first in this order; the five sum to `stalled_ns`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from tracekit.errors import NotMeasured
from tracekit.idling import HOST_LATE, idle_by_cause
from tracekit.intervals import EMPTY, Spans, gaps, intersect, subtract, union
from tracekit.model import DATA_LOADING, GARBAGE_COLLECTION, LAUNCH, OVERHEAD, SYNCHRONIZE, Asked, Column, RankTables
from tracekit.waiting import exposed_wait, with_waits

COLUMNS = {
    "rank": Column(),
    "step": Column(),
    "stalled_ns": Column("ns", better="down"),
    "loading_ns": Column("ns", better="down"),
    "collection_ns": Column("ns", better="down"),
    "profiling_ns": Column("ns", better="down"),
    "synchronizing_ns": Column("ns", better="down"),
    "launching_ns": Column("ns", better="down"),
}


def measure(asked: Asked) -> pd.DataFrame:
    """One row per rank and step; NotMeasured where the run has no step."""
    rows = with_waits(asked.run).map(_of_rank)
    if rows.empty:
        raise NotMeasured("the run has no step")
    return rows


def _of_rank(one: RankTables) -> pd.DataFrame:
    stalled = _idle_program(one) if one.on_cpu else idle_by_cause(one)[HOST_LATE]
    loading = intersect(stalled, _spans(one, DATA_LOADING))
    rest = subtract(stalled, loading)
    collection = intersect(rest, _spans(one, GARBAGE_COLLECTION))
    rest = subtract(rest, collection)
    profiling = intersect(rest, _spans(one, OVERHEAD))
    rest = subtract(rest, profiling)
    synchronizing = EMPTY if one.on_cpu else intersect(rest, _behind_synchronization(one, stalled))
    parts = (stalled, loading, collection, profiling, synchronizing, subtract(rest, synchronizing))
    return pd.DataFrame({
        "step": one.steps["step"],
        **{name: one.per_step(part) for name, part in zip(list(COLUMNS)[2:], parts, strict=True)},
    })  # fmt: skip


def _idle_program(one: RankTables) -> Spans:
    """Where a CPU trace shows no work of the rank, and no wait for another."""
    if one.steps.empty:
        return EMPTY
    busy = union(one.work["start_ns"].to_numpy(), one.work["end_ns"].to_numpy())
    idle = gaps(busy, int(one.steps["start_ns"].min()), int(one.steps["end_ns"].max()))
    return subtract(idle, exposed_wait(one))


def _spans(one: RankTables, kind: str) -> Spans:
    rows = one.host[one.host["kind"] == kind]
    return union(rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy())


def _behind_synchronization(one: RankTables, stalled: Spans) -> Spans:
    """The gaps at whose beginning a thread that launches work waited for the device."""
    host = one.host
    launching = host.loc[host["kind"] == LAUNCH, "lane"].unique()
    calls = host[(host["kind"] == SYNCHRONIZE) & host["lane"].isin(launching)]
    waits = union(calls["start_ns"].to_numpy(), calls["end_ns"].to_numpy())
    nth = np.searchsorted(waits.starts, stalled.starts, side="right") - 1
    behind = (nth >= 0) & (stalled.starts < np.append(waits.ends, 0)[nth])
    return Spans(stalled.starts[behind], stalled.ends[behind])
