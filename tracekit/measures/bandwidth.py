"""How fast do messages of each size go, inside a host and between hosts?

Per group, operation, `link` (members on one host, on several, or hosts not told) and size class, from `from_bytes` to
under `to_bytes` (null: no limit): `calls` of known size that are matched across ranks, each counted once (a send and
its receive are one `send`), and the `bytes` they move. `algbw_gbs` is Σ size / Σ t, in 10^9 bytes a second, t being the
shortest member's transfer; `busbw_gbs` is that times 2(n-1)/n for all-reduce, (n-1)/n for all-gather, reduce-scatter
and all-to-all, 1 for the rest, to be held against the speed of a link; `busbw_median_gbs` is the median of the single
calls'. Bandwidths as nccl-tests define them; there, too, small messages are bound by latency.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.errors import NotMeasured
from tracekit.model import Asked, Column
from tracekit.transfers import shared_calls, speeds
from tracekit.waiting import why_not, with_waits

COLUMNS = {
    "group": Column(),
    "op": Column(),
    "link": Column(),
    "from_bytes": Column("bytes"),
    "to_bytes": Column("bytes"),
    "calls": Column("1"),
    "bytes": Column("bytes"),
    "algbw_gbs": Column("GB/s", better="up"),
    "busbw_gbs": Column("GB/s", better="up"),
    "busbw_median_gbs": Column("GB/s", better="up"),
}
KEYS = ["group", "op", "link", "from_bytes"]
CLASSES_BYTES = (0, 64 << 10, 1 << 20, 16 << 20, 256 << 20)
"""Where size classes begin."""


def measure(asked: Asked) -> pd.DataFrame:
    """One row per group, operation, link and size class; NotMeasured where no matched call tells size and time."""
    run = with_waits(asked.run)
    calls = shared_calls(run)
    if calls.empty or not run.calls["device_work"].any():
        raise NotMeasured(why_not(run))
    sized = calls[(calls["bytes"] > 0).fillna(False) & calls["time_ns"].notna()]
    if sized.empty:
        raise NotMeasured("the run has no matched call whose size its traces tell")
    classed = sized.assign(from_bytes=_classes(sized["bytes"]))
    counts = classed.groupby(KEYS)["bytes"].agg(calls="size", bytes="sum")
    rows: pd.DataFrame = counts.join(speeds(classed, KEYS)).reset_index()
    rows["to_bytes"] = rows["from_bytes"].map(dict(pairwise(CLASSES_BYTES))).astype("Int64")
    return rows


def _classes(sizes: pd.Series) -> npt.NDArray[np.int64]:
    """The beginning of each size's class."""
    begins = np.array(CLASSES_BYTES, np.int64)
    return begins[np.searchsorted(begins, sizes.to_numpy(np.int64), side="right") - 1]
