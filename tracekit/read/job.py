"""All ranks' calls and clocks together: what makes one job of many files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from tracekit.model import Note
from tracekit.read import job_notes, together
from tracekit.read.clock import Clock
from tracekit.read.collectives import match
from tracekit.read.tables import CPU, Identity
from tracekit.read.together import Moment

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
    clocks: dict[Place, Clock] = {}
    moments: list[Moment] = []
    notes: list[Note] = []
    windows = sorted({window for _, window in identities})
    for window in windows:
        here = {rank: identity for (rank, window_), identity in identities.items() if window_ == window}
        moment = _of_window(calls[calls["window"] == window], here)
        clocks.update({(rank, window): clock for rank, clock in moment.clocks.items()})
        moments.append(moment)
        notes += job_notes.of_moment(moment, {rank: (one.start_ns, one.end_ns) for rank, one in here.items()})
    joined = _numbered_on([moment.calls for moment in moments]) if moments else calls
    ranks = {rank for rank, _ in identities}
    return Joined(joined, clocks, (*notes, *job_notes.of_job(joined, len(ranks), len(windows))))


def _of_window(calls: pd.DataFrame, here: Mapping[int, Identity]) -> Moment:
    """All ranks of a window; those that cannot have been profiled together are matched apart."""
    spans = {rank: (identity.start_ns, identity.end_ns) for rank, identity in here.items()}
    parts = [_matched(calls, {rank: here[rank] for rank in ranks}) for ranks in together.possible(spans)]
    return parts[0] if len(parts) == 1 else _side_by_side(parts)


def _matched(calls: pd.DataFrame, here: Mapping[int, Identity]) -> Moment:
    """These ranks alone, and if some prove to be strangers to the others, these by themselves."""
    mine = calls[calls["rank"].isin(list(here))].reset_index(drop=True)
    if len(here) < 2:
        return Moment(mine, dict.fromkeys(here, Clock(0, 0)), [list(here)])
    hosts = {rank: identity.host for rank, identity in here.items()}
    on_cpu = frozenset(rank for rank, identity in here.items() if identity.device == CPU)
    found = Moment(*match(mine, sorted(here), hosts, on_cpu))
    strangers = together.strangers(found.calls, found.clocks)
    if not strangers:
        return found
    apart = [{rank: here[rank] for rank in here if (rank in strangers) == outside} for outside in (False, True)]
    return _side_by_side([_matched(calls, ranks) for ranks in apart], strangers)


def _side_by_side(parts: Sequence[Moment], strangers: Sequence[int] = ()) -> Moment:
    return Moment(
        _numbered_on([part.calls for part in parts]),
        {rank: clock for part in parts for rank, clock in part.clocks.items()},
        [ranks for part in parts for ranks in part.untied],
        sorted({*strangers, *(rank for part in parts for rank in part.strangers)}),
    )


def _numbered_on(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Calls that were matched apart below one another, each part's matches numbered on from the last one's."""
    numbered, matches = [], 0
    for calls in parts:
        numbered.append(calls.assign(match=calls["match"] + matches))
        matches += int(calls["match"].max() + 1) if calls["match"].notna().any() else 0
    return pd.concat(numbered, ignore_index=True)
