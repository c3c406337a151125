"""Why a rank's device is idle, as sets of time: what `measures.idle` counts and `measures.stalls` looks into.

Each gap, in which nothing runs on any lane, is told by the work that ends it: until the host launched that work the
host was late; the rest is a wait for another stream if one was issued on the work's lane between the launch before it
and its own, else the launch's latency. Where work of several lanes ends the gap at once, the one launched first counts.
A gap that no work ends is the host's: it launched nothing more. Work of no length ends no gap.
The idea is HTA's idle time breakdown (host wait, kernel wait, other), told by launches instead of by a threshold.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.intervals import EMPTY, Spans, gaps, union
from tracekit.model import NO_TIME, STREAM_WAIT, RankTables

HOST_LATE, STREAM_WAITS, LAUNCH_LATENCY, UNKNOWN = "host_late_ns", "stream_wait_ns", "launch_latency_ns", "unknown_ns"
CAUSES = (HOST_LATE, STREAM_WAITS, LAUNCH_LATENCY, UNKNOWN)
"""`UNKNOWN` are gaps before work whose launch is not in the file."""
_NEVER = np.iinfo(np.int64).max


def idle_by_cause(one: RankTables) -> dict[str, Spans]:
    """The time in which the rank's device is idle, from its first step to its last, told apart by cause."""
    work = _by_start(one.work)
    idle = _idle(one.steps, work)
    ender = np.searchsorted(work["start_ns"].to_numpy(), idle.ends, side="left")
    launch = np.append(work["launch_ns"].to_numpy(), _NEVER)[ender]
    waited = np.append(_behind_a_wait(work, one.host), False)[ender]
    launched = np.clip(launch, idle.starts, idle.ends)
    known = launch != NO_TIME
    return {
        HOST_LATE: union(idle.starts[known], launched[known]),
        STREAM_WAITS: union(launched[known & waited], idle.ends[known & waited]),
        LAUNCH_LATENCY: union(launched[known & ~waited], idle.ends[known & ~waited]),
        UNKNOWN: union(idle.starts[~known], idle.ends[~known]),
    }


def _by_start(work: pd.DataFrame) -> pd.DataFrame:
    """Work that has length, by start; of work that starts at once, the one launched first stands first."""
    work = work[work["end_ns"] > work["start_ns"]]
    launch = work["launch_ns"].to_numpy()
    return work.iloc[np.lexsort((np.where(launch == NO_TIME, _NEVER, launch), work["start_ns"].to_numpy()))]


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
