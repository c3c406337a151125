"""Copies that nothing hides.

What it means: the device does nothing but copy or set memory, and compute waits for it: inputs from pageable memory,
results that are fetched, offloaded states; on the device itself, tensors made contiguous, buffers packed and unpacked.
How to confirm: `tracekit explain copies`: which direction, how many bytes, at what bandwidth.
What to do: between host and device: `pin_memory` and `non_blocking=True`, copies on a stream of their own, ahead of
use; leave on the device what is needed there. On the device: views instead of copies, `zero_grad(set_to_none=True)`.
Published: PyTorch Performance Tuning Guide, "Enable async data loading and augmentation"; NVIDIA's CUDA Best Practices
Guide, 10.1.
"""

from __future__ import annotations

from collections.abc import Iterator

from tracekit.errors import NotMeasured
from tracekit.evidence import LEAST_COST_FRAC, by_rank, in_complete_steps, lasting, ms, step_ns
from tracekit.model import MEMORY, Finding
from tracekit.replay.costs import Judged

CODE = "blocking-copies"
LEAST_FRAC = 0.02
"""Of the rank's step; so much is more than the copy of an input and of a loss."""
ON_DEVICE = ("device_to_device", "set")


def check(asked: Judged) -> Iterator[Finding]:
    """One finding for the ranks on which copies are exposed; of one rank alone, what it is later by than others."""
    rows = in_complete_steps(asked["breakdown"], asked.run)
    shares = rows.assign(frac=rows["exposed_memory_ns"] / rows["step_ns"])
    ranks = tuple(rank for rank, own in by_rank(shares) if lasting(own["frac"] > LEAST_FRAC))
    if not ranks:
        return
    exposed_ns = float(rows.groupby("rank")["exposed_memory_ns"].mean().loc[list(ranks)].mean())
    cost_ns = round(min(exposed_ns, _later_ns(asked, ranks[0])) if _alone(ranks, asked) else exposed_ns)
    if cost_ns < LEAST_COST_FRAC * step_ns(asked.run):
        return
    told, advice = _kinds(asked, ranks)
    where = f" on rank {ranks[0]}" if _alone(ranks, asked) else ""
    yield Finding(
        CODE, "warning", f"copies that nothing hides take {ms(exposed_ns)} a step{where}", ranks, (), cost_ns,
        (f"{exposed_ns / float(rows['step_ns'].mean()):.0%} of the step the device only copies", *told),
        advice,
    )  # fmt: skip


def _alone(ranks: tuple[int, ...], asked: Judged) -> bool:
    return len(ranks) == 1 < asked.run.ranks["rank"].nunique()


def _later_ns(asked: Judged, rank: int) -> float:
    """How much longer this rank alone needs for a step than any other; only that can be saved by mending it alone."""
    own_ns = in_complete_steps(asked["ranks"], asked.run).groupby("rank")["own_ns"].mean()
    return max(0.0, float(own_ns.loc[rank] - own_ns.drop(rank).max()))


def _kinds(asked: Judged, ranks: tuple[int, ...]) -> tuple[tuple[str, ...], str]:
    """What is copied most of the time, from where to where, and what to do about it."""
    advice = "pin memory, copy asynchronously and ahead of use; keep on the device what is needed there"
    try:
        copies = in_complete_steps(asked["copies"], asked.run)
    except NotMeasured:
        return (), advice
    time_ns = copies[copies["rank"].isin(ranks)].groupby("direction")["copy_ns"].sum()
    if not time_ns.sum():
        return (), advice
    most = str(time_ns.idxmax())
    share = float(time_ns[most] / time_ns.sum())
    if most in ON_DEVICE:
        advice = "views instead of copies of tensors; zero_grad(set_to_none=True) instead of setting to zero"
    return (f"{share:.0%} of all copying is {most.replace('_', ' ')}{_pageable(asked, ranks)}",), advice


def _pageable(asked: Judged, ranks: tuple[int, ...]) -> str:
    """Whether the copies' names tell that they are from or to memory that is not pinned."""
    rows = asked["kernels"]
    names = rows.loc[rows["rank"].isin(ranks) & (rows["kind"] == MEMORY), "name"].astype(str)
    return ", from or to memory that is not pinned" if names.str.contains("Pageable", regex=False).any() else ""
