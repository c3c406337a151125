"""Files whose clocks differ.

What it means: a rank's times are shifted against the others', or run faster. tracekit puts offsets right; what is
smaller than their error cannot be resolved, and a drift makes the ends of a long window less exact.
How to confirm: `tracekit analyze`, the line `clocks` and the notes clock-offset and clock-drift.
What to do: synchronise the hosts (chrony, PTP); nothing where it was corrected.
Published: tracekit's own; the method is that of "One clock" in `tracekit/read/clock.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tracekit.evidence import first_window, ms
from tracekit.model import Finding
from tracekit.replay.costs import Judged

CODE = "skewed-clocks"
LEAST_NS = 1_000_000
"""GPUs of one host differ by some tens of microseconds; this is a file's or a host's clock."""


def check(asked: Judged) -> Iterator[Finding]:
    """One finding for the ranks whose clocks are far off or drift; it costs the job nothing."""
    ranks = first_window(asked.run.ranks)
    far = ranks[(ranks["clock_offset_ns"].abs() > LEAST_NS).fillna(False) | ranks["clock_drift_ppb"].fillna(0).ne(0)]
    if far.empty:
        return
    told = tuple(
        f"rank {rank}: {ms(abs(offset))} {'ahead' if offset >= 0 else 'behind'}, give or take {ms(error)}"
        for rank, offset, error in far[["rank", "clock_offset_ns", "clock_error_ns"]].fillna(0).itertuples(index=False)
    )
    members = tuple(far["rank"].tolist())
    yield Finding(
        CODE, "info", "clocks of files differ; their times were put right", members, (), None, told[:8],
        "synchronise the hosts' clocks",
    )  # fmt: skip
