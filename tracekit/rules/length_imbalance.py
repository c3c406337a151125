"""Samples of unequal length: another rank, or another micro-batch, is the slow one in each step.

What it means: how long ranks compute differs from rank to rank and step to step, forward and backward alike, and no
rank is the slowest lastingly; or micro-batches differ so, on each rank of a pipeline. Sequences have different lengths,
and work grows faster than they do. Everybody waits for whoever has the longest.
How to confirm: tokens and squared lengths per rank, step and micro-batch, beside `tracekit explain pace` and
`tracekit explain microbatches`.
What to do: spread samples by what they cost (length squared for attention), not by count; pack sequences; bucket by
length across ranks.
Published: "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI 2025), 5.3.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from tracekit.errors import NotMeasured
from tracekit.evidence import LEAST_COST_FRAC, in_complete_steps, ms, step_ns
from tracekit.model import Finding
from tracekit.replay.costs import Judged

CODE = "length-imbalance"
LEAST_RANGE = 0.04
"""From the quickest to the slowest rank of a step (or micro-batch of a rank's step), as a share of the usual,"""
LEAST_STEPS = 3
MOST_OFTEN_FRAC = 0.7
"""no rank is the slowest more often than this,"""
MOST_RANKS_FRAC = 0.5
"""and so many ranks change their pace from step to step by half of that: a device that throttles is one."""
LEAST_CORRELATION = 0.5
"""Forward and backward of a rank go along with each other;"""
LEAST_CORRELATION_OF_MICROBATCHES = 0.9
"""those of micro-batches so closely: the study's own bound."""
ADVICE = "spread samples over ranks by what they cost, or pack them to equal lengths"


def check(asked: Judged) -> Iterator[Finding]:
    """One finding for the job, its cost what a step would save with the same work everywhere."""
    found = _of_ranks(asked) or _of_microbatches(asked)
    if found is not None and (found.cost_ns or 0) >= LEAST_COST_FRAC * step_ns(asked.run):
        yield found


def _of_ranks(asked: Judged) -> Finding | None:
    pace = in_complete_steps(asked["pace"], asked.run)
    factors = pace.pivot_table(index="step", columns="rank", values="factor")
    if len(factors) < LEAST_STEPS or factors.shape[1] < 2:
        return None
    apart = factors - factors.median()
    ranges = apart.max(axis=1) - apart.min(axis=1)
    varying = float((factors.max() - factors.min() > ranges.median() / 2).mean())
    often = float(factors.idxmax(axis=1).value_counts(normalize=True).iloc[0])
    if ranges.median() < LEAST_RANGE or often > MOST_OFTEN_FRAC or varying < MOST_RANKS_FRAC:
        return None
    if _correlation(asked) < LEAST_CORRELATION:
        return None
    compute = pace.pivot_table(index="step", columns="rank", values="compute_ns")
    excess_ns = float((compute.max(axis=1) - compute.mean(axis=1)).mean())
    return Finding(
        CODE, "warning", "ranks have unequal work, another one the most in each step: samples of unequal length",
        (), (), _cost_ns(asked, excess_ns),
        (
            f"from the quickest to the slowest rank of a step the same kernels differ by {ranges.median():.0%}, and no "
            f"rank is the slowest in more than {often:.0%} of the steps",
            f"the slowest of a step computes {ms(excess_ns)} longer than the mean",
        ),
        ADVICE,
    )  # fmt: skip


def _cost_ns(asked: Judged, excess_ns: float) -> int:
    """The replay's answer; a long micro-batch may hold up a pipeline once in each of its stages."""
    try:
        stages = asked["stages"]["stage"].nunique() if asked.costs.trusted else 1
    except NotMeasured:
        stages = 1
    return asked.costs.saved_ns("ideal:lengths", excess_ns * max(stages, 1))


def _correlation(asked: Judged) -> float:
    """Of forward's and backward's deviations from their stage's usual time; 1 where phases are not told."""
    try:
        rows = in_complete_steps(asked["stages"], asked.run)
    except NotMeasured:
        return 1.0
    phases = rows.groupby(["rank", "step"])[["forward_ns", "backward_ns"]].sum()
    if not (phases > 0).all(axis=None):
        return 1.0
    apart = phases / phases.groupby("rank").transform("median") - 1
    told = apart["forward_ns"].corr(apart["backward_ns"])
    return 1.0 if pd.isna(told) else float(told)


def _of_microbatches(asked: Judged) -> Finding | None:
    """Where micro-batches of one step differ, on most ranks, and not always the same: both their phases go along."""
    try:
        rows = in_complete_steps(asked["microbatches"], asked.run)
    except NotMeasured:
        return None
    rows = rows.assign(phase=rows["action"].where(rows["action"] == "forward", "backward"))
    apart = _apart(rows)
    if apart.empty or apart.index.get_level_values("step").nunique() < LEAST_STEPS:
        return None
    told = apart.mean(axis=1).groupby(["rank", "step"])
    ranges = told.max() - told.min()
    correlation = apart["forward"].corr(apart["backward"])
    if not (ranges.median() >= LEAST_RANGE and correlation >= LEAST_CORRELATION_OF_MICROBATCHES):
        return None
    excess_ns = _excess_ns(rows)
    return Finding(
        CODE, "warning", "micro-batches are unequal work, others in each step: samples of unequal length",
        (), (), _cost_ns(asked, excess_ns),
        (
            f"from the quickest to the slowest micro-batch of a rank's step the same work differs by "
            f"{ranges.median():.0%}; forward and backward go along (correlation {correlation:.2f})",
            f"the slowest of each are together {ms(excess_ns)} longer in a step than usual ones",
        ),
        ADVICE,
    )  # fmt: skip


USUAL = ["rank", "stage", "phase", "microbatch"]


def _apart(rows: pd.DataFrame) -> pd.DataFrame:
    """By rank, step and micro-batch, how far forward and backward are from usual, as shares.

    Usual is the micro-batch's median over the steps, at the rank's pace in the step: what lasts is no sample's length,
    and what befalls a whole step is the rank's.
    """
    busy = rows.groupby([*USUAL, "step"], dropna=False)["busy_ns"].sum().astype(float)
    share = busy / busy.groupby(USUAL, dropna=False).transform("median")
    share = share / share.groupby(["rank", "stage", "phase", "step"], dropna=False).transform("median") - 1
    table = share.groupby(["rank", "step", "microbatch", "phase"]).mean().unstack("phase")
    return table.dropna() if {"forward", "backward"} <= set(table.columns) else table.iloc[:0]


def _excess_ns(rows: pd.DataFrame) -> float:
    """How much longer than usual the longest of each micro-batch is, all of a step together."""
    busy = rows.groupby(["step", "rank", "stage", "microbatch"], dropna=False)["busy_ns"].sum().astype(float)
    more = busy - busy.groupby(["rank", "stage"], dropna=False).transform("mean")
    return float(more.groupby(["step", "microbatch"]).max().clip(lower=0).groupby("step").sum().mean())
