"""What the host does when: its time cut where that changes, and how much of it passes up to any moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int64]
Weights = npt.NDArray[np.float64]

NOTHING = -1


@dataclass(frozen=True)
class Timeline:
    """From each of `times` to the next the host is at `doing`: a code, or NOTHING where it only waits."""

    times: Times
    doing: Codes

    @property
    def lengths(self) -> Times:
        return np.diff(self.times)

    def passed(self, at: Times, pace: Weights) -> Weights:
        """Up to each moment, the time that passes if a nanosecond of each code takes `pace[code]` of them.

        `pace` has a row a code and a column a variant; the answer has a row a moment.
        """
        rates = np.vstack([pace, np.zeros((1, pace.shape[1]))])[self.doing]
        sums = np.vstack([np.zeros((1, pace.shape[1])), np.cumsum(self.lengths[:, None] * rates, axis=0)])
        nth = np.clip(np.searchsorted(self.times, at, side="right") - 1, 0, len(self.doing) - 1)
        over = np.clip(at - self.times[nth], 0, None)
        return np.asarray(sums[nth] + over[:, None] * rates[nth])


def timeline(begin: int, end: int, layers: Sequence[tuple[Times, Times, Codes]]) -> Timeline:
    """The timeline on which later layers cover earlier ones; the spans of one layer do not overlap."""
    edges = [np.array([begin, end])]
    for starts, ends, _ in layers:
        edges += [starts, ends]
    times = np.unique(np.concatenate(edges))
    times = times[(times >= begin) & (times <= end)]
    doing = np.full(len(times) - 1, NOTHING)
    for starts, ends, codes in layers:
        nth = np.searchsorted(starts, times[:-1], side="right") - 1
        inside = nth >= 0
        inside[inside] = times[:-1][inside] < ends[nth[inside]]
        doing[inside] = codes[nth[inside]]
    return Timeline(times, doing)
