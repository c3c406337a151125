"""Which single communication calls does nothing hide?

The calls of device work that are exposed the longest, at most 200 of them, that one first. `bytes` is the size of the
call's message. `start_ns` counts from the run's first step. `length_ns` is how long the call runs; `exposed_ns` is what
passes of it without compute on its rank; `wait_ns`, where it is known, is what passes until its last member arrives.
"""

from __future__ import annotations

from functools import partial

import pandas as pd

from tracekit.errors import NotMeasured
from tracekit.intervals import length_within
from tracekit.model import COMPUTE, NO_STEP, Asked, Column, RankTables, table
from tracekit.waiting import with_waits

COLUMNS = {
    "rank": Column(),
    "step": Column(),
    "group": Column(),
    "op": Column(),
    "bytes": Column("bytes"),
    "start_ns": Column("ns"),
    "length_ns": Column("ns"),
    "exposed_ns": Column("ns"),
    "wait_ns": Column("ns"),
}
MOST = 200
_OF_RANK = {
    "step": "int64", "group": "str", "op": "str", "bytes": "Int64", "start_ns": "int64", "length_ns": "int64",
    "exposed_ns": "int64", "wait_ns": "Int64",
}  # fmt: skip


def measure(asked: Asked) -> pd.DataFrame:
    """One row per call, the longest exposed first; NotMeasured where none is exposed."""
    run = with_waits(asked.run)
    begin_ns = int(run.steps["start_ns"].min()) if len(run.steps) else 0
    rows = run.map(partial(_of_rank, begin_ns=begin_ns))
    if rows.empty:
        raise NotMeasured("the run has no communication call that is exposed")
    found = rows.sort_values(["exposed_ns", "rank", "start_ns"], ascending=[False, True, True], kind="stable")
    return found.head(MOST).reset_index(drop=True)


def _of_rank(one: RankTables, begin_ns: int) -> pd.DataFrame:
    calls = one.calls[one.calls["device_work"] & (one.calls["step"] != NO_STEP)]
    if calls.empty:
        return table(_OF_RANK)
    starts, ends = calls["start_ns"].to_numpy(), calls["end_ns"].to_numpy()
    told = calls.assign(
        start_ns=starts - begin_ns, length_ns=ends - starts,
        exposed_ns=ends - starts - length_within(one.busy(COMPUTE), starts, ends),
    )  # fmt: skip
    longest = told[told["exposed_ns"] > 0].nlargest(MOST, "exposed_ns", keep="first")
    return longest[list(_OF_RANK)].astype(_OF_RANK)
