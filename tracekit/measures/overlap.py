"""How much communication is hidden under compute?

`overlap_ns` is the time in which communication and compute both run on the rank, on any lanes; work of one kind that
runs at once counts once. `overlap_frac` is its share of `comm_ns`. A step in which a rank does not communicate has no
row. Same definition as HTA's communication-computation overlap, but per step.
"""

from __future__ import annotations

import pandas as pd

from tracekit.errors import NotMeasured
from tracekit.model import Asked, Column

COLUMNS = {
    "rank": Column(),
    "step": Column(),
    "comm_ns": Column("ns", better="down"),
    "overlap_ns": Column("ns"),
    "overlap_frac": Column("1", better="up"),
}


def measure(asked: Asked) -> pd.DataFrame:
    """One row per rank and step with communication; NotMeasured where there is none."""
    steps = asked["breakdown"]
    rows = steps[steps["comm_ns"] > 0].reset_index(drop=True)
    if rows.empty:
        raise NotMeasured("the run has no communication in any step")
    return rows.assign(overlap_frac=rows["overlap_ns"] / rows["comm_ns"])
