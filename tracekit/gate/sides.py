"""What people name as the sides of a check, as summaries: traces, saved summaries, histories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tracekit.analysis import Analysis
from tracekit.errors import Unreadable, WrongUse
from tracekit.gate.check import comparable_ones
from tracekit.gate.history import baseline, is_history, read_history
from tracekit.gate.summary import STEP, Summary, is_summary, read_summary, summary_of
from tracekit.read.load import load

Reader = Callable[[str], Analysis]


def _read(path: str) -> Analysis:
    return Analysis(load(path))


def summary_at(path: str, reader: Reader = _read, *, commit: str = "") -> Summary:
    """The summary of a run, read from its traces or from a file; WrongUse for a history, which is many runs."""
    if is_summary(path):
        return read_summary(path)
    if is_history(path):
        raise WrongUse(f"{path} is a history, which is many runs: it can only be a baseline")
    return summary_of(reader(path), commit=commit)


def base_side(
    where: Sequence[str], new: Summary, reader: Reader = _read, left_out: Callable[[str], None] | None = None
) -> tuple[list[Summary], bool]:
    """The runs to compare with, and whether they are a history; of a history those that are comparable.

    `left_out` is told of files of a history that could not be read. Unreadable for an empty folder.
    """
    histories = [one for one in where if is_history(one)]
    if histories and len(where) > 1:
        raise WrongUse(f"{histories[0]} is a history: it is a baseline by itself")
    if histories:
        history = read_history(where[0])
        for why in history.unread:
            if left_out:
                left_out(why)
        return baseline(comparable_ones(history.summaries, new), STEP), True
    for one in where:
        if Path(one).is_dir() and not any(Path(one).iterdir()):
            raise Unreadable(f"{one} is empty: save a first run with tracekit check RUN --save {one}")
    return [summary_at(one, reader) for one in where], False
