"""A pipeline with too few micro-batches for its length.

What it means: a good part of the step is bubble that the schedule itself makes: with p stages and m micro-batches every
rank waits for p - 1 of them to come in and to leave.
How to confirm: `tracekit explain pipeline`: the measured bubble beside the schedule's theory.
What to do: more micro-batches for the same batch (smaller ones, or more accumulation), interleaved stages (v on a rank
divide the bubble by v), a zero-bubble schedule.
Published: GPipe (Huang et al. 2019); Narayanan et al. 2021 (Megatron-LM), 2.2; Qi et al. 2023 (zero bubble).
"""

from __future__ import annotations

from collections.abc import Iterator

from tracekit.evidence import LEAST_COST_FRAC, in_complete_steps, step_ns
from tracekit.model import Finding
from tracekit.plan.pipeline import bubble_of_makespan
from tracekit.replay.costs import Judged

CODE = "pipeline-bubble"
LEAST_BUBBLE_FRAC = 0.1
"""Of the pipeline's time, by theory: of less, twice the micro-batches win less than half."""


def check(asked: Judged) -> Iterator[Finding]:
    """One finding, its cost what twice as many micro-batches for the same batch would save by the schedule's theory."""
    rows = in_complete_steps(asked["pipeline"], asked.run).dropna(subset=["schedule", "microbatches", "theory_frac"])
    if rows.empty or float(rows["theory_frac"].mean()) < LEAST_BUBBLE_FRAC:
        return
    first = rows.iloc[0]
    schedule, microbatches = str(first["schedule"]), int(first["microbatches"])
    stages, per_rank = int(first["ranks"]), int(first["stages_per_rank"])
    now, doubled = (bubble_of_makespan(schedule, stages, m, per_rank) for m in (microbatches, 2 * microbatches))
    window_ns = float(rows["window_ns"].mean())
    cost_ns = round(window_ns * (1 - (1 - now) / (1 - doubled)))
    if cost_ns < LEAST_COST_FRAC * step_ns(asked.run):
        return
    yield Finding(
        CODE, "warning",
        f"{microbatches} micro-batches are few for a pipeline of {stages} ranks: {now:.0%} of its time is bubble",
        (), (), cost_ns,
        (
            f"by theory the schedule {schedule} leaves a bubble of {now:.0%} of the makespan; measured are "
            f"{float(rows['bubble_frac'].mean()):.0%}",
            f"with {2 * microbatches} micro-batches for the same batch theory says {doubled:.0%}",
        ),
        f"{2 * microbatches} micro-batches of half the size, if kernels stay efficient; more stages per rank; or a "
        "zero-bubble schedule",
    )  # fmt: skip
