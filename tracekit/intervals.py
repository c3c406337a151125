"""Sets of time as half-open spans `[start, end)` in integer nanoseconds, and the arithmetic of such sets.

A `Spans` is in order, without overlap and without empty or touching spans, so that each set has one form and its length
is a plain sum. Everything is O(n log n) or better and vectorised with numpy; nothing is changed in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Nanoseconds = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Spans:
    """A set of time: starts and ends of its disjoint parts, both int64 and of one length, in order."""

    starts: Nanoseconds
    ends: Nanoseconds

    def __len__(self) -> int:
        return len(self.starts)


EMPTY = Spans(np.empty(0, np.int64), np.empty(0, np.int64))


def union(starts: npt.ArrayLike, ends: npt.ArrayLike) -> Spans:
    """The set that any of the given spans covers; they may overlap, touch, be empty and stand in any order."""
    start, end = np.asarray(starts, np.int64), np.asarray(ends, np.int64)
    held = end > start
    start, end = start[held], end[held]
    if not len(start):
        return EMPTY
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    first = np.concatenate(([True], start[1:] > reach[:-1]))
    last = np.concatenate((first[1:], [True]))
    return Spans(start[first], reach[last])


def merge(sets: Sequence[Spans]) -> Spans:
    """The union of several sets."""
    if not sets:
        return EMPTY
    return union(np.concatenate([one.starts for one in sets]), np.concatenate([one.ends for one in sets]))


def length(spans: Spans) -> int:
    """Nanoseconds in the set."""
    return int((spans.ends - spans.starts).sum())


def length_within(spans: Spans, starts: npt.ArrayLike, ends: npt.ArrayLike) -> Nanoseconds:
    """Nanoseconds of the set inside each of the given windows, which may be in any order and overlap."""
    return _length_before(spans, np.asarray(ends, np.int64)) - _length_before(spans, np.asarray(starts, np.int64))


def _length_before(spans: Spans, times: Nanoseconds) -> Nanoseconds:
    """Nanoseconds of the set that lie before each time."""
    if not len(spans):
        return np.zeros(len(times), np.int64)
    ended = np.concatenate(([0], np.cumsum(spans.ends - spans.starts)))
    begun = np.searchsorted(spans.starts, times, side="left")
    beyond = np.where(begun > 0, spans.ends[begun - 1] - times, 0)
    return np.asarray(ended[begun] - np.maximum(beyond, 0), np.int64)


def intersect(one: Spans, other: Spans) -> Spans:
    """What lies in both sets."""
    if not len(one) or not len(other):
        return EMPTY
    first = np.searchsorted(other.ends, one.starts, side="right")
    last = np.searchsorted(other.starts, one.ends, side="left")
    pairs = np.maximum(last - first, 0)
    mine = np.repeat(np.arange(len(one)), pairs)
    theirs = np.arange(pairs.sum()) - np.repeat(np.cumsum(pairs) - pairs, pairs) + np.repeat(first, pairs)
    starts = np.maximum(one.starts[mine], other.starts[theirs])
    ends = np.minimum(one.ends[mine], other.ends[theirs])
    return union(starts, ends)


def gaps(spans: Spans, start: int, end: int) -> Spans:
    """What of the window `[start, end)` the set leaves free."""
    inside = intersect(spans, union([start], [end]))
    return union(np.concatenate(([start], inside.ends)), np.concatenate((inside.starts, [end])))


def subtract(one: Spans, other: Spans) -> Spans:
    """What lies in the first set and not in the second."""
    if not len(one) or not len(other):
        return one
    return intersect(one, gaps(other, int(one.starts[0]), int(one.ends[-1])))


def shares(sets: Mapping[str, Spans], within: Spans) -> dict[str, int]:
    """Splits the time of `within` that the named sets cover among them, so that the parts sum to the whole.

    An instant that several sets cover is shared equally among them; nanoseconds that do not divide go to the first
    names in alphabetical order.
    """
    parts = {name: intersect(within, sets[name]) for name in sorted(sets)}
    if not any(map(len, parts.values())):
        return dict.fromkeys(parts, 0)
    edges = np.unique(np.concatenate([np.concatenate((part.starts, part.ends)) for part in parts.values()]))
    lengths = np.diff(edges)
    covers = np.array([_covers(part, edges[:-1]) for part in parts.values()], np.int64)
    sharers = np.maximum(covers.sum(axis=0), 1)
    before = np.cumsum(covers, axis=0) - covers
    split = covers * (lengths // sharers + (before < lengths % sharers))
    return dict(zip(parts, (int(total) for total in split.sum(axis=1)), strict=True))


def _covers(spans: Spans, times: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Whether each time lies in the set."""
    index = np.searchsorted(spans.starts, times, side="right") - 1
    inside = index >= 0
    inside[inside] = times[inside] < spans.ends[index[inside]]
    return inside
