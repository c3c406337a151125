"""How long does each stage's forward and backward take?

Per rank, step and stage, over the step's `microbatches`: `forward_ns`, `backward_ns` (whole backwards, or the halves
that a zero-bubble schedule computes apart) and `weight_ns` (of the backward, the half that computes gradients of
weights) are the stage's busy time as in `microbatches`, so without waits, sends and receives. `forward_each_ns` and
`backward_each_ns` are the same per micro-batch. Stages of one pipeline that differ in these are out of balance. `stage`
is null where annotations tell forwards and backwards, but no stages.
"""

from __future__ import annotations

import pandas as pd

from tracekit.model import Asked, Column

COLUMNS = {
    "rank": Column(),
    "step": Column(),
    "stage": Column(),
    "microbatches": Column("1"),
    "forward_ns": Column("ns", better="down"),
    "backward_ns": Column("ns", better="down"),
    "weight_ns": Column("ns", better="down"),
    "forward_each_ns": Column("ns", better="down"),
    "backward_each_ns": Column("ns", better="down"),
}


def measure(asked: Asked) -> pd.DataFrame:
    """One row per rank, step and stage; NotMeasured where no annotation tells forwards and backwards."""
    actions = asked["microbatches"]
    keys = [key for key in ("rank", "window", "step", "stage") if key in actions]
    forward, weight = actions["action"] == "forward", actions["action"] == "backward_weight"
    parts = actions.assign(
        forward_ns=actions["busy_ns"].where(forward, 0),
        backward_ns=actions["busy_ns"].where(~forward, 0),
        weight_ns=actions["busy_ns"].where(weight, 0),
    ).groupby(keys, dropna=False)
    rows = parts[["forward_ns", "backward_ns", "weight_ns"]].sum()
    counts = parts["microbatch"].nunique()
    rows = rows.assign(
        microbatches=counts,
        forward_each_ns=(rows["forward_ns"] / counts).round().astype("int64"),
        backward_each_ns=(rows["backward_ns"] / counts).round().astype("int64"),
    )
    return rows.reset_index()
