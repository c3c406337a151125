"""Python's garbage collector that stops a rank now and then.

What it means: the device is idle while the host collects garbage. Ranks collect at different times, so that each pause
of one is a wait of all, and with many ranks some rank always pauses.
How to confirm: spans of garbage collection on the host (record them with `gc.callbacks`); `gc.disable()` for some
steps.
What to do: `gc.disable()` or `gc.freeze()` after start-up, and `gc.collect()` on all ranks in the same step, every so
many steps.
Published: "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI 2025), 5.4; torchtitan's
`gc_handler`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tracekit.model import Finding
from tracekit.replay.costs import Judged
from tracekit.stalling import Stall, findings

CODE = "garbage-collection"
STALL = Stall("collection_ns", "collects garbage", "in garbage collection", recurs=True)


def check(asked: Judged) -> Iterator[Finding]:
    """A finding per rank that pauses more than its peers, or one for all."""
    yield from findings(asked, CODE, STALL, "collect on all ranks in the same step: gc.disable(), then gc.collect()")
