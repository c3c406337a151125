"""One rank's communication told apart by a column of its calls: by process group, by operation."""

from __future__ import annotations

import pandas as pd

from tracekit.intervals import EMPTY, Spans, intersect, merge, shares, subtract, union
from tracekit.model import COMM, COMPUTE, RankTables

UNKNOWN = "unknown"


def communication(one: RankTables, by: str) -> dict[str, Spans]:
    """The time in which each value of the column communicates; UNKNOWN is what no call names.

    The values may communicate at once; together they are all of the rank's communication.
    """
    comm, calls = one.busy(COMM), one.calls[one.calls["device_work"]]
    named = calls.groupby(calls[by].fillna("").replace("", UNKNOWN))
    parts = {
        str(name): intersect(union(rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()), comm)
        for name, rows in named
    }
    rest = subtract(comm, merge(list(parts.values())))
    return {**parts, UNKNOWN: merge([parts.get(UNKNOWN, EMPTY), rest])} if len(rest) else parts


def overlap_by(one: RankTables, by: str) -> pd.DataFrame:
    """Per step and value of the column: communication, the part under compute, and the share of what is exposed."""
    parts, compute = communication(one, by), one.busy(COMPUTE)
    exposed = _exposed_per_step(one, parts, subtract(one.busy(COMM), compute))
    columns = ["step", by, "comm_ns", "overlap_ns", "exposed_ns"]
    tables = [
        pd.DataFrame({
            "step": one.steps["step"], by: name, "comm_ns": one.per_step(spans),
            "overlap_ns": one.per_step(intersect(spans, compute)), "exposed_ns": exposed[name],
        })
        for name, spans in parts.items() if len(one.steps)
    ]  # fmt: skip
    rows = pd.concat(tables or [pd.DataFrame(columns=columns)])
    return rows[rows["comm_ns"] > 0].sort_values(["step", by], ignore_index=True)


def _exposed_per_step(one: RankTables, parts: dict[str, Spans], exposed: Spans) -> pd.DataFrame:
    """The parts' shares of the exposed time: a column each, a row a step."""
    windows = one.steps[["start_ns", "end_ns"]].itertuples(index=False)
    return pd.DataFrame([shares(parts, intersect(union([start], [end]), exposed)) for start, end in windows])
