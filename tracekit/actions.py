"""What a rank does inside annotations of its own: the work that was launched there."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.intervals import Nanoseconds, Spans, merge, union
from tracekit.model import COMM, COMPUTE, RankTables

TRANSFERS = ("send", "recv", "sendrecv")


def annotation_of(work: pd.DataFrame, starts: Nanoseconds, ends: Nanoseconds, *, on_cpu: bool) -> npt.NDArray[np.int64]:
    """The place of the annotation inside which each piece of work was launched, -1 where there is none.

    Annotations are in order of start, and none holds another. Any thread may have launched the work, as autograd's does
    in backward. On a CPU trace work is inside that begins there.
    """
    if not len(starts):
        return np.full(len(work), -1)
    launched = work["start_ns" if on_cpu else "launch_ns"].to_numpy()
    place = np.searchsorted(starts, launched, side="right") - 1
    return np.where((place >= 0) & (launched < ends[place]), place, -1)


def action_spans(host: pd.DataFrame) -> pd.DataFrame:
    """The annotations of actions, in order of start, none inside another."""
    told = host[host["operation"].notna()].sort_values("start_ns", kind="stable")
    with_stage = told[~told["operation"].astype(str).str.contains("::", regex=False)]
    told = with_stage if len(with_stage) else told
    ends = told["end_ns"].to_numpy()
    holds_another = np.append(ends[1:] <= ends[:-1], False)[: len(ends)]
    return told[~holds_another]


def useful(one: RankTables, starts: Nanoseconds, ends: Nanoseconds) -> Spans:
    """The time in which the rank computes, or takes part in a collective launched inside one of the annotations.

    Without what it waits there for other members, as far as that is known (the rank's calls carry `wait_ns`); sends
    and receives never count.
    """
    work = one.work[((one.work["kind"] == COMM) & ~one.work["operation"].isin(TRANSFERS)).to_numpy()]
    inside = work[annotation_of(work, starts, ends, on_cpu=one.on_cpu) >= 0]
    if inside.empty:
        return one.busy(COMPUTE)
    begin = inside["start_ns"].to_numpy() + _waits(one, inside)
    return merge([one.busy(COMPUTE), union(begin, inside["end_ns"].to_numpy())])


def _waits(one: RankTables, work: pd.DataFrame) -> Nanoseconds:
    """How long each piece of communication waits for its last member; 0 where that is not known."""
    keys = ["lane", "start_ns"]
    calls = one.calls[[*keys, "wait_ns"]].drop_duplicates(keys)
    told = work[keys].astype({"lane": "str"}).merge(calls, on=keys, how="left")
    return told["wait_ns"].fillna(0).to_numpy(np.int64)
