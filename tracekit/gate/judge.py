"""One metric of both sides -> better, same, worse or unsure, with the change, its interval, and what would settle it.

Each run has a mean over its steps, whose variance is the block bootstrap's. Runs differ by more than their steps tell
(clocks, placement, neighbours): that noise is measured where repeats give it eight degrees of freedom (nine runs and a
new one, five and five). With fewer it is assumed (`RUN_NOISE`, more on a machine whose steps vary more), and what
repeats there are count with their freedom, as in moderated t-tests (Smyth 2004): few repeats are no reason to see less
than none. Then Student's t says how likely such a change is if the truth lies at the limit.

- worse: the change is beyond the limit, with a chance of error of `ALPHA` for all gated metrics together (Holm); and
  where single runs (or blocks of steps) are enough for a rank test to say so, they rank as the means do.
- better: as much on the other side.
- unsure: the change is beyond the limit, but could be chance; or the sample could not have shown a change of
  `BLIND_FRAC`; or there is no sample to speak of.
- same: all else. `detectable` is the least change that would have been called worse.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tracekit import stats
from tracekit.gate.metrics import Series

ALPHA = 0.005
INTERVAL = 0.95
RANK_ALPHA = 0.05
BLIND_FRAC = 0.25
LEAST_STEPS = 3
MEASURED_FREEDOM = 8
"""From so many degrees of freedom on, repeats alone tell the noise between runs."""
LEAST_RUNS = 5
"""So many runs on both sides together are a sample also if each has but a step or two."""
ASSUMED_FREEDOM = 8.0
"""How surely the assumed noise is known."""
RUN_NOISE = {"step": 0.01, "ns": 0.02, "ns of step": 0.005, "bytes": 0.001, "GB/s": 0.03, "frac": 0.005, "count": 0.0}
"""Assumed standard deviation between runs of the same code: of the step time and other metrics as a share of
themselves, for times also as a share of the step, for shares (bubble, overlap) in themselves. Counts repeat exactly."""
STEPS_TO_RUNS = 0.5
"""... and at least this share of the standard deviation of single steps: a restless machine is so over minutes, too."""
MOST_STEPS = 20
"""Profiling more than so many times the steps is no advice: more runs are."""
_RUNS = (1, 2, 3, 4, 5, 7, 10, 14, 20, 30, 50, 100, 200, 500)

Outcome = Literal["better", "same", "worse", "unsure"]
Runs = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Judged:
    """The verdict on one metric. Values are in the metric's unit; `change` is new minus base.

    `limit` is how much worse it may get, `low` to `high` the 95 % interval of the change, `chance` how likely such a
    change beyond the limit is if the truth lies at the limit, corrected for many metrics; all null where unknown.
    `blind` says that there is no sample that could tell anything. `superiority` is how often a new run (or block of
    steps) exceeds one of the base. `why` and `settle` are sentences, "" where there is nothing to say.
    """

    metric: str
    unit: str
    better: str
    gated: bool
    outcome: Outcome
    base: float | None
    new: float | None
    limit: float
    change: float | None = None
    low: float | None = None
    high: float | None = None
    chance: float | None = None
    detectable: float | None = None
    superiority: float | None = None
    noise: str = ""
    steps: tuple[int, int] = (0, 0)
    runs: tuple[int, int] = (0, 0)
    blind: bool = False
    why: str = ""
    settle: str = ""

    @property
    def changed_frac(self) -> float | None:
        """The change as a share of the base; None where there is no base to speak of."""
        return self.change / abs(self.base) if self.change is not None and self.base else None


@dataclass(frozen=True)
class Tested:
    """The numbers behind a verdict, before many metrics are allowed for."""

    base: float
    new: float
    error: float
    freedom: float
    worse: float
    better: float
    rank_worse: float
    rank_better: float
    superiority: float
    noise: str
    within: float
    between: float


def judged(
    metric: str,
    base: Sequence[Series],
    new: Sequence[Series],
    limit: float,
    step: float,
    *,
    noise_frac: float | None = None,
    gated: bool = True,
) -> tuple[Judged, Tested | None]:
    """The verdict without a correction for many metrics, and what it was made of; `step` is the base's step time."""
    kind = (new or base)[0]
    sides = tuple(_distinct([one.values for one in side if len(one.values)]) for side in (base, new))
    steps, runs = tuple(sum(map(len, side)) for side in sides), tuple(len(side) for side in sides)
    bare = Judged(
        metric, kind.unit, kind.better, gated, "unsure", _mean(sides[0]), _mean(sides[1]), limit,
        steps=(steps[0], steps[1]), runs=(runs[0], runs[1]), blind=True,
    )  # fmt: skip
    if not runs[0] or not runs[1]:
        side = "the base" if not runs[0] else "the new run"
        return replace(bare, why=f"{side} did not measure it"), None
    change = (bare.new or 0.0) - (bare.base or 0.0)
    bare = replace(bare, change=change)
    if _deterministic(kind, sides):
        return _exact(bare, change), None
    if min(steps) < LEAST_STEPS and sum(runs) < LEAST_RUNS:
        few = f"{steps[0]} and {steps[1]} steps are no sample"
        return replace(bare, why=few, settle=f"profile at least {LEAST_STEPS} steps; 10 or more are better"), None
    tested = _tested(kind, sides, limit, step, metric, noise_frac)
    return replace(bare, blind=False), tested


