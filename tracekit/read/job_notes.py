"""What had to be told about the joining of ranks: strangers, clocks, calls without a counterpart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from tracekit.model import Note, listed
from tracekit.read import together
from tracekit.read.clock import Clock
from tracekit.read.together import Moment, Span

SHOWN = 8
"""So many ranks or sets of them are named, the rest is counted."""
_UNITS = (("days", 2 * 86_400 * 10**9, 86_400 * 10**9), ("hours", 2 * 3600 * 10**9, 3600 * 10**9),
          ("s", 10 * 10**9, 10**9), ("ms", 10**6, 10**6), ("us", 0, 1000))  # fmt: skip


def of_moment(moment: Moment, spans: Mapping[int, Span]) -> Iterator[Note]:
    """On ranks of one window: whether they were profiled together, and their clocks."""
    yield from _strangers(moment)
    apart = together.overlapping(spans)
    if len(apart) > 1:
        told = f"by their files' clocks these were not profiled at the same time, but {_gap(apart, spans)} apart"
        message = f"{told}: {_named(apart)}. Is this one job? {_waits_across(moment.calls, apart)}"
        yield Note("no-overlap", "warning", message, None, len(apart))
    yield from _clocks(moment)
    if len(moment.untied) > 1 and sorted(map(sorted, moment.untied)) != sorted(apart):
        told = "no call ties these clocks together, each file's times are taken as they are"
        yield Note("untied-clocks", "warning", f"{told}: {_named(moment.untied)}", None, len(moment.untied))


def _strangers(moment: Moment) -> Iterator[Note]:
    if moment.strangers:
        message = (
            f"the calls of {_named([moment.strangers])} look like other ranks' calls, but some are over before the "
            "others begin, so they are not the same. Is this one job? No wait between them is told"
        )
        yield Note("several-jobs", "warning", message, None, len(moment.strangers))


def _waits_across(calls: pd.DataFrame, apart: Sequence[Sequence[int]]) -> str:
    """What becomes of waits between sets of ranks that do not overlap in time."""
    of_set = {rank: number for number, ranks in enumerate(apart) for rank in ranks}
    matched = calls[calls["match"].notna()]
    across = int((matched["rank"].map(of_set).groupby(matched["match"]).nunique() > 1).sum())
    if not across:
        return "No wait between them is told"
    return f"If not, their waits mean nothing: {across} calls were joined by their numbers, and clocks corrected so"


def _gap(apart: Sequence[Sequence[int]], spans: Mapping[int, Span]) -> str:
    """The longest time between two sets that follow each other."""
    ends = [max(spans[rank][1] for rank in ranks) for ranks in apart]
    starts = [min(spans[rank][0] for rank in ranks) for ranks in apart]
    gap_ns = max(start - end for start, end in zip(starts[1:], ends, strict=False))
    unit, ns = next((unit, ns) for unit, least_ns, ns in _UNITS if gap_ns >= least_ns)
    return f"{gap_ns / ns:,.1f} {unit}"


def _clocks(moment: Moment) -> Iterator[Note]:
    clocks = moment.clocks
    lowest = {rank: min(part) for part in moment.untied for rank in part}
    moved = sorted((rank for rank in clocks if clocks[rank].offset_ns), key=lambda rank: -abs(clocks[rank].offset_ns))
    if len(moved) == 1:
        message = f"the file's clock is {_ahead(clocks[moved[0]], lowest[moved[0]])}: corrected"
        yield Note("clock-offset", "info", message, moved[0])
    elif moved:
        told = "; ".join(f"rank {rank}'s is {_ahead(clocks[rank], lowest[rank])}" for rank in moved[:SHOWN])
        more = f"; and {len(moved) - SHOWN} more" if len(moved) > SHOWN else ""
        message = f"corrected the clocks of {len(moved)} files: {told}{more}"
        yield Note("clock-offset", "info", message, None, len(moved))
    for rank, clock in clocks.items():
        if clock.drift_ppb:
            side = "faster" if clock.drift_ppb > 0 else "slower"
            message = (
                f"the file's clock runs {abs(clock.drift_ppb)} ppb {side} than rank {lowest[rank]}'s: not corrected"
            )
            yield Note("clock-drift", "info", message, rank)


def _ahead(clock: Clock, lowest: int) -> str:
    side = "ahead of" if clock.offset_ns > 0 else "behind"
    error = "" if clock.error_ns is None else f", give or take {clock.error_ns / 1000:.1f} us"
    return f"{abs(clock.offset_ns) / 1000:.1f} us {side} rank {lowest}'s{error}"


def _named(sets: Sequence[Sequence[int]]) -> str:
    """Sets of ranks as a person would tell them: `ranks 0-3 | rank 7`."""
    told = [f"{'rank' if len(set(ranks)) == 1 else 'ranks'} {listed(ranks)}" for ranks in sets[:SHOWN]]
    return " | ".join([*told, *([f"{len(sets) - SHOWN} more"] if len(sets) > SHOWN else [])])


def of_job(calls: pd.DataFrame, ranks: int, windows: int) -> Iterator[Note]:
    """On the whole job: calls that stay without a counterpart, and ranks that were profiled more than once."""
    lone = calls[calls["match"].isna() & ~(calls["group_size"] == 1).fillna(False)]
    if ranks > 1 and len(lone):
        told = "; ".join(
            f"{count} {op} of {_named([lone.loc[lone['op'] == op, 'rank'].tolist()])}"
            for op, count in lone["op"].value_counts().items()
        )
        message = (
            f"{len(lone)} of {len(calls)} calls lack a counterpart on a member at hand, so no wait is told: {told}"
        )
        yield Note("unmatched-calls", "info", message, None, len(lone))
    if windows > 1:
        message = f"{windows} windows of time, each looked at by itself. If these are several jobs, give each a folder"
        yield Note("several-windows", "info", message, None, windows)
