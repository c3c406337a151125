"""How long each communication call waits for its last member, and how much of it is transfer.

A call that is matched across ranks begins for real when its last member arrives: until then the others wait, which is
`wait_ns`; the rest of a member's duration is `transfer_ns`. That holds where all members wait for each other: in
`SYNCHRONIZING` operations, between a sender and its receiver too. Of the others (broadcast, reduce, gather, scatter)
traces do not tell the root, so only the last to arrive, which waits for nobody, has its parts told. Calls that are not
matched, and spans that last as long as a handle, have neither. Where a call's span is the program's wait for what it
issued earlier (`arrival_ns`), the wait is the part before the other member arrived; transfer is null where that had
arrived before the program began to wait, since then part of it went by unseen.
"""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.errors import NotMeasured
from tracekit.intervals import Spans, length_within, subtract, union
from tracekit.model import COMPUTE, RankTables, Run

SYNCHRONIZING = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier", "send", "recv")

Rows = npt.NDArray[np.intp]


_timed: WeakKeyDictionary[Run, Run] = WeakKeyDictionary()


def with_waits(run: Run) -> Run:
    """The run, its calls with four columns more: `wait_ns`, `transfer_ns`, `last_rank` and `resolvable`.

    All are null where nothing is known. `last_rank` is the member that arrives last, of several at once the lowest.
    `resolvable` is false where the wait is below the error of the two ranks' clocks, or that is unknown. Many measures
    ask for it, so it is computed once for a run.
    """
    if run not in _timed:
        _timed[run] = _with_waits(run)
    return _timed[run]


def _with_waits(run: Run) -> Run:
    shared = run.calls[_is_shared(run.calls)]
    last = _last_members(shared).loc[shared["match"]]
    start_ns, last_ns = shared["start_ns"].to_numpy(), last["arrival_ns"].to_numpy()
    duration_ns = (shared["end_ns"] - shared["start_ns"]).to_numpy()
    wait_ns = np.clip(last_ns - start_ns, 0, duration_ns)
    unseen = shared["arrival_ns"].notna().to_numpy() & (start_ns > last_ns)
    told = pd.DataFrame(
        {
            "wait_ns": pd.array(wait_ns, "Int64"),
            "transfer_ns": pd.Series(duration_ns - wait_ns, dtype="Int64").mask(unseen).array,
            "last_rank": pd.array(last["rank"].to_numpy(), "Int64"),
            "resolvable": pd.array(wait_ns >= _clock_error_ns(run, shared, last), "boolean"),
        },
        index=shared.index,
    )
    known = shared["op"].isin(SYNCHRONIZING) | (told["last_rank"] == shared["rank"])
    return replace(run, calls=run.calls.join(told[known]))


def _is_shared(calls: pd.DataFrame) -> pd.Series:
    """Which calls have a counterpart in the table; a choice of steps may have left it out."""
    matched = calls[calls["match"].notna() & calls["device_work"]]
    return matched.duplicated("match", keep=False).reindex(calls.index, fill_value=False)


def _last_members(shared: pd.DataFrame) -> pd.DataFrame:
    """When the last member of each match arrives, its rank and window."""
    shared = shared.assign(arrival_ns=arrivals_ns(shared))
    order = np.lexsort((shared["rank"].to_numpy(), -shared["arrival_ns"].to_numpy()))
    return shared.iloc[order].drop_duplicates("match").set_index("match")[["arrival_ns", "rank", "window"]]


def arrivals_ns(calls: pd.DataFrame) -> pd.Series:
    """When each call's rank arrives at it."""
    return calls["arrival_ns"].fillna(calls["start_ns"]).astype("int64")


def _clock_error_ns(run: Run, shared: pd.DataFrame, last: pd.DataFrame) -> npt.NDArray[np.float64]:
    """How far the difference between each call's clock and its last member's may be off; NaN where nothing tells."""
    told = run.ranks.set_index(["rank", "window"])["clock_error_ns"].astype("Float64").astype(float)
    own, other = (told.reindex(pd.MultiIndex.from_frame(rows[["rank", "window"]])) for rows in (shared, last))
    return np.asarray(own.to_numpy() + other.to_numpy(), np.float64)


def exposed_wait(one: RankTables) -> Spans:
    """The time in which some call of the rank waits and the rank computes nothing. Its calls have to carry waits."""
    waiting = _waiting(one)
    waits = union(waiting["start_ns"].to_numpy(), (waiting["start_ns"] + waiting["wait_ns"]).to_numpy(np.int64))
    return subtract(waits, one.busy(COMPUTE))


def waits_in_steps(one: RankTables) -> pd.DataFrame:
    """The rank's waits, each for itself, cut at the borders of steps: a row for each wait and step that it lies in.

    `wait_ns` and `exposed_wait_ns` (the part in which the rank computes nothing) are what lies in that `step`; other
    columns are the call's.
    """
    waiting, windows = _waiting(one), one.steps[["start_ns", "end_ns"]]
    starts = waiting["start_ns"].to_numpy()
    ends = starts + waiting["wait_ns"].to_numpy(np.int64)
    row, nth = _meetings(starts, ends, windows["start_ns"].to_numpy(), windows["end_ns"].to_numpy())
    begin = np.maximum(starts[row], windows["start_ns"].to_numpy()[nth])
    end = np.minimum(ends[row], windows["end_ns"].to_numpy()[nth])
    return waiting.iloc[row].assign(
        step=one.steps["step"].to_numpy()[nth],
        wait_ns=end - begin,
        exposed_wait_ns=end - begin - length_within(one.busy(COMPUTE), begin, end),
    )


def _waiting(one: RankTables) -> pd.DataFrame:
    return one.calls[(one.calls["wait_ns"] > 0).fillna(False)]


def _meetings(
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    window_starts: npt.NDArray[np.int64],
    window_ends: npt.NDArray[np.int64],
) -> tuple[Rows, Rows]:
    """Each pair of a span and a window (in order, apart) that share time, as their places."""
    first = np.searchsorted(window_ends, starts, side="right")
    reached = np.maximum(np.searchsorted(window_starts, ends, side="left") - first, 0)
    row = np.repeat(np.arange(len(starts)), reached)
    nth = np.arange(reached.sum()) - np.repeat(np.cumsum(reached) - reached - first, reached)
    return row, nth


def measured(run: Run) -> Run:
    """`with_waits`; NotMeasured, with the reason, where no call has a wait that is known."""
    timed = with_waits(run)
    if timed.calls["wait_ns"].isna().all():
        raise NotMeasured(why_not(run))
    return timed


def why_not(run: Run) -> str:
    """Why the run tells of no wait."""
    if run.calls.empty:
        return "the run has no communication call"
    if run.ranks["rank"].nunique() == 1:
        return "the run has no second rank: who waits for whom takes the traces of two ranks at least"
    if not run.calls["device_work"].any():
        return (
            "the run has no communication but gloo's sends and receives, whose spans last as long as a handle: how "
            "long the program waits takes an annotation around each wait, as workloads/waits.py writes it"
        )
    if run.calls["match"].isna().all():
        return "the run has no communication call that could be matched across its ranks"
    return "the run has no matched call in which ranks wait for each other"
