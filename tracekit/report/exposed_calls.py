"""The calls that are exposed the longest, as rows of text."""

from __future__ import annotations

import pandas as pd

from tracekit.report.overview import Table
from tracekit.wording import counted, plain, size, time_unit


def longest(calls: pd.DataFrame, most: int = 12) -> Table:
    """The first rows of the measure `exposed_calls`; foreign names in one line each."""
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
