"""Which single calls nothing hides: those that are exposed the longest."""

from __future__ import annotations

from functools import partial

import pandas as pd

from tracekit.errors import NotMeasured
from tracekit.intervals import length_within
from tracekit.model import COMPUTE, NO_STEP, RankTables, Run, table
from tracekit.report.overview import Table
from tracekit.waiting import with_waits
from tracekit.wording import counted, plain, size, time_unit

COLUMNS = {
    "rank": "int64", "step": "int64", "group": "str", "op": "str", "bytes": "Int64", "start_ns": "int64",
    "length_ns": "int64", "exposed_ns": "int64", "wait_ns": "Int64",
}  # fmt: skip
"""A call a row. `start_ns` counts from the run's first step; `exposed_ns` is what of the call's `length_ns` passes
without compute on its rank; `wait_ns`, where it is known, is the time until its last member arrived."""

_OF_RANK = {name: kind for name, kind in COLUMNS.items() if name != "rank"}


def exposed_calls(run: Run, most: int = 200) -> pd.DataFrame:
    """The calls of device work that are exposed the longest, that one first; NotMeasured where none is exposed."""
    begin_ns = int(run.steps["start_ns"].min()) if len(run.steps) else 0
    rows = with_waits(run).map(partial(_of_rank, most=most, begin_ns=begin_ns))
    if rows.empty:
        raise NotMeasured("the run has no communication call that is exposed")
    found: pd.DataFrame = rows.sort_values(["exposed_ns", "rank", "start_ns"], ascending=[False, True, True])
    return found.head(most).reset_index(drop=True)[list(COLUMNS)].astype(COLUMNS)


def longest(calls: pd.DataFrame, most: int = 12) -> Table:
    """The first of these calls as rows of text; foreign names in one line each."""
    unit = time_unit(calls["length_ns"].max())
    times = ("start", "length", "exposed", "wait")
    headings = ("rank", "step", "group", "operation", "size", *(f"{name}, {unit.name}" for name in times))
    rows = tuple(
        (
            *(str(one["rank"]), str(one["step"]), plain(one["group"], 40), plain(one["op"], 40)),
            "-" if pd.isna(one["bytes"]) else size(one["bytes"]),
            *("-" if pd.isna(one[f"{name}_ns"]) else unit.of(one[f"{name}_ns"]) for name in times),
        )
        for one in calls.head(most).to_dict("records")
    )
    rest = len(calls) - len(rows)
    return Table(headings, rows, f"and {counted(rest, 'more call')} in the table below" if rest else "")


def _of_rank(one: RankTables, most: int, begin_ns: int) -> pd.DataFrame:
    calls = one.calls[one.calls["device_work"] & (one.calls["step"] != NO_STEP)]
    if calls.empty:
        return table(_OF_RANK)
    starts, ends = calls["start_ns"].to_numpy(), calls["end_ns"].to_numpy()
    told = calls.assign(
        start_ns=starts - begin_ns, length_ns=ends - starts,
        exposed_ns=ends - starts - length_within(one.busy(COMPUTE), starts, ends),
    )  # fmt: skip
    longest = told[told["exposed_ns"] > 0].nlargest(most, "exposed_ns", keep="first")
    return longest[list(_OF_RANK)].astype(_OF_RANK)
