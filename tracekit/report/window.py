"""What stands in a window of the timeline: single spans while there are few, else how busy each bin is.

However long the run is and however many ranks it has, a window is at most `MOST_SPANS` spans or `MOST_CELLS` bins.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from tracekit import charts
from tracekit.charts import Figure
from tracekit.errors import NotMeasured
from tracekit.intervals import Spans, length_within, union
from tracekit.model import WORK_KINDS, Run
from tracekit.report.overview import Table
from tracekit.waiting import with_waits
from tracekit.wording import counted, plain, size, time_unit

MOST_SPANS, MOST_CELLS, MOST_BINS = 2_000, 60_000, 1_000
MOST_MARKS, MOST_MEMBERS = 400, 64
MS = 1e6
MOST_EVENTS = 20_000_000
"""So many events are kept in memory, those of the ranks looked at last."""

COLUMNS = ["row", "kind", "name", "start_ns", "end_ns", "match"]


def member_rows(members: pd.DataFrame, start_ns: int) -> Table:
    """The members of a call as rows of text, those that came last first; times from `start_ns` on."""
    unit = time_unit(float((members["end_ns"] - members["start_ns"]).max()))
    names = ("length", "wait", "transfer")
    headings = ("rank", "step", "size", "start, ms", *(f"{name}, {unit.name}" for name in names), "matched by")
    told = members.assign(length_ns=members["end_ns"] - members["start_ns"])
    told = told.sort_values(["start_ns", "rank"], ascending=[False, True])
    rows = tuple(
        (
            *(str(one["rank"]), str(one["step"]), "-" if pd.isna(one["bytes"]) else size(one["bytes"])),
            f"{(one['start_ns'] - start_ns) / MS:,.4f}",
            *("-" if pd.isna(one[f"{name}_ns"]) else unit.of(one[f"{name}_ns"]) for name in names),
            plain(str(one["how"]), 20),
        )
        for one in told.head(MOST_MEMBERS).to_dict("records")
    )
    rest = len(members) - len(rows)
    return Table(headings, rows, f"and {counted(rest, 'more rank')} in the table below" if rest else "")


@dataclass(frozen=True)
class Row:
    """A row of the timeline: one kind of work of one rank."""

    rank: int
    kind: str

    @property
    def name(self) -> str:
        """As it stands beside the row."""
        return f"rank {self.rank} {self.kind}"


@dataclass
class _Held:
    """One rank's work, in order of start, and what of each kind is busy."""

    work: pd.DataFrame
    starts: np.ndarray
    longest_ns: int
    busy: dict[str, Spans]


