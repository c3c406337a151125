"""Copies that nothing hides.

What it means: the device does nothing but copy, mostly between host and device: inputs from pageable memory, results
that are fetched, offloaded states, with compute waiting for them.
How to confirm: `tracekit explain copies`: which direction, how many bytes, at what bandwidth.
What to do: `pin_memory` and `non_blocking=True`, copies on a stream of their own ahead of their use; leave on the
device what is needed there.
Published: PyTorch Performance Tuning Guide, "Enable async data loading and augmentation"; NVIDIA's CUDA Best Practices
Guide, 10.1.
"""

from __future__ import annotations

from collections.abc import Iterator

from tracekit.evidence import LEAST_COST_FRAC, by_rank, in_complete_steps, lasting, ms, step_ns
from tracekit.model import Finding
from tracekit.replay.costs import Judged

CODE = "blocking-copies"
LEAST_FRAC = 0.02
"""Of the step, exposed on the rank with the most."""


def check(asked: Judged) -> Iterator[Finding]:
    """One finding for the ranks on which copies are exposed, its cost that time on the mean rank."""
    rows = in_complete_steps(asked["breakdown"], asked.run)
    shares = rows.assign(frac=rows["exposed_memory_ns"] / rows["step_ns"])
    ranks = tuple(rank for rank, own in by_rank(shares) if lasting(own["frac"] > LEAST_FRAC))
    if not ranks:
        return
    exposed_ns = float(rows.groupby("rank")["exposed_memory_ns"].mean().loc[list(ranks)].mean())
    cost_ns = round(exposed_ns)
    if cost_ns < LEAST_COST_FRAC * step_ns(asked.run):
        return
    yield Finding(
        CODE, "warning", f"copies that nothing hides take {ms(exposed_ns)} a step", ranks, (), cost_ns,
        (f"{exposed_ns / float(rows['step_ns'].mean()):.0%} of the step the device copies and does nothing else",),
        "pin memory, copy asynchronously and ahead of use; keep on the device what is needed there",
    )  # fmt: skip
