"""All ranks' calls and clocks together: what makes one job of many files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from tracekit.model import Note, listed
from tracekit.read.clock import Clock
from tracekit.read.collectives import match
from tracekit.read.tables import CPU, Identity

Place = tuple[int, int]
"""Rank and window."""


@dataclass(frozen=True)
class Joined:
    """The calls of all ranks, matched and on one clock, and each rank's clock in each window."""

    calls: pd.DataFrame
    clocks: Mapping[Place, Clock]
    notes: tuple[Note, ...]

    def offset_ns(self, rank: int, window: int) -> int:
        """How far the clock of the rank's file is ahead of the run's."""
        return self.clocks[rank, window].offset_ns


def across_ranks(calls: pd.DataFrame, identities: Mapping[Place, Identity]) -> Joined:
    """Matches the calls of each window across its ranks and puts them on one clock."""
    parts, clocks, notes = [], {}, []
    matches = 0
    for window in sorted({window for _, window in identities}):
        here = {rank: identity for (rank, window_), identity in identities.items() if window_ == window}
        hosts = {rank: identity.host for rank, identity in here.items()}
        on_cpu = frozenset(rank for rank, identity in here.items() if identity.device == CPU)
        mine = calls[calls["window"] == window].reset_index(drop=True)
        found: dict[int, Clock] = dict.fromkeys(here, Clock(0, 0))
        untied: list[list[int]] = []
        if len(here) > 1:
            mine, found, untied = match(mine, sorted(here), hosts, on_cpu)
        clocks.update({(rank, window): clock for rank, clock in found.items()})
        parts.append(mine.assign(match=mine["match"] + matches))
        matches += int(mine["match"].max() + 1) if mine["match"].notna().any() else 0
        notes += list(_clock_notes(found, untied))
    joined = pd.concat(parts, ignore_index=True) if parts else calls
    return Joined(joined, clocks, (*notes, *_match_notes(joined, identities)))


def _clock_notes(clocks: Mapping[int, Clock], untied: list[list[int]]) -> Iterator[Note]:
    ahead = {rank: clock for rank, clock in clocks.items() if clock.offset_ns}
    for rank, clock in ahead.items():
        side = "ahead of" if clock.offset_ns > 0 else "behind"
        error = "" if clock.error_ns is None else f", give or take {clock.error_ns / 1000:.1f} us"
        message = (
            f"the file's clock is {abs(clock.offset_ns) / 1000:.1f} us {side} rank {min(clocks)}'s{error}: corrected"
        )
        yield Note("clock-offset", "info", message, rank)
    for rank, clock in clocks.items():
        if clock.drift_ppb is not None and clock.drift_ppb != 0:
            message = f"the file's clock runs {clock.drift_ppb} ppb faster than rank {min(clocks)}'s: not corrected"
            yield Note("clock-drift", "info", message, rank)
    if len(untied) > 1 and len(clocks) > 1:
        parts = "; ".join(listed(part) for part in untied[:8])
        message = f"no call ties the clocks of these ranks together, their files' times are taken as they are: {parts}"
        yield Note("untied-clocks", "warning", message, None, len(untied))


def _match_notes(calls: pd.DataFrame, identities: Mapping[Place, Identity]) -> Iterator[Note]:
    if len({rank for rank, _ in identities}) < 2:
        return
    lone = calls[calls["match"].isna() & ~(calls["group_size"] == 1).fillna(False)]
    for op, count in lone["op"].value_counts().items():
        ranks = listed(lone.loc[lone["op"] == op, "rank"])
        message = f"{op} calls of ranks {ranks} have no counterpart on every member at hand: left out of waits"
        yield Note("unmatched-calls", "info", message, None, int(count))
