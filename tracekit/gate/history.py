"""A history: a folder of summaries, one file for each run that was saved; append-only.

Several processes may save at once: each writes a file of its own whose name nobody else can have, whole or not at all.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tracekit import stats
from tracekit.errors import Unreadable, WrongUse
from tracekit.gate.summary import SUFFIX, Summary, read_summary, write_new

WINDOW = 20
"""So many of the latest runs a new one is compared with."""
LEAST_LEVEL = 2
"""A level that lasts for so many runs counts as one."""
LEAST_STEP_FRAC = 0.005
"""Smaller steps between levels are not told."""
DRIFT_CHANCE = 0.01


@dataclass(frozen=True)
class History:
    """Summaries in the order in which they were saved, and files that could not be read, with why."""

    folder: str
    summaries: tuple[Summary, ...]
    unread: tuple[str, ...] = ()


@dataclass(frozen=True)
class StepChange:
    """From this run on a metric has another level; `from_value` and `to_value` are means of the levels."""

    at: int
    commit: str
    from_value: float
    to_value: float

    @property
    def changed_frac(self) -> float:
        """By which share of the level before."""
        return (self.to_value - self.from_value) / self.from_value if self.from_value else float("nan")


@dataclass(frozen=True)
class Drift:
    """A metric that rises (or falls) from run to run: by so much of its mean each time, over so many runs."""

    per_run_frac: float
    runs: int
    chance: float

    @property
    def whole_frac(self) -> float:
        """How much it makes over all of them."""
        return self.per_run_frac * (self.runs - 1)


def is_history(path: str | Path) -> bool:
    """Whether a path is a folder that holds summaries."""
    folder = Path(path)
    return folder.is_dir() and any(folder.glob(f"*{SUFFIX}"))


def add(summary: Summary, folder: str | Path) -> Path:
    """Saves the summary as one more in the folder, which is made where it is not there; WrongUse where that fails."""
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise WrongUse(f"{folder} is a file: a history is a folder")
    when = re.sub(r"[^0-9]", "", summary.saved_at)[:20]
    commit = re.sub(r"[^0-9A-Za-z]", "", summary.commit)[:12] or "nocommit"
    return write_new(summary, path / f"{when}-{commit}-{uuid.uuid4().hex[:12]}{SUFFIX}")


def read_history(folder: str | Path) -> History:
    """All summaries of a folder; Unreadable where it holds none that can be read."""
    summaries, unread = [], []
    for file in sorted(Path(folder).glob(f"*{SUFFIX}")):
        try:
            summaries.append(read_summary(file))
        except Unreadable as why:
            unread.append(str(why))
    if not summaries:
        raise Unreadable(unread[0] if unread else f"{folder} holds no summary: save one with tracekit check RUN --save")
    return History(str(folder), tuple(sorted(summaries, key=lambda one: one.saved_at)), tuple(unread))


def values_of(summaries: Sequence[Summary], metric: str) -> list[tuple[int, float]]:
    """The metric's mean in each summary that has it, with the summary's position."""
    held = ((at, summary.metrics.get(metric)) for at, summary in enumerate(summaries))
    return [(at, sum(series.values) / len(series.values)) for at, series in held if series and series.values]


def step_changes(summaries: Sequence[Summary], metric: str) -> list[StepChange]:
    """Where the metric steps to another level for good, as far as it is known."""
    known = values_of(summaries, metric)
    values = [value for _, value in known]
    bounds = [0, *stats.step_changes(values, least=LEAST_LEVEL), len(values)]
    means = [sum(values[a:b]) / (b - a) for a, b in pairwise(bounds)] if values else []
    found = []
    for number, start in enumerate(bounds[1:-1], 1):
        change = StepChange(known[start][0], summaries[known[start][0]].commit, means[number - 1], means[number])
        if abs(change.to_value - change.from_value) > LEAST_STEP_FRAC * abs(change.from_value):
            found.append(change)
    return found


def drift(summaries: Sequence[Summary], metric: str) -> Drift | None:
    """A slow rise or fall of the metric since its last step; None where there is none."""
    changes = step_changes(summaries, metric)
    values = [value for at, value in values_of(summaries, metric) if not changes or at >= changes[-1].at]
    slope, chance = stats.trend(values)
    falling = stats.trend([-value for value in values])[1]
    mean = sum(values) / len(values) if values else 0.0
    least = min(chance, falling)
    if not least < DRIFT_CHANCE / 2 or not mean:
        return None
    return Drift(slope / mean, len(values), least)


def baseline(summaries: Sequence[Summary], metric: str) -> list[Summary]:
    """What a new run is compared with: the latest `WINDOW` runs since the metric last stepped to another level."""
    recent = list(summaries)[-WINDOW:]
    changes = step_changes(recent, metric)
    return recent[changes[-1].at :] if changes else recent
