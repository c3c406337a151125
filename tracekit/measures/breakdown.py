"""Where does each rank's time go in each step?

A step's window is split, to the nanosecond, into `compute_ns`, `exposed_comm_ns` (communication while nothing is
computed), `exposed_memory_ns` (copies while nothing is computed or communicated) and `idle_ns` (none of these):
together they are `step_ns`. Besides, `comm_ns` is all communication and `overlap_ns` the part of it under compute.
Lengths are those of interval unions over all lanes, clipped to the window; work counts in the window in which it runs,
whoever launched it. In a CPU trace operators stand for compute and the spans of collectives for communication.
Same definitions as HTA's temporal breakdown and overlap, but per step, with copies apart and without rounding.
"""

from __future__ import annotations

import pandas as pd

from tracekit.errors import NotMeasured
from tracekit.intervals import merge
from tracekit.model import COMM, COMPUTE, MEMORY, Asked, Column, RankTables

COLUMNS = {
    "rank": Column(),
    "step": Column(),
    "step_ns": Column("ns", better="down"),
    "compute_ns": Column("ns"),
    "exposed_comm_ns": Column("ns", better="down"),
    "exposed_memory_ns": Column("ns", better="down"),
    "idle_ns": Column("ns", better="down"),
    "comm_ns": Column("ns", better="down"),
    "overlap_ns": Column("ns"),
}
PARTS = ["compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns"]


def measure(asked: Asked) -> pd.DataFrame:
    """One row per rank and step; NotMeasured where no rank has a step."""
    rows = asked.run.map(_of_rank)
    if rows.empty:
        raise NotMeasured("the run has no step: no ProfilerStep annotation and no device work")
    return rows


def residue_ns(rows: pd.DataFrame) -> pd.Series:
    """What the parts leave unexplained of each row's step. It is 0 in every row, for any trace."""
    return rows["step_ns"] - rows[PARTS].sum(axis=1)


def _of_rank(one: RankTables) -> pd.DataFrame:
    compute, comm, memory = one.busy(COMPUTE), one.busy(COMM), one.busy(MEMORY)
    step_ns = (one.steps["end_ns"] - one.steps["start_ns"]).to_numpy()
    compute_ns, comm_ns = one.per_step(compute), one.per_step(comm)
    working_ns = one.per_step(merge([compute, comm]))
    busy_ns = one.per_step(merge([compute, comm, memory]))
    return pd.DataFrame({
        "step": one.steps["step"], "step_ns": step_ns, "compute_ns": compute_ns,
        "exposed_comm_ns": working_ns - compute_ns, "exposed_memory_ns": busy_ns - working_ns,
        "idle_ns": step_ns - busy_ns, "comm_ns": comm_ns, "overlap_ns": comm_ns + compute_ns - working_ns,
    })  # fmt: skip
