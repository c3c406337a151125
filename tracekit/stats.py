"""Statistics that the gate rests on: numbers in, numbers out, the same answer each time.

Everything is closed-form or exact, so that no verdict depends on a seed. numpy is all it needs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

MAD_TO_DEVIATION = 1.4826
"""A normal distribution's standard deviation in terms of its MAD."""
EXACT_RANKS = 60
"""Samples of so many values in all have their rank test's distribution counted out; larger ones are normal enough."""


@dataclass(frozen=True)
class Mean:
    """A mean with the variance of that mean, and the degrees of freedom that the variance was estimated with."""

    value: float
    variance: float
    freedom: float
    count: int
    block: int


def mad(values: npt.ArrayLike) -> float:
    """Median distance from the median."""
    held = np.asarray(values, np.float64)
    return float(np.median(np.abs(held - np.median(held))))


def mean_of_steps(values: npt.ArrayLike) -> Mean:
    """The mean of consecutive steps, whose variance allows for steps that resemble their neighbours.

    The variance is that of the circular block bootstrap (Politis and Romano 1992), in closed form: what infinitely
    many resamples would give. Its bias in small samples is put right by n / (n - block). `freedom` is that of the
    Bartlett window, which overlapping blocks amount to (Priestley 1981, 6.2): 1.5 n / block, at most n - 1. One value
    has an infinite variance and no freedom.
    """
    held = np.asarray(values, np.float64)
    count = len(held)
    if count < 2:
        return Mean(float(held.mean()) if count else math.nan, math.inf, 0.0, count, 1)
    block = block_length(held)
    around = np.concatenate((held, held[: block - 1])) - held.mean()
    sums = np.cumsum(np.concatenate(([0.0], around)))
    means = (sums[block:] - sums[:-block]) / block
    variance = float((means**2).mean()) * block / count * count / (count - block)
    return Mean(float(held.mean()), variance, max(1.0, min(count - 1.0, 1.5 * count / block - 1)), count, block)


