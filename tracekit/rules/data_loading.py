"""A rank whose device waits for its input.

What it means: the device is idle while the host loads data (a `DataLoader`'s next, or a span named so), on one rank
longer than on its peers, or on all ranks for a good part of the step. All others wait for that rank.
How to confirm: `tracekit explain stalls`; the host's spans of data loading before the step's first kernel; run with
synthetic data and see the step shrink.
What to do: more loader workers, `prefetch_factor`, `pin_memory` and `non_blocking` copies; data nearer to the node;
look for a slow disk or a noisy neighbour where it is one rank only.
Published: MegaScale (NSDI 2024), 3.4; tf.data (VLDB 2021).
"""

from __future__ import annotations

from collections.abc import Iterator

from tracekit.model import Finding
from tracekit.replay.costs import Judged
from tracekit.stalling import Stall, findings

CODE = "data-loading"
STALL = Stall("loading_ns", "loads data", "load data", "in data loading")


def check(asked: Judged) -> Iterator[Finding]:
    """A finding per rank that loads longer than its peers, or one for all."""
    advice = "look at that rank's disk, its data and its neighbours; more loader workers and prefetching"
    yield from findings(asked, CODE, STALL, advice, "more loader workers, prefetching, data nearer to the nodes")