def _distinct(values: Runs) -> list[tuple[float, ...]]:
    """Each run once: the same file given twice is no repeat."""
    return list(dict.fromkeys(tuple(one) for one in values))


def _mean(side: Runs) -> float | None:
    return float(np.mean([np.mean(run) for run in side])) if side else None


def _deterministic(kind: Series, sides: tuple[Runs, ...]) -> bool:
    """Counts and sizes that are the same in each step of a side, and so in each run."""
    return kind.unit in ("count", "bytes") and all(len({value for run in side for value in run}) == 1 for side in sides)


def _exact(bare: Judged, change: float) -> Judged:
    worse = change if bare.better == "down" else -change
    outcome: Outcome = "worse" if worse > bare.limit else "better" if worse < -bare.limit else "same"
    return replace(
        bare, outcome=outcome, blind=False, low=change, high=change, chance=float(outcome == "same"),
        detectable=bare.limit, noise="the same in every step",
    )  # fmt: skip


def _tested(
    kind: Series, sides: tuple[Runs, ...], limit: float, step: float, metric: str, noise_frac: float | None
) -> Tested:
    means = [[stats.mean_of_steps(run) for run in side] for side in sides]
    centers = [float(np.mean([one.value for one in side])) for side in means]
    within, within_freedom = _within(means)
    assumed = assumed_noise(kind, centers[0], step, metric, noise_frac)
    between, freedom, told = _between(sides, means, within, assumed, given=noise_frac is not None)
    runs = [len(side) for side in sides]
    error = math.sqrt(between * (1 / runs[0] + 1 / runs[1]))
    freedom = freedom or within_freedom
    sign = 1.0 if kind.better == "down" else -1.0
    worse = sign * (centers[1] - centers[0])
    rank_worse, rank_better, superiority = _ranks(sides, means, sign, limit)
    return Tested(
        centers[0], centers[1], error, freedom,
        _tail(worse - limit, error, freedom), _tail(-worse - limit, error, freedom),
        rank_worse, rank_better, superiority, told, within, max(between - within, 0.0),
    )  # fmt: skip


def _tail(beyond: float, error: float, freedom: float) -> float:
    if error == 0:
        return 0.0 if beyond > 0 else 1.0
    return stats.student_tail(beyond / error, freedom)


def _within(means: list[list[stats.Mean]]) -> tuple[float, float]:
    """The variance of a run's mean that its steps tell, averaged over runs of several steps; its freedom."""
    told = [one for side in means for one in side if math.isfinite(one.variance)]
    if not told:
        return 0.0, 0.0
    return float(np.mean([one.variance for one in told])), sum(one.freedom for one in told)


def _between(
    sides: tuple[Runs, ...], means: list[list[stats.Mean]], within: float, assumed: float, *, given: bool
) -> tuple[float, float, str]:
    """The variance of one run's mean, steps and all; its freedom; and in words where it comes from."""
    freedom = sum(len(side) - 1 for side in means)
    squares = sum((one.value - np.mean([o.value for o in side])) ** 2 for side in means for one in side)
    measured = float(squares) / freedom if freedom else 0.0
    if freedom >= MEASURED_FREEDOM and not given:
        return max(measured, within), float(freedom), f"measured, {freedom + len(means)} runs"
    prior = (assumed if given else max(assumed, STEPS_TO_RUNS * _restlessness(sides))) ** 2
    variance = (ASSUMED_FREEDOM * prior + freedom * max(measured - within, 0.0)) / (ASSUMED_FREEDOM + freedom)
    _, within_freedom = _within(means)
    whole = within + variance
    parts = (within**2 / within_freedom if within_freedom else 0.0) + variance**2 / (ASSUMED_FREEDOM + freedom)
    joint = whole**2 / parts if parts else 1e6  # Welch and Satterthwaite
    return whole, max(1.0, min(joint, 1e6)), "given" if given else _assumed(freedom)


def _assumed(freedom: int) -> str:
    return f"assumed, and {freedom} degrees of freedom measured" if freedom else "assumed"


def _restlessness(sides: tuple[Runs, ...]) -> float:
    """The standard deviation of single steps, by the median over runs of their MADs."""
    told = [stats.MAD_TO_DEVIATION * stats.mad(run) for side in sides for run in side if len(run) > 1]
    return float(np.median(told)) if told else 0.0


def assumed_noise(kind: Series, base: float, step: float, metric: str, noise_frac: float | None) -> float:
    """The standard deviation between runs of the same code, in the metric's unit, where no repeats tell it."""
    given = noise_frac / RUN_NOISE["step"] if noise_frac is not None else 1.0
    if kind.unit == "frac":
        return RUN_NOISE["frac"] * given
    if kind.unit != "ns":
        return RUN_NOISE[kind.unit] * abs(base) * given
    if metric == "breakdown.step_ns":
        return RUN_NOISE["step"] * abs(base) * given
    return math.hypot(RUN_NOISE["ns"] * base, RUN_NOISE["ns of step"] * step) * given


