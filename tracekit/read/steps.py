"""Where each step of one rank begins and ends.

Steps come from the host's `ProfilerStep#N` annotations only. The device runs behind the host, so a step's window on the
device is told by what was launched: step N+1 begins at the later of its host start and the latest end, on any lane, of
work launched before it. Windows of consecutive steps tile; the last one ends with its host span or its last work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.model import NO_STEP, NO_TIME
from tracekit.read import names

COMPLETE_FRAC = 0.8
"""A step with less than this share of the median count of work is incomplete,"""
MIN_STEPS, MIN_WORK = 3, 20
"""if there are so many steps, and so much work in the median step."""

Times = npt.NDArray[np.int64]


def host_steps(host: pd.DataFrame) -> pd.DataFrame:
    """The host's step annotations: step, start_ns, end_ns, in order; of a number seen twice, the longest."""
    longest: dict[int, tuple[int, int]] = {}
    for number, _, start_ns, end_ns in _marks(host):
        if end_ns - start_ns >= np.subtract(*longest.get(number, (0, 0))[::-1]):
            longest[number] = (start_ns, end_ns)
    marked = sorted((start_ns, end_ns, number) for number, (start_ns, end_ns) in longest.items())
    return pd.DataFrame(marked, columns=["start_ns", "end_ns", "step"], dtype="int64")[["step", "start_ns", "end_ns"]]


def marking_processes(host: pd.DataFrame) -> int:
    """How many processes mark one step; more than one are several ranks'."""
    marked: dict[int, set[str]] = defaultdict(set)
    for number, lane, _, _ in _marks(host):
        marked[number].add(lane.partition("/")[0])
    return max(map(len, marked.values()), default=0)


def _marks(host: pd.DataFrame) -> Iterator[tuple[int, str, int, int]]:
    """The step annotations: number, lane, start and end."""
    labels = host["name"].cat.categories
    stepping = [code for code, label in enumerate(labels) if label.startswith("ProfilerStep#")]
    rows = host.loc[np.isin(host["name"].cat.codes, stepping), ["category", "name", "lane", "start_ns", "end_ns"]]
    for category, name, lane, start_ns, end_ns in rows.itertuples(index=False):
        number = names.step_number(category, name)
        if number is not None:
            yield number, lane, start_ns, end_ns


def launch_times(work: pd.DataFrame) -> Times:
    """When each piece of work was launched, as far as can be told.

    Work without a launch in the file was launched before the file began (`NO_TIME`) if it starts before its lane's
    first launched work; else it goes by its own start.
    """
    known = work["launch_ns"].to_numpy() != NO_TIME
    lanes, starts = work["lane"].cat.codes.to_numpy(), work["start_ns"].to_numpy()
    first = np.full(len(work["lane"].cat.categories), NO_TIME)
    launched = np.flatnonzero(known)[::-1]  # in order of start, so that the first of a lane is written last
    first[lanes[launched]] = starts[launched]
    early = ~known & (starts < first[lanes])
    return np.where(known, work["launch_ns"].to_numpy(), np.where(early, NO_TIME, starts))


def step_of(times_ns: Times, steps: pd.DataFrame) -> Times:
    """The step in whose span each time lies; `NO_STEP` outside all."""
    starts, ends = steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy()
    place = np.searchsorted(starts, times_ns, side="right") - 1
    inside = (place >= 0) & (times_ns < ends[place]) if len(steps) else np.zeros(len(times_ns), bool)
    return np.where(inside, steps["step"].to_numpy()[place] if len(steps) else NO_STEP, NO_STEP).astype(np.int64)


def device_windows(steps: pd.DataFrame, launches_ns: Times, ends_ns: Times) -> pd.DataFrame:
    """The steps' windows on the device: step, start_ns, end_ns."""
    order = np.argsort(launches_ns, kind="stable")
    launched, done = launches_ns[order], np.maximum.accumulate(ends_ns[order])
    starts, ends = steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy()
    begin = np.maximum(starts, _done_before(starts, launched, done))
    last = np.maximum(np.maximum(ends, begin), _done_before(ends, launched, done))
    numbers = steps["step"].to_numpy()
    tiles = np.append(numbers[1:] == numbers[:-1] + 1, False)
    end = np.where(tiles, np.append(begin[1:], 0), last)
    return pd.DataFrame({"step": numbers, "start_ns": begin, "end_ns": end})


def _done_before(times_ns: Times, launched: Times, done: Times) -> Times:
    """The latest end of work launched before each time; `NO_TIME` where there is none."""
    count = np.searchsorted(launched, times_ns, side="left")
    return np.where(count > 0, np.append(done, NO_TIME)[count - 1], NO_TIME)


def whole_span(starts_ns: Times, ends_ns: Times) -> pd.DataFrame:
    """One implicit step over everything, for a file that marks none."""
    held = [(0, int(starts_ns.min()), int(ends_ns.max()))] if len(starts_ns) else []
    return pd.DataFrame(held, columns=["step", "start_ns", "end_ns"]).astype("int64")


def complete(windows: pd.DataFrame, work_steps: Times) -> npt.NDArray[np.bool_]:
    """Which windows hold a whole step, judged by the count of work that each step launched."""
    counts = pd.Series(work_steps).value_counts().reindex(windows["step"], fill_value=0).to_numpy()
    whole = (windows["end_ns"] > windows["start_ns"]).to_numpy()
    usual = float(np.median(counts)) if len(counts) else 0.0
    if len(windows) < MIN_STEPS or usual < MIN_WORK:
        return whole
    return whole & (counts >= COMPLETE_FRAC * usual)
