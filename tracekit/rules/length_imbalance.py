"""Samples of unequal length: another rank is the slow one in each step.

What it means: how long ranks compute differs from rank to rank and step to step, forward and backward alike, and no
rank is the slowest lastingly: sequences have different lengths, and work grows faster than they do. Everybody waits
for whoever has the longest.
How to confirm: tokens and squared lengths per rank and step, beside `tracekit explain pace`.
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
"""From the quickest to the slowest rank of a step, as a share of the usual pace,"""
LEAST_STEPS = 3
MOST_OFTEN_FRAC = 0.7
"""no rank is the slowest more often than this,"""
MOST_RANKS_FRAC = 0.5
"""and so many ranks change their pace from step to step by half of that: a device that throttles is one."""
LEAST_CORRELATION = 0.5
"""Forward and backward of a rank go along with each other."""


def check(asked: Judged) -> Iterator[Finding]:
    """One finding for the job, its cost what a step would save with the same work everywhere."""
    pace = in_complete_steps(asked["pace"], asked.run)
    factors = pace.pivot_table(index="step", columns="rank", values="factor")
    if len(factors) < LEAST_STEPS or factors.shape[1] < 2:
        return
    apart = factors - factors.median()
    ranges = apart.max(axis=1) - apart.min(axis=1)
    varying = float((factors.max() - factors.min() > ranges.median() / 2).mean())
    often = float(factors.idxmax(axis=1).value_counts(normalize=True).iloc[0])
    if ranges.median() < LEAST_RANGE or often > MOST_OFTEN_FRAC or varying < MOST_RANKS_FRAC:
        return
    if _correlation(asked) < LEAST_CORRELATION:
        return
    compute = pace.pivot_table(index="step", columns="rank", values="compute_ns")
    excess_ns = float((compute.max(axis=1) - compute.mean(axis=1)).mean())
    cost_ns = asked.costs.saved_ns("ideal:work", excess_ns)
    if cost_ns < LEAST_COST_FRAC * step_ns(asked.run):
        return
    yield Finding(
        CODE, "warning", "ranks have unequal work, another one the most in each step: samples of unequal length",
        (), (), cost_ns,
        (
            f"from the quickest to the slowest rank of a step the same kernels differ by {ranges.median():.0%}, and no "
            f"rank is the slowest in more than {often:.0%} of the steps",
            f"the slowest of a step computes {ms(excess_ns)} longer than the mean",
        ),
        "spread samples over ranks by what they cost, or pack them to equal lengths",
    )  # fmt: skip


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