def _ranks(
    sides: tuple[Runs, ...], means: list[list[stats.Mean]], sign: float, limit: float
) -> tuple[float, float, float]:
    """The rank test's chances of worse and better beyond the limit (NaN where it cannot say yes), and superiority.

    Of runs, where there are enough; else of blocks of steps, which are nearly independent of each other.
    """
    by_run = [[one.value for one in side] for side in means]
    blocks = [_blocks(side, of_side) for side, of_side in zip(sides, means, strict=True)]
    for old, new in (by_run, blocks):
        if old and new and stats.least_rank_tail(len(old), len(new)) <= RANK_ALPHA:
            one, other = sign * np.asarray(old), sign * np.asarray(new)
            return (
                stats.rank_tail(one + limit, other), stats.rank_tail(-one + limit, -other),
                stats.superiority(old, new),
            )  # fmt: skip
    return math.nan, math.nan, stats.superiority(*blocks)


def _blocks(side: Runs, means: list[stats.Mean]) -> list[float]:
    found: list[float] = []
    for run, mean in zip(side, means, strict=True):
        whole = len(run) // mean.block * mean.block
        found += np.asarray(run[:whole]).reshape(-1, mean.block).mean(axis=1).tolist()
    return found


def corrected(pairs: Sequence[tuple[Judged, Tested | None]]) -> list[Judged]:
    """The verdicts of metrics that are judged together, each at a level that allows for all of them (Holm 1979)."""
    worse = stats.holm([tested.worse if tested else math.nan for _, tested in pairs])
    better = stats.holm([tested.better if tested else math.nan for _, tested in pairs])
    tests = max(1, sum(tested is not None for _, tested in pairs))
    return [
        one if tested is None else _decided(one, tested, worse[at], better[at], ALPHA / tests)
        for at, (one, tested) in enumerate(pairs)
    ]


def _decided(one: Judged, tested: Tested, worse: float, better: float, level: float) -> Judged:
    reach = stats.student_quantile((1 - INTERVAL) / 2, tested.freedom) * tested.error
    detectable = one.limit + stats.student_quantile(level, tested.freedom) * tested.error
    change = tested.new - tested.base
    beyond = (change if one.better == "down" else -change) > one.limit
    told = replace(
        one, change=change, low=change - reach, high=change + reach, chance=worse, detectable=detectable,
        superiority=tested.superiority, noise=tested.noise,
    )  # fmt: skip
    if worse < ALPHA:
        if not tested.rank_worse > RANK_ALPHA:
            return replace(told, outcome="worse")
        return replace(told, outcome="unsure", why="the means differ, but for a few outliers: single steps do not")
    if better < ALPHA and not tested.rank_better > RANK_ALPHA:
        return replace(told, outcome="better")
    if beyond:
        return replace(
            told, outcome="unsure", why="beyond the limit, but it may be chance", settle=_settle(told, tested, level)
        )
    if tested.base and detectable > max(BLIND_FRAC * abs(tested.base), 2 * one.limit):
        why = f"too noisy: less than {detectable / abs(tested.base):.0%} could not have been told"
        return replace(told, outcome="unsure", why=why, settle=_settle(told, tested, level))
    return replace(told, outcome="same")


def _settle(one: Judged, tested: Tested, level: float) -> str:
    """How many more steps or runs would tell, if the noise and the change stay as they are."""
    change = tested.new - tested.base
    beyond = abs((change if one.better == "down" else -change) - one.limit)
    if beyond == 0:
        return "it lies at the limit: no number of runs would tell"
    steps, runs = min(one.steps), max(1, min(one.runs))
    quantile = stats.student_quantile(level, max(tested.freedom, 2.0))
    allowed = (beyond / quantile) ** 2 * runs / 2  # the variance of a run's mean that would do
    if tested.between < allowed and tested.within <= MOST_STEPS * (allowed - tested.between):
        more = math.ceil(steps * (tested.within / (allowed - tested.between) - 1))
        return f"{max(more, 1):,} more steps on each side would tell"
    for count in (runs + more for more in _RUNS):
        error = math.sqrt(2 * (tested.within + tested.between) / count)
        if error * stats.student_quantile(level, max(2.0 * count - 2, 1.0)) < beyond:
            return f"{count - runs:,} more {'run' if count == runs + 1 else 'runs'} on each side would tell"
    return "the change is too close to the limit for any reasonable number of runs to tell"


def all_judged(
    base: Sequence[Mapping[str, Series]],
    new: Sequence[Mapping[str, Series]],
    limits: Mapping[str, float],
    step: float,
    *,
    gated: bool,
    noise_frac: float | None = None,
) -> list[Judged]:
    """Metrics that are judged together, each under its limit."""
    pairs = [
        judged(
            name, [one[name] for one in base if name in one], [one[name] for one in new if name in one],
            limit, step, noise_frac=noise_frac, gated=gated,
        )
        for name, limit in limits.items()
    ]  # fmt: skip
    return corrected(pairs)
