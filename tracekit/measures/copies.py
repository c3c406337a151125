"""What moves between host and device, and how fast?

Per rank, step and direction (`host_to_device`, `device_to_host`, `device_to_device`, `peer_to_peer`, `set`, ...):
`copies` and `bytes` count in the step in which a copy starts; `bytes` is null where the trace does not tell the size of
one of them. `copy_ns` is the time of the step in which at least one runs. `bandwidth_gbs` is Σ bytes / Σ duration of
the copies whose size is known, in 10^9 bytes per second as NVIDIA's bandwidthTest has it, each with its whole duration;
null where there is none.
"""

from __future__ import annotations

import pandas as pd

from tracekit.errors import NotMeasured
from tracekit.intervals import union
from tracekit.model import MEMORY, Asked, Column, RankTables

COLUMNS = {
    "rank": Column(),
    "step": Column(),
    "direction": Column(),
    "copies": Column("1"),
    "bytes": Column("bytes", better="down"),
    "copy_ns": Column("ns", better="down"),
    "bandwidth_gbs": Column("GB/s", better="up"),
}
EMPTY = pd.DataFrame({name: [] for name in list(COLUMNS)[1:]})


def measure(asked: Asked) -> pd.DataFrame:
    """One row per rank, step and direction with a copy; NotMeasured where there is none."""
    rows = asked.run.map(_of_rank)
    if rows.empty:
        raise NotMeasured("the run has no copy between host and device in any step")
    return rows


def _of_rank(one: RankTables) -> pd.DataFrame:
    memory = one.work[one.work["kind"] == MEMORY]
    direction = memory["operation"].astype("str").fillna("unknown")
    tables = [_of_direction(one, str(name), rows) for name, rows in memory.groupby(direction)]
    rows = pd.concat(tables or [EMPTY])
    return rows[(rows["copies"] > 0) | (rows["copy_ns"] > 0)].sort_values(["step", "direction"], ignore_index=True)


def _of_direction(one: RankTables, direction: str, copies: pd.DataFrame) -> pd.DataFrame:
    """One row for each step, also for those without a copy."""
    busy = union(copies["start_ns"].to_numpy(), copies["end_ns"].to_numpy())
    duration = (copies["end_ns"] - copies["start_ns"]).where(copies["bytes"].notna(), 0)
    nth = one.nth_step(copies["start_ns"].to_numpy())
    sums = (
        copies.assign(copies=1, known=copies["bytes"].notna(), sized_ns=duration)
        .groupby(nth)[["copies", "known", "bytes", "sized_ns"]]
        .sum()
        .reindex(range(len(one.steps)), fill_value=0)
    )
    return pd.DataFrame({
        "step": one.steps["step"], "direction": direction, "copies": sums["copies"],
        "bytes": sums["bytes"].where(sums["known"] == sums["copies"]), "copy_ns": one.per_step(busy),
        "bandwidth_gbs": (sums["bytes"] / sums["sized_ns"].where(sums["sized_ns"] > 0)).astype("Float64"),
    })  # fmt: skip