@dataclass
class Timeline:
    """The windows of a run's timeline; keeps the work of the ranks looked at last."""

    run: Run
    _held: OrderedDict[int, _Held] = field(default_factory=OrderedDict, repr=False)

    @property
    def start_ns(self) -> int:
        """When the first step of the first window of any rank begins."""
        return int(self._steps()["start_ns"].min())

    @property
    def end_ns(self) -> int:
        """When the last one ends."""
        return int(self._steps()["end_ns"].max())

    @property
    def ranks(self) -> list[int]:
        """Ranks with a file."""
        return sorted(set(self.run.ranks["rank"].tolist()))

    def figure(self, from_ns: int, to_ns: int, ranks: Sequence[int]) -> Figure:
        """The window as a figure, times from the run's start; NotMeasured where nothing runs in it."""
        rows = [Row(rank, kind) for rank in ranks for kind in WORK_KINDS if kind in self._of(rank).busy]
        names, marks = [row.name for row in rows], self._marks(rows, from_ns, to_ns)
        inside = {rank: self._inside(rank, from_ns, to_ns) for rank in ranks}
        if sum(map(len, inside.values())) <= MOST_SPANS:
            shown = charts.spans(self._spans(rows, inside, from_ns, to_ns), self.start_ns, names, marks)
        else:
            shown = charts.busy(self._bins(rows, from_ns, to_ns), self.start_ns, names, marks)
        return shown.update_xaxes(range=[(from_ns - self.start_ns) / MS, (to_ns - self.start_ns) / MS])

    def peers(self, match: int) -> pd.DataFrame:
        """All members of a matched call, with their waits."""
        calls: pd.DataFrame = with_waits(self.run).calls
        members: pd.DataFrame = calls[calls["match"] == match].sort_values("rank")
        return members

    def _steps(self) -> pd.DataFrame:
        steps: pd.DataFrame = self.run.steps[self.run.steps["window"] == self.run.steps["window"].min()]
        if steps.empty:
            raise NotMeasured("the run has no step")
        return steps

    def _of(self, rank: int) -> _Held:
        if rank not in self._held:
            work = self.run.rank(rank, self._window(rank)).work
            kinds = [kind for kind in WORK_KINDS if (work["kind"] == kind).any()]
            of_kind = {kind: work[work["kind"] == kind] for kind in kinds}
            busy = {kind: union(one["start_ns"].to_numpy(), one["end_ns"].to_numpy()) for kind, one in of_kind.items()}
            longest = int((work["end_ns"] - work["start_ns"]).max()) if len(work) else 0
            self._held[rank] = _Held(work, work["start_ns"].to_numpy(), longest, busy)
        self._held.move_to_end(rank)
        while len(self._held) > 1 and sum(len(one.work) for one in self._held.values()) > MOST_EVENTS:
            self._held.popitem(last=False)
        return self._held[rank]

    def _window(self, rank: int) -> int:
        return min(window for own, window in self.run.sources if own == rank)

    def _inside(self, rank: int, from_ns: int, to_ns: int) -> pd.DataFrame:
        """The rank's work in the window."""
        held = self._of(rank)
        first, last = np.searchsorted(held.starts, [from_ns - held.longest_ns, to_ns])
        near = held.work.iloc[first:last]
        return near[near["end_ns"] > from_ns]

    def _spans(self, rows: list[Row], inside: dict[int, pd.DataFrame], from_ns: int, to_ns: int) -> pd.DataFrame:
        place = {(row.rank, row.kind): nth for nth, row in enumerate(rows)}
        parts = []
        for rank, work in inside.items():
            calls = self.run.rank(rank, self._window(rank)).calls
            known = calls[["start_ns", "end_ns", "lane", "match"]].drop_duplicates(["start_ns", "end_ns", "lane"])
            told = work.assign(lane=work["lane"].astype(str)).merge(
                known, how="left", on=["start_ns", "end_ns", "lane"]
            )
            told["row"] = [place[rank, kind] for kind in told["kind"].astype(str)]
            told["match"] = told["match"].astype("Int64").fillna(-1)
            parts.append(told)
        every = pd.concat(parts, ignore_index=True)[COLUMNS] if parts else pd.DataFrame(columns=COLUMNS)
        return every.assign(start_ns=every["start_ns"].clip(lower=from_ns), end_ns=every["end_ns"].clip(upper=to_ns))

    def _bins(self, rows: list[Row], from_ns: int, to_ns: int) -> pd.DataFrame:
        count = max(60, min(MOST_BINS, MOST_CELLS // max(len(rows), 1)))
        edges = np.linspace(from_ns, to_ns, count + 1).astype(np.int64)
        starts, ends = edges[:-1], edges[1:]
        lengths = np.maximum(ends - starts, 1)
        parts = [
            pd.DataFrame({
                "row": nth, "kind": row.kind, "time_ns": starts, "length_ns": ends - starts,
                "busy_frac": length_within(self._of(row.rank).busy[row.kind], starts, ends) / lengths,
            })
            for nth, row in enumerate(rows)
        ]  # fmt: skip
        return pd.concat(parts, ignore_index=True)

    def _marks(self, rows: list[Row], from_ns: int, to_ns: int) -> pd.DataFrame:
        """Where steps begin, on each rank's first row."""
        first: dict[int, int] = {}
        for nth, row in enumerate(rows):
            first.setdefault(row.rank, nth)
        steps = self._steps()
        seen = steps[steps["rank"].isin(first) & steps["start_ns"].between(from_ns, to_ns)].head(MOST_MARKS)
        names = [f"rank {rank} step {step} begins" for rank, step in zip(seen["rank"], seen["step"], strict=True)]
        return pd.DataFrame({"row": seen["rank"].map(first), "time_ns": seen["start_ns"], "name": names})
