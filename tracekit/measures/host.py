"""Does the host keep the device supplied?

Per rank and step, in the step's window, whatever step it was meant for: `launches` are the host's calls that launch
work. `launch_delay_median_ns` and `launch_delay_max_ns` are, over the work that starts in the window, the time from the
start of the call that launched it to its own start. `queue_mean` (over time) and `queue_max` tell how much work is
launched and not yet started, on all lanes together: a queue near 0 means that the device waits for the host.
`sync_calls` and `sync_ns` are calls in which the host waits for the device; `data_loading_ns` and
`garbage_collection_ns` are such spans on the host. Lengths are those of unions over threads. What the run's traces
never show is null: launches and queue in CPU traces, say, or garbage collection that was not recorded.
Launch delay and queue length as in HTA, whose delay counts from the end of the call.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit import model
from tracekit.errors import NotMeasured
from tracekit.intervals import Nanoseconds, Spans, union
from tracekit.model import NO_TIME, Asked, Column, RankTables

COLUMNS = {
    "rank": Column(),
    "step": Column(),
    "launches": Column("1"),
    "launch_delay_median_ns": Column("ns"),
    "launch_delay_max_ns": Column("ns"),
    "queue_mean": Column("1", better="up"),
    "queue_max": Column("1"),
    "sync_calls": Column("1", better="down"),
    "sync_ns": Column("ns", better="down"),
    "data_loading_ns": Column("ns", better="down"),
    "garbage_collection_ns": Column("ns", better="down"),
}
HOST_KINDS = (model.LAUNCH, model.SYNCHRONIZE, model.DATA_LOADING, model.GARBAGE_COLLECTION)
SEEN_BY = {
    "launches": ["launches"],
    "queue": ["queue_mean", "queue_max"],
    "calls": ["sync_calls", "sync_ns"],
    "data_loading": ["data_loading_ns"],
    "garbage_collection": ["garbage_collection_ns"],
}
"""What has to be seen on some rank for columns to mean anything."""


def measure(asked: Asked) -> pd.DataFrame:
    """One row per rank and step; NotMeasured where the traces have no host events."""
    rows = asked.run.map(_of_rank)
    if not rows[[f"seen_{what}" for what in SEEN_BY]].any(axis=None):
        raise NotMeasured("the run has no launch, synchronising call, data loading or garbage collection in its traces")
    never = [column for seen, columns in SEEN_BY.items() for column in columns if not rows[f"seen_{seen}"].any()]
    return rows.assign(**{column: rows[column].mask(np.ones(len(rows), bool)) for column in never})


def _of_rank(one: RankTables) -> pd.DataFrame:
    launched = one.work[one.work["launch_ns"] != NO_TIME]
    launches, syncs, loading, collecting = (one.host[one.host["kind"] == kind] for kind in HOST_KINDS)
    rows = pd.DataFrame({
        "step": one.steps["step"], "launches": _count(one, launches), **_delays(one, launched),
        **_queue(one, launched), "sync_calls": _count(one, syncs), "sync_ns": one.per_step(_spans(syncs)),
        "data_loading_ns": one.per_step(_spans(loading)), "garbage_collection_ns": one.per_step(_spans(collecting)),
    })  # fmt: skip
    seen = {
        "launches": not launches.empty, "queue": not launched.empty,
        "calls": not (launches.empty and syncs.empty),
        "data_loading": not loading.empty, "garbage_collection": not collecting.empty,
    }  # fmt: skip
    return rows.astype(_dtypes()).assign(**{f"seen_{what}": yes for what, yes in seen.items()})


def _dtypes() -> dict[str, str]:
    return {name: "Float64" if name == "queue_mean" else "Int64" for name in list(COLUMNS)[2:]}


def _spans(rows: pd.DataFrame) -> Spans:
    return union(rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy())


def _count(one: RankTables, rows: pd.DataFrame) -> Nanoseconds:
    """How many of the rows start in each step's window."""
    nth = one.nth_step(rows["start_ns"].to_numpy())
    return np.bincount(nth[nth >= 0], minlength=len(one.steps))


def _delays(one: RankTables, launched: pd.DataFrame) -> dict[str, pd.Series]:
    """Median and longest time from launch to start; null for a step in which no launched work starts."""
    delay = (launched["start_ns"] - launched["launch_ns"]).clip(lower=0)
    by_step = delay.groupby(one.nth_step(launched["start_ns"].to_numpy()))
    steps = range(len(one.steps))
    return {
        "launch_delay_median_ns": by_step.median().round().reindex(steps).astype("Int64"),
        "launch_delay_max_ns": by_step.max().reindex(steps).astype("Int64"),
    }


def _queue(one: RankTables, launched: pd.DataFrame) -> dict[str, npt.NDArray[np.generic]]:
    """Mean over time and maximum of how much work is launched and not yet started."""
    times, depth = _depth(launched)
    begin, end = one.steps["start_ns"].to_numpy(), one.steps["end_ns"].to_numpy()
    first = np.maximum(np.searchsorted(times, begin, side="right") - 1, 0)
    last = np.searchsorted(times, end, side="left")
    highest = [depth[a:b].max(initial=0) for a, b in zip(first, last, strict=True)]
    waiting = _waiting_before(times, depth, end) - _waiting_before(times, depth, begin)
    return {"queue_mean": waiting / np.maximum(end - begin, 1), "queue_max": np.array(highest, np.int64)}


def _depth(launched: pd.DataFrame) -> tuple[Nanoseconds, Nanoseconds]:
    """When the queue changes, and its depth from each of these times to the next."""
    launch = launched["launch_ns"].to_numpy()
    start = np.maximum(launched["start_ns"].to_numpy(), launch)
    times, at = np.unique(np.concatenate((launch, start)), return_inverse=True)
    change = np.repeat((1, -1), len(launched))
    return times, np.cumsum(np.bincount(at, weights=change, minlength=len(times))).astype(np.int64)


def _waiting_before(times: Nanoseconds, depth: Nanoseconds, until: Nanoseconds) -> Nanoseconds:
    """Nanoseconds that all work together has waited in the queue before each time."""
    if not len(times):
        return np.zeros(len(until), np.int64)
    waited = np.concatenate(([0], np.cumsum(depth[:-1] * np.diff(times))))
    nth = np.maximum(np.searchsorted(times, until, side="right") - 1, 0)
    return np.asarray(waited[nth] + depth[nth] * np.maximum(until - times[nth], 0), np.int64)
