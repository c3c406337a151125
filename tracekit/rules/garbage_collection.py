"""Python's garbage collector that stops a rank now and then.

What it means: the device is idle while the host collects garbage. Ranks collect at different times, so that each pause
of one is a wait of all, and with many ranks some rank always pauses, another one in each step.
How to confirm: spans of garbage collection on the host (record them with `gc.callbacks`); `gc.disable()` for some
steps.
What to do: `gc.disable()` or `gc.freeze()` after start-up, and `gc.collect()` on all ranks in the same step, every so
many steps.
Published: "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI 2025), 5.4; torchtitan's
`gc_handler`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tracekit.evidence import LEAST_COST_FRAC, in_complete_steps, ms, recurring, step_ns
from tracekit.model import Finding, listed
from tracekit.replay.costs import Judged
from tracekit.stalling import Stall, findings

CODE = "garbage-collection"
ADVICE = "collect on all ranks in the same step: gc.disable(), then gc.collect() every so many steps"
STALL = Stall("collection_ns", "collects garbage", "collect garbage", "in garbage collection", recurs=True)


def check(asked: Judged) -> Iterator[Finding]:
    """A finding per rank that pauses again and again, or one for all: at once, or another one in each step."""
    told = list(findings(asked, CODE, STALL, ADVICE))
    yield from told or _in_turn(asked)


def _in_turn(asked: Judged) -> Iterator[Finding]:
    """One finding where pauses of different ranks add up, none of which pauses often."""
    rows = in_complete_steps(asked["stalls"], asked.run)
    pauses = rows.pivot_table(index="step", columns="rank", values=STALL.column, fill_value=0)
    limit_ns = LEAST_COST_FRAC * step_ns(asked.run)
    longest_ns = pauses.max(axis=1) - pauses.min(axis=1)  # what all do at once keeps nobody waiting
    steps = recurring(longest_ns > limit_ns)
    ranks = tuple(int(rank) for rank in pauses.columns[(pauses > limit_ns).any()])
    often = f"some rank in {len(steps)} of {len(pauses)} steps"
    if not steps or len(ranks) < 2 or longest_ns.mean() < limit_ns:
        return
    yield Finding(
        CODE, "warning", "ranks collect garbage in different steps, and all others wait each time", ranks, steps,
        asked.costs.saved_ns("ideal:host", float(longest_ns.mean())),
        (f"ranks {listed(ranks)} pause, {often}, {ms(longest_ns.mean())} a step in the mean",),
        ADVICE,
    )  # fmt: skip
