"""A device that computes more slowly than others that do the same.

What it means: the same kernels take longer on this rank than on the ranks with the same part in the job, all by about
one factor, step after step. A GPU that throttles (heat, power), shares itself with another process, or is faulty.
How to confirm: `nvidia-smi -q -d CLOCK,PERFORMANCE` on its host while the job runs; swap two nodes and see whether the
slowness goes along; a matrix product timed alone on each GPU. See first that the rank has the same batch and sequence
lengths as the others: kernels of the same names on larger tensors are slower too.
What to do: take the GPU or its node out of the job, or cool it; every step runs at the pace of the slowest rank.
Published: "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI 2025), worker problems;
Llama 3's report (2024), 3.3.4.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from tracekit import evidence
from tracekit.evidence import by_rank, in_complete_steps, lasting, step_ns
from tracekit.model import Finding
from tracekit.replay.costs import Judged

CODE = "slow-device"
LEAST_FACTOR = 1.015
"""Kernels of one device that take so much longer are no chance: it is a median over all of its kernels,"""
STEADY = 3.0
"""if the excess is so many times what the other ranks' factors vary from step to step."""


def check(asked: Judged) -> Iterator[Finding]:
    """A finding per slow device, its cost what the step would save at its peers' pace."""
    rows = in_complete_steps(asked["pace"], asked.run)
    for rank, own in by_rank(rows):
        slow = (own["factor"] > LEAST_FACTOR) & (own["factor"] - 1 > own["spread"])
        steps = lasting(slow)
        if not steps:
            continue
        factor, slower_ns = float(own.loc[list(steps), "factor"].median()), float(own["slower_ns"].mean())
        if factor - 1 < STEADY * _variation(
            rows[rows["rank"] != rank]
        ) or slower_ns < evidence.LEAST_COST_FRAC * step_ns(asked.run):
            continue
        yield _finding(asked, rank, own, steps, factor, slower_ns)


def _variation(rows: pd.DataFrame) -> float:
    """How far a rank's factors usually lie from their middle: half of their range, the ranks' median of that."""
    factors = rows.groupby("rank")["factor"]
    return float((factors.max() - factors.min()).median() / 2)


def _finding(
    asked: Judged, rank: int, own: pd.DataFrame, steps: tuple[int, ...], factor: float, slower_ns: float
) -> Finding:
    spread, peers = float(own.loc[list(steps), "spread"].median()), int(own["peers"].max())
    others = f"{peers} other rank{'' if peers == 1 else 's'}"
    since = "" if len(steps) == len(own) else f", from step {steps[0]} on" if own.index[-1] == steps[-1] else ""
    return Finding(
        CODE, "warning", f"rank {rank}'s device is slow: the same kernels take {factor:.2f} times as long{since}",
        (rank,), steps, asked.costs.saved_ns(f"rank:{rank}", slower_ns),
        (
            f"its kernels take {factor:.2f} times as long as those of the same names on {others}, "
            f"in {len(steps)} of {len(own)} steps; half of them by weight within {spread:.1%} of that factor",
            f"it computes for {evidence.ms(slower_ns)} a step longer than at their pace",
        ),
        "look at its clock, temperature and power while the job runs; take the GPU out if it stays slow elsewhere",
    )  # fmt: skip
