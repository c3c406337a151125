"""What does each kind of collective of each process group cost, and how fast does it run?

Per group and operation, over the run: `calls` that are matched across ranks, each counted once (a send and its receive
are one `send`), and `unmatched` calls of single members, which nothing else here counts. `bytes` is what they move,
null where one's size is not told; `small_frac` the share of calls of less than 1 MiB, which take about as long as a
link's latency, among those of known size. `wait_ns` and `transfer_ns` are sums over the members: until the last member
arrived, and after; null for operations whose root traces do not tell. `algbw_gbs` is Σ size / Σ t of the calls of known
size, in 10^9 bytes a second, t being the shortest member's transfer; `busbw_gbs` is that times 2(n-1)/n for all-reduce,
(n-1)/n for all-gather, reduce-scatter and all-to-all, 1 for the rest. Bandwidths as nccl-tests define them.
"""

from __future__ import annotations

import pandas as pd

from tracekit.errors import NotMeasured
from tracekit.model import Asked, Column
from tracekit.transfers import shared_calls, speeds
from tracekit.waiting import why_not, with_waits

COLUMNS = {
    "group": Column(),
    "op": Column(),
    "calls": Column("1"),
    "unmatched": Column("1", better="down"),
    "bytes": Column("bytes", better="down"),
    "small_frac": Column("1", better="down"),
    "wait_ns": Column("ns", better="down"),
    "transfer_ns": Column("ns", better="down"),
    "algbw_gbs": Column("GB/s", better="up"),
    "busbw_gbs": Column("GB/s", better="up"),
}
KEYS = ["group", "op"]
SUMS = ["bytes", "wait_ns", "transfer_ns"]
SMALL_BYTES = 1 << 20


def measure(asked: Asked) -> pd.DataFrame:
    """One row per group and operation; NotMeasured where no call is matched across ranks."""
    run = with_waits(asked.run)
    calls = shared_calls(run)
    if calls.empty:
        raise NotMeasured(why_not(run))
    rows = _sums(calls).join(speeds(calls, KEYS)).join(_unmatched(run.calls), how="outer")
    counts = rows[["calls", "unmatched"]].fillna(0).astype("int64")
    return rows.assign(**counts).reset_index()


def _sums(calls: pd.DataFrame) -> pd.DataFrame:
    """Counts, and sums that are null where a part is."""
    of_kind = calls.assign(small=(calls["bytes"] < SMALL_BYTES).astype("Float64")).groupby(KEYS)
    count = of_kind.size()
    known = {name: of_kind[name].sum().where(of_kind[name].count() == count) for name in SUMS}
    return pd.DataFrame({"calls": count, "small_frac": of_kind["small"].mean(), **known})


def _unmatched(calls: pd.DataFrame) -> pd.Series:
    alone = (calls["group_size"] == 1).fillna(False)
    lone = calls[calls["match"].isna() & ~alone]
    return lone.assign(op=lone["op"].replace("recv", "send")).groupby(KEYS).size().rename("unmatched")
