"""How much of each step is a rank's own, and how much does it wait for others?

`wait_ns` is the time of the step in which some call of the rank waits for another rank while the rank computes nothing;
calls that wait at once count once. `own_ns` is the rest: its own work, transfers, and whatever else keeps it. Together
they are the step. A rank that the others wait for has the most time of its own. Ranks none of whose calls is matched
have no row.
"""

from __future__ import annotations

import pandas as pd

from tracekit.model import Asked, Column, RankTables
from tracekit.waiting import exposed_wait, measured

COLUMNS = {
    "rank": Column(),
    "step": Column(),
    "own_ns": Column("ns", better="down"),
    "wait_ns": Column("ns", better="down"),
}


def measure(asked: Asked) -> pd.DataFrame:
    """One row per step of each rank with a matched call; NotMeasured where no wait is known."""
    return measured(asked.run).map(_of_rank)


def _of_rank(one: RankTables) -> pd.DataFrame:
    wait_ns = one.per_step(exposed_wait(one))
    step_ns = (one.steps["end_ns"] - one.steps["start_ns"]).to_numpy()
    rows = pd.DataFrame({"step": one.steps["step"], "own_ns": step_ns - wait_ns, "wait_ns": wait_ns})
    return rows if one.calls["wait_ns"].notna().any() else rows.iloc[:0]
