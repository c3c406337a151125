"""A host that launches work too late.

What it means: the device is idle because Python had not launched its next work yet, and neither data loading, garbage
collection nor a call that waits for the device says why. On one rank: a busy or slow CPU, a thread in the way, slow
Python of its own (a hook, logging). On all ranks: kernels so small that launching them takes longer than running them.
How to confirm: the launch delay and the queue near 0 in `tracekit explain host`; CPU load and clock on that host;
`py-spy dump`.
What to do: one rank: give the process its cores (NUMA binding, no other work on them). All: CUDA graphs,
`torch.compile`, larger micro-batches, fused optimizers.
Published: HolisticTraceAnalysis' idle time breakdown (host wait); MegaScale (NSDI 2024), 6.
"""

from __future__ import annotations

from collections.abc import Iterator

from tracekit.model import Finding
from tracekit.replay.costs import Judged
from tracekit.stalling import Stall, findings

CODE = "slow-host"
STALL = Stall(
    "launching_ns", "is late to launch work", "are late to launch work", "because Python is late", recurs_frac=0.03
)  # pauses that no span tells of, a garbage collection's, come now and then


def check(asked: Judged) -> Iterator[Finding]:
    """A finding per rank that is later than its peers, or one for all that are launch-bound."""
    advice = "look at that host's CPU: cores, NUMA binding, clock, other processes; py-spy shows slow Python"
    yield from findings(
        asked, CODE, STALL, advice, "launch less: CUDA graphs, torch.compile, larger micro-batches, fused optimizers"
    )