def block_length(values: Floats) -> int:
    """How many steps make a block: n^(1/3) (from 8 steps on at least 3), at most a third of them; more where neighbours
    resemble each other.

    That is Andrews' rule (1991) for a first-order autoregression under the Bartlett window.
    """
    count = len(values)
    around = values - values.mean()
    square = float(around @ around)
    likeness = float(around[1:] @ around[:-1]) / square if square > 0 else 0.0
    likeness = min(max(likeness, 0.0), 0.97)
    andrews = 1.1447 * (4 * likeness**2 / (1 - likeness**2) ** 2 * count) ** (1 / 3)
    plain = 1.0 if count < 8 else max(3.0, count ** (1 / 3))
    return int(max(1, min(round(max(plain, andrews)), count // 3)))


def student_tail(value: float, freedom: float) -> float:
    """The chance that Student's t with so many degrees of freedom exceeds `value`."""
    if math.isnan(value) or freedom <= 0:
        return math.nan
    if math.isinf(value):
        return 0.0 if value > 0 else 1.0
    if freedom > 1e6:
        return NormalDist().cdf(-value)
    half = 0.5 * _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + value * value))
    return half if value >= 0 else 1 - half


@cache
def student_quantile(tail: float, freedom: float) -> float:
    """The value that Student's t exceeds with the chance `tail` (below a half)."""
    if freedom <= 0:
        return math.inf
    low, high = 0.0, 1.0
    while student_tail(high, freedom) > tail and high < 1e12:
        high *= 2
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if student_tail(middle, freedom) > tail else (low, middle)
    return (low + high) / 2


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function, by its continued fraction (DLMF 8.17.22; Lentz's method)."""
    if x <= 0 or x >= 1:
        return min(max(x, 0.0), 1.0)
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, 1 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    upper, lower = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    value = lower
    for m in range(1, 300):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            upper, lower = 1 + term / upper, 1 / (1 + term * lower)
            value *= upper * lower
        if abs(upper * lower - 1) < 1e-14:
            break
    return front * value


def rank_tail(base: npt.ArrayLike, new: npt.ArrayLike) -> float:
    """The Mann-Whitney test's chance of `new` ranking so high over `base` if both came from one distribution.

    Ties share their ranks. Counted out exactly for samples of up to `EXACT_RANKS` values together, else normal with the
    correction for ties. NaN where a sample is empty.
    """
    one, other = np.asarray(base, np.float64), np.asarray(new, np.float64)
    if not len(one) or not len(other):
        return math.nan
    ranks = _doubled_ranks(np.concatenate((one, other)))
    reached = int(ranks[len(one) :].sum())
    if len(ranks) <= EXACT_RANKS:
        return _subset_tail(ranks, len(other), reached)
    count = len(ranks)
    mean = len(other) * (count + 1)
    variance = len(one) * len(other) * float(((ranks - (count + 1)) ** 2).sum()) / (count * (count - 1))
    return NormalDist().cdf(-(reached - mean - 1) / math.sqrt(variance)) if variance > 0 else 1.0


def least_rank_tail(base: int, new: int) -> float:
    """The smallest chance that a rank test of so many values can tell: 1 over the ways to choose."""
    return 1 / math.comb(base + new, new)


def superiority(base: npt.ArrayLike, new: npt.ArrayLike) -> float:
    """How often a value of `new` exceeds one of `base`, ties counting half: 0.5 where they are alike."""
    one, other = np.asarray(base, np.float64), np.asarray(new, np.float64)
    apart = other[:, None] - one[None, :]
    return float((apart > 0).mean() + 0.5 * (apart == 0).mean()) if apart.size else math.nan


def _doubled_ranks(values: Floats) -> npt.NDArray[np.int64]:
    """Twice each value's rank from 1, so that shared ranks are whole numbers."""
    ordered = np.sort(values)
    below = np.searchsorted(ordered, values, side="left")
    return np.asarray(below + np.searchsorted(ordered, values, side="right") + 1, np.int64)


def _subset_tail(ranks: npt.NDArray[np.int64], size: int, reached: int) -> float:
    """The share of the subsets of so many ranks whose sum is at least `reached`."""
    ways = np.zeros((size + 1, int(ranks.sum()) + 1))
    ways[0, 0] = 1
    for rank in ranks.tolist():
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank].copy()
    return float(ways[size, reached:].sum() / ways[size].sum())


def holm(chances: Sequence[float]) -> list[float]:
    """The chances of single tests, each raised so that the chance of any false alarm among all stays below it.

    Holm 1979. NaN stays NaN and counts as no test.
    """
    known = sorted((chance, index) for index, chance in enumerate(chances) if not math.isnan(chance))
    adjusted, floor = [math.nan] * len(chances), 0.0
    for position, (chance, index) in enumerate(known):
        floor = max(floor, min(1.0, chance * (len(known) - position)))
        adjusted[index] = floor
    return adjusted


def trend(values: npt.ArrayLike) -> tuple[float, float]:
    """How much values rise from one to the next, and the chance of such a rise (or more) without a trend.

    Theil and Sen's slope; Mann and Kendall's test, one-sided, with the correction for ties. NaN for under 4 values.
    """
    held = np.asarray(values, np.float64)
    count = len(held)
    if count < 4:
        return math.nan, math.nan
    later, earlier = np.tril_indices(count, -1)
    apart = held[later] - held[earlier]
    slope = float(np.median(apart / (later - earlier)))
    score = float(np.sign(apart).sum())
    _, ties = np.unique(held, return_counts=True)
    variance = (count * (count - 1) * (2 * count + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())) / 18
    if variance <= 0:
        return slope, 1.0
    return slope, NormalDist().cdf(-(score - 1) / math.sqrt(variance))


def step_changes(values: npt.ArrayLike, *, least: int = 2) -> list[int]:
    """Where a series steps to another level: the position of the first value of each level but the first.

    The levels of least squared error with a penalty of 4 σ² log n for each, found exactly (optimal partitioning;
    Jackson et al. 2005); σ is told by the differences of neighbours, which a step hardly changes. A level lasts for
    at least `least` values; a lone value apart from its neighbours is none. What a straight
    line fits as well is a drift and no step.
    """
    held = np.asarray(values, np.float64)
    count = len(held)
    if count < 2 * least:
        return []
    deviation = MAD_TO_DEVIATION * float(np.median(np.abs(np.diff(held)))) / math.sqrt(2)
    deviation = max(deviation, 1e-9 * float(np.abs(held).max()), 1e-300)
    penalty = 4 * deviation**2 * math.log(count)
    held = _without_lone_values(held)
    around = held - held.mean()
    sums, squares = (np.concatenate(([0.0], np.cumsum(part))) for part in (around, around**2))
    best, before = [0.0] + [math.inf] * count, [0] * (count + 1)
    for end in range(least, count + 1):
        for start in range(0, end - least + 1):
            error = squares[end] - squares[start] - (sums[end] - sums[start]) ** 2 / (end - start)
            cost = best[start] + float(error) + penalty
            if cost < best[end]:
                best[end], before[end] = cost, start
    found: list[int] = []
    at = before[count]
    while at > 0:
        found.append(at)
        at = before[at]
    return found[::-1] if best[count] < _line_error(held) + 2 * penalty else []


def _line_error(values: Floats) -> float:
    """The squared error of a straight line through the values."""
    at = np.arange(len(values)) - (len(values) - 1) / 2
    around = values - values.mean()
    return float(around @ around - (at @ around) ** 2 / (at @ at))


def _without_lone_values(values: Floats) -> Floats:
    """Each value as the median of it and its neighbours (at an end, of the last three)."""
    threes = np.lib.stride_tricks.sliding_window_view(values, 3)
    middle = np.median(threes, axis=1)
    return np.concatenate((middle[:1], middle, middle[-1:]))
