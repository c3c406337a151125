"""Why is each rank's device idle?

`idle_ns` is the breakdown's. Each gap, in which nothing runs on any lane, is told by the work that ends it: until the
host launched that work the gap is `host_late_ns`; the rest is `stream_wait_ns` if a wait for another stream was issued
on the work's lane between the launch before it and its own, else `launch_latency_ns`. Where work of several lanes ends
the gap at once, the one launched first counts. `unknown_ns` are gaps before work whose launch is not in the file. A gap
that no work ends is the host's: it launched nothing more. Work of no length ends no gap. The four sum to `idle_ns`.
The idea is HTA's idle time breakdown (host wait, kernel wait, other), told by launches instead of by a threshold.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.errors import NotMeasured
from tracekit.intervals import EMPTY, Spans, gaps, union
from tracekit.model import NO_TIME, STREAM_WAIT, Asked, Column, RankTables

COLUMNS = {
    "rank": Column(),
    "step": Column(),
    "idle_ns": Column("ns", better="down"),
    "host_late_ns": Column("ns", better="down"),
    "stream_wait_ns": Column("ns", better="down"),
    "launch_latency_ns": Column("ns", better="down"),
    "unknown_ns": Column("ns"),
}
CAUSES = ["host_late_ns", "stream_wait_ns", "launch_latency_ns", "unknown_ns"]
NEVER = np.iinfo(np.int64).max


def measure(asked: Asked) -> pd.DataFrame:
    """One row per rank and step; NotMeasured for traces without a device."""
    rows = asked.run.map(_of_rank)
    if rows.empty:
        on_cpu = (asked.run.ranks["device"] == "cpu").all()
        raise NotMeasured("the run has no device that could be idle" if on_cpu else "the run has no step")
    return rows


def _of_rank(one: RankTables) -> pd.DataFrame:
    if one.on_cpu:
        return pd.DataFrame(columns=["step", "idle_ns", *CAUSES])
    causes = {name: one.per_step(spans) for name, spans in _causes(one).items()}
    return pd.DataFrame({"step": one.steps["step"], "idle_ns": sum(causes.values()), **causes})


def _causes(one: RankTables) -> dict[str, Spans]:
    """The time in which the device is idle, told apart by cause."""
    work = _by_start(one.work)
    idle = _idle(one.steps, work)
    ender = np.searchsorted(work["start_ns"].to_numpy(), idle.ends, side="left")
    launch = np.append(work["launch_ns"].to_numpy(), NEVER)[ender]
    waited = np.append(_behind_a_wait(work, one.host), False)[ender]
    launched = np.clip(launch, idle.starts, idle.ends)
    known = launch != NO_TIME
    return {
        "host_late_ns": union(idle.starts[known], launched[known]),
        "stream_wait_ns": union(launched[known & waited], idle.ends[known & waited]),
        "launch_latency_ns": union(launched[known & ~waited], idle.ends[known & ~waited]),
        "unknown_ns": union(idle.starts[~known], idle.ends[~known]),
    }


def _by_start(work: pd.DataFrame) -> pd.DataFrame:
    """Work that has length, by start; of work that starts at once, the one launched first stands first."""
    work = work[work["end_ns"] > work["start_ns"]]
    launch = work["launch_ns"].to_numpy()
    return work.iloc[np.lexsort((np.where(launch == NO_TIME, NEVER, launch), work["start_ns"].to_numpy()))]


def _idle(steps: pd.DataFrame, work: pd.DataFrame) -> Spans:
    """Where no work runs, from the first step to the last."""
    if steps.empty:
        return EMPTY
    busy = union(work["start_ns"].to_numpy(), work["end_ns"].to_numpy())
    return gaps(busy, int(steps["start_ns"].min()), int(steps["end_ns"].max()))


def _behind_a_wait(work: pd.DataFrame, host: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Whether a wait for another stream was issued on the work's lane after the launch before it, up to its own."""
    behind = np.zeros(len(work), bool)
    waits = host[host["kind"] == STREAM_WAIT]
    launch = work["launch_ns"].to_numpy()
    for name, rows in waits.groupby("lane", observed=True):
        issued = np.sort(np.where(rows["launch_ns"] == NO_TIME, rows["start_ns"], rows["launch_ns"]))
        mine = np.flatnonzero((work["lane"] == name) & (launch != NO_TIME))
        launches = np.unique(launch[mine])
        before = np.append(NO_TIME, launches)[np.searchsorted(launches, launch[mine], side="left")]
        up_to_it = np.searchsorted(issued, launch[mine], side="right")
        behind[mine] = up_to_it > np.searchsorted(issued, before, side="right")
    return behind
