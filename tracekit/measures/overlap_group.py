"""How much of each process group's communication is hidden under compute?

Per rank, step and group: `comm_ns` is the time in which a call of the group runs, `overlap_ns` the part of it under
compute, `overlap_frac` that part's share. `exposed_ns` is the group's part of the communication that nothing hides: an
instant in which calls of several groups are exposed is shared equally among them (odd nanoseconds to the first by
name), so that the parts of a step sum to the breakdown's `exposed_comm_ns`. Communication whose group the trace does
not tell is "unknown". The definitions are those of `overlap` and `breakdown`; the sharing is tracekit's own.
"""

from __future__ import annotations

import pandas as pd

from tracekit.errors import NotMeasured
from tracekit.model import Asked, Column, RankTables
from tracekit.split import overlap_by

COLUMNS = {
    "rank": Column(),
    "step": Column(),
    "group": Column(),
    "comm_ns": Column("ns", better="down"),
    "overlap_ns": Column("ns"),
    "overlap_frac": Column("1", better="up"),
    "exposed_ns": Column("ns", better="down"),
}


def measure(asked: Asked) -> pd.DataFrame:
    """One row per rank, step and group that communicates; NotMeasured where none does."""
    rows = asked.run.map(_of_rank)
    if rows.empty:
        raise NotMeasured("the run has no communication in any step")
    return rows.assign(overlap_frac=rows["overlap_ns"] / rows["comm_ns"])


def _of_rank(one: RankTables) -> pd.DataFrame:
    return overlap_by(one, "group")
