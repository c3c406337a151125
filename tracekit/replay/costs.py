"""What mending one thing would save, for rules: the replay's answer, where it can be trusted."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import pandas as pd

from tracekit.errors import WrongUse
from tracekit.model import Asked
from tracekit.replay.change import fix, ideal
from tracekit.replay.graph import Scenario
from tracekit.replay.replay import TRUSTED_FRAC, Replay


@dataclass(frozen=True)
class Costs:
    """Answers of one replay, each computed once; without a replay there are none."""

    replay: Replay | None
    _told: dict[str, float] = field(default_factory=dict, repr=False)

    @cached_property
    def trusted(self) -> bool:
        """Whether the run can be replayed, comes out as it was measured, and little of any rank stays unexplained."""
        if self.replay is None:
            return False
        measured_ns = float(self.replay.graph.measured_step_ns[self.replay.counted].mean())
        unexplained_ns = float(self.replay.unexplained_ns.max()) / len(self.replay.step_numbers)
        return max(abs(self._base_ns - measured_ns), unexplained_ns) <= TRUSTED_FRAC * measured_ns

    @cached_property
    def axes(self) -> frozenset[str]:
        """The axes whose transfers the replay knows."""
        return frozenset() if self.replay is None else frozenset(kind.rsplit(" ", 1)[0] for kind in self.replay.kinds)

    def saved_ns(self, spelled: str, at_most_ns: float) -> int:
        """What a step would be shorter by after a change spelled as `tracekit whatif` does: `rank:3`, `ideal:stages`.

        Never more than `at_most_ns`, what was measured to be amiss; that alone where no replay is trusted.
        """
        if self.trusted and self.replay is not None:
            if spelled not in self._told:
                self._told[spelled] = self._saved_ns(self.replay, spelled)
            at_most_ns = min(at_most_ns, self._told[spelled])
        return max(0, round(at_most_ns))

    def _saved_ns(self, replay: Replay, spelled: str) -> float:
        """Infinite for what the replay does not know, a stage that only calls tell of, say."""
        name = spelled.removeprefix("ideal:")
        try:
            change = fix(replay, name) if name == spelled else ideal(replay, name)
        except WrongUse:
            return math.inf
        return self._base_ns - _mean_step_ns(replay, [change.scenario])[0]

    def saved_by_links_ns(self, rank: int, at_most_ns: float) -> int:
        """What a step would be shorter by if transfers with this rank took as long as alike ones without it."""
        if not self.trusted or self.replay is None:
            return max(0, round(at_most_ns))
        replay, calls = self.replay, self.replay.run.calls
        with_rank = calls["meeting"].isin(calls.loc[calls["rank"] == rank, "meeting"]) & (calls["meeting"] >= 0)
        usual = _usual_ns(calls, with_rank)
        target = calls["own_transfer_ns"].astype(float).where(~with_rank | usual.isna(), usual).set_axis(calls["row"])
        of_edges = target.reindex(replay.graph.rows["call"]).to_numpy()
        graph = replace(replay.graph, median_ns=np.where(np.isnan(of_edges), replay.graph.median_ns, of_edges))
        mended = replace(replay, graph=graph)
        saved_ns = self._base_ns - _mean_step_ns(mended, [mended.scenario(measured=0.0, median=1.0)])[0]
        return max(0, round(min(saved_ns, at_most_ns)))

    def exposed_ns(self, axis: str, at_most_ns: float) -> int:
        """What a step would be shorter by if the axis' transfers took no time, with all others as long as alike ones.

        So what one slow link costs is not counted.
        """
        if not self.trusted or self.replay is None or axis not in self.axes:
            return max(0, round(at_most_ns))
        usual = self.replay.scenario(measured=0.0, median=1.0)
        of_axis = lambda _, kind: float(kind.rsplit(" ", 1)[0] != axis)  # noqa: E731
        without = self.replay.scenario(measured=0.0, median=of_axis)
        usual_ns, without_ns = _mean_step_ns(self.replay, [usual, without])
        return max(0, round(min(usual_ns - without_ns, at_most_ns)))

    @cached_property
    def _base_ns(self) -> float:
        return 0.0 if self.replay is None else _mean_step_ns(self.replay, [self.replay.measured])[0]


def _mean_step_ns(replay: Replay, scenarios: Iterable[Scenario]) -> list[float]:
    named = {str(nth): scenario for nth, scenario in enumerate(scenarios)}
    return [float(np.mean(lengths)) for lengths in replay.step_ns(named).values()]


def _usual_ns(calls: pd.DataFrame, left_out: pd.Series) -> pd.Series:
    """For each call the median transfer of alike ones that are not left out.

    Alike are those of one axis, else, as where an axis is one group or not known, of as many members.
    """
    own_ns = calls["own_transfer_ns"].astype(float).mask(left_out)
    members = calls.groupby("meeting")["rank"].transform("nunique")
    by_axis, by_size = (
        own_ns.groupby([key, calls["op"], calls["bytes"].fillna(-1)]).transform("median")
        for key in (calls["what"], members)
    )
    return by_axis.fillna(by_size)


class Judged(Asked, Protocol):
    """What a rule is handed: the run, measures by name, and what mending would save."""

    @property
    def costs(self) -> Costs: ...
