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
SHOWN = 8
LEAST_NS = 1_000_000
"""GPUs of one host differ by some tens of microseconds; this is a file's or a host's clock."""


def check(asked: Judged) -> Iterator[Finding]:
    """One finding for the ranks whose clocks are far off or drift; it costs the job nothing."""
    ranks = first_window(asked.run.ranks)
    far = ranks[(ranks["clock_offset_ns"].abs() > LEAST_NS).fillna(False) | ranks["clock_drift_ppb"].fillna(0).ne(0)]
    if far.empty:
        return
    columns = ["rank", "clock_offset_ns", "clock_error_ns", "clock_drift_ppb"]
    told = tuple(_told(*row) for row in far[columns].fillna(0).itertuples(index=False))
    members = tuple(far["rank"].tolist())
    yield Finding(
        CODE, "info", "clocks of files differ; their times were put right", members, (), None, _shortened(told),
        "synchronise the hosts' clocks (chrony, PTP); where hosts are one, the files' times were changed",
    )  # fmt: skip


def _shortened(told: tuple[str, ...]) -> tuple[str, ...]:
    more = len(told) - SHOWN
    return told if more <= 0 else (*told[:SHOWN], f"and {more} more")


def _told(rank: int, offset_ns: int, error_ns: int, drift_ppb: int) -> str:
    told = f"rank {rank}: {ms(abs(offset_ns))} {'ahead' if offset_ns >= 0 else 'behind'}, give or take {ms(error_ns)}"
    return f"{told}; runs {abs(drift_ppb) / 1000:.3g} ppm {'fast' if drift_ppb > 0 else 'slow'}" if drift_ppb else told
