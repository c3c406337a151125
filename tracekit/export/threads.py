"""Threads of the merged trace for a rank's lanes, so that on each of them spans hold one another or are apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import merge

import pandas as pd

Key = tuple[str, int]
"""A lane, and which of its threads: its own (0) or a further one."""


@dataclass(frozen=True)
class Threads:
    """The number of each thread, and that of the thread on which each table's rows stand."""

    number: Mapping[Key, int]
    of_each: Sequence[Sequence[int]]


def threads(tables: Sequence[pd.DataFrame], taken: Mapping[Key, int]) -> Threads:
    """Threads for all rows, outer ones first in each table, beside those that have a number already."""
    further = _further(tables)
    used = [list(zip(rows["lane"].tolist(), places, strict=True)) for rows, places in zip(tables, further, strict=True)]
    number = dict(taken)
    new = {key for keys in used for key in keys} - set(taken)
    for lane, place in sorted(new, key=lambda key: (key[1], key[0])):
        own = lane.rpartition("/")[2]
        tid = int(own) if own.isdecimal() and len(own) < 10 and not place else 0
        while tid < 1 or tid in number.values():
            tid = max(number.values(), default=0) + 1
        number[lane, place] = tid
    return Threads(number, [[number[key] for key in keys] for keys in used])


def _further(tables: Sequence[pd.DataFrame]) -> list[list[int]]:
    """For each row of the tables, outer ones first, on which further thread of its lane it finds a place."""
    places = [[0] * len(rows) for rows in tables]
    each = [
        zip(
            rows["start_ns"].tolist(),
            (-rows["end_ns"]).tolist(),
            [table] * len(rows),
            range(len(rows)),
            rows["lane"].tolist(),
            strict=True,
        )
        for table, rows in enumerate(tables)
    ]
    open_until: dict[tuple[str, int], list[int]] = defaultdict(list)
    for start_ns, end_ns, table, row, lane in merge(*each):
        while not _fits(open_until[lane, places[table][row]], start_ns, -end_ns):
            places[table][row] += 1
    return places


def _fits(open_until: list[int], start_ns: int, end_ns: int) -> bool:
    """Whether a span crosses none of the open ones of its thread, each inside the one before; if so, it is open too."""
    while open_until and open_until[-1] <= start_ns:
        open_until.pop()
    fits = not open_until or end_ns <= open_until[-1]
    if fits:
        open_until.append(end_ns)
    return fits
