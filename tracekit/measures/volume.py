"""How many bytes does each rank communicate in a step, and what would a ring send?

Per rank, step, group and operation: the `calls` that start in the step's window, and the `bytes` of their arrays (an
all-gather's output, a reduce-scatter's input, one rank's send buffer of an all-to-all), null where a size is not told.
`ranks_in_group` is n. `ring_bytes` is what each rank would send for them in a ring: 2(n-1)/n of the bytes for
all-reduce, (n-1)/n for all-gather, reduce-scatter, all-to-all, broadcast and reduce (mean over the group), all of them
for a send, none for a receive; null where size, n or operation is not told. Calls need not be matched across ranks.
The ring's volume is that of Patarasuk and Yuan 2009; NCCL's tree and NVLS algorithms send other amounts.
"""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from tracekit.errors import NotMeasured
from tracekit.model import Asked, Column, RankTables
from tracekit.plan.collectives import sent_bytes
from tracekit.transfers import group_sizes

COLUMNS = {
    "rank": Column(),
    "step": Column(),
    "group": Column(),
    "op": Column(),
    "ranks_in_group": Column("1"),
    "calls": Column("1"),
    "bytes": Column("bytes", better="down"),
    "ring_bytes": Column("bytes", better="down"),
}
KEYS = ["step", "group", "op"]


def measure(asked: Asked) -> pd.DataFrame:
    """One row per rank, step, group and operation; NotMeasured where no call starts in a step."""
    run = asked.run
    sized = replace(run, calls=run.calls.assign(group_size=group_sizes(run.calls)))
    rows = sized.map(_of_rank)
    if rows.empty:
        raise NotMeasured("the run has no communication call in any step")
    return rows


def _of_rank(one: RankTables) -> pd.DataFrame:
    nth = one.nth_step(one.calls["start_ns"].to_numpy())
    calls = one.calls[nth >= 0].assign(step=one.steps["step"].to_numpy()[nth[nth >= 0]])
    of_kind = calls.assign(ring_bytes=_ring_bytes(calls)).groupby(KEYS)
    count = of_kind.size()
    known = {name: of_kind[name].sum().where(of_kind[name].count() == count) for name in ("bytes", "ring_bytes")}
    rows = pd.DataFrame({"ranks_in_group": of_kind["group_size"].max(), "calls": count, **known})
    return rows.reset_index()


def _ring_bytes(calls: pd.DataFrame) -> pd.Series:
    kind = calls.groupby(["op", "group_size", "bytes"], dropna=False, sort=False).ngroup()
    kinds = calls[["op", "group_size", "bytes"]].drop_duplicates().itertuples(index=False)
    sent = [None if pd.isna(ranks) or pd.isna(size) else sent_bytes(op, ranks, size) for op, ranks, size in kinds]
    return kind.map(pd.Series(sent, dtype="Float64").round().astype("Int64"))
