"""Which ranks were profiled together: one folder may hold files of two jobs, or of two moments of one.

Three things tell ranks apart: files that lie further apart in time than clocks can be wrong; files that do not overlap
in time, which are only noted, since clocks do differ; and calls that were joined and, on one clock, end on one rank
before they begin on another. No collective does that, so such ranks took part in different ones. (Of the real jobs that
this was tried on none has a single such call.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from tracekit.read.clock import SYNCHRONIZING, Clock

Span = tuple[int, int]
"""First and last nanosecond of a file's work, on the file's own clock."""

SINCE_1970_NS = 10**18
"""Clocks that show more count from 1970, as those of all hosts do alike; others count from a machine's start."""
WRONG_NS = 3600 * 10**9
"""Clocks that count from 1970 are wrong by less than an hour."""
STRANGE_FRAC, STRANGE_MIN = 0.25, 2
"""Ranks are strangers if so many of the calls that they seem to share cannot be one call: this share, and number."""


@dataclass(frozen=True)
class Moment:
    """Ranks of one window: their calls, on one clock; their clocks; the parts whose clocks nothing ties; strangers."""

    calls: pd.DataFrame
    clocks: Mapping[int, Clock]
    untied: Sequence[Sequence[int]]
    strangers: Sequence[int] = ()


def overlapping(spans: Mapping[int, Span]) -> list[list[int]]:
    """The ranks in sets whose files overlap in time, directly or through others, the earliest set first."""
    return _split(spans, 0)


def possible(spans: Mapping[int, Span]) -> list[list[int]]:
    """The ranks in sets whose files may be of one moment, as far as clocks may be wrong."""
    return _split(spans, WRONG_NS)


def _split(spans: Mapping[int, Span], allowed_ns: int) -> list[list[int]]:
    sets: list[list[int]] = []
    reach_ns = 0
    for rank in sorted(spans, key=lambda rank: (spans[rank], rank)):
        start_ns, end_ns = spans[rank]
        comparable = allowed_ns == 0 or reach_ns > SINCE_1970_NS
        if not sets or (comparable and start_ns - reach_ns > allowed_ns):
            sets.append([])
        sets[-1].append(rank)
        reach_ns = max(reach_ns, end_ns)
    return [sorted(ranks) for ranks in sets]


def strangers(calls: pd.DataFrame, clocks: Mapping[int, Clock]) -> list[int]:
    """Ranks whose calls were joined with a lower rank's, but cannot be the same; `calls` are on one clock.

    A rank whose clock drifts is none: its calls lie apart for that.
    """
    shared = calls[calls["match"].notna() & calls["op"].isin(SYNCHRONIZING) & calls["device_work"]]
    shared = shared.sort_values(["match", "rank"])[["match", "rank", "start_ns", "end_ns"]]
    first = shared.groupby("match")[["rank", "start_ns", "end_ns"]].transform("first")
    strange = (shared["start_ns"] > first["end_ns"]) | (first["start_ns"] > shared["end_ns"])
    pairs = shared.assign(lowest=first["rank"], strange=strange)
    pairs = pairs[pairs["rank"] != pairs["lowest"]]
    told = pairs.groupby(["lowest", "rank"])["strange"].agg(["mean", "sum"]).reset_index()
    found = told[(told["mean"] > STRANGE_FRAC) & (told["sum"] >= STRANGE_MIN)]
    steady = [rank for rank in set(found["rank"]) if not clocks[rank].drift_ppb]
    return sorted(int(rank) for rank in steady)
