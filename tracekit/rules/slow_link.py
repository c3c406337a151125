"""A link that moves data more slowly than others of its kind.

What it means: transfers of the same size and kind take longer wherever this rank takes part, also after all members
have arrived. A cable, a port or a switch with errors, a NIC shared with other traffic, a GPU on the wrong PCIe slot.
How to confirm: `tracekit explain links`; nccl-tests between its host and another; error counters (`ibstat`,
`ethtool -S`, `nvidia-smi nvlink -e`).
What to do: take the port or node out; look at the rank's NUMA and PCIe place (`nvidia-smi topo -m`), at NCCL's choice
of interfaces (`NCCL_DEBUG=INFO`).
Published: "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI 2025), communication;
MegaScale (NSDI 2024), 6.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from tracekit.evidence import LEAST_COST_FRAC, by_rank, in_complete_steps, lasting, ms, step_ns
from tracekit.model import Finding
from tracekit.replay.costs import Judged

CODE = "slow-link"
LEAST_FACTOR = 1.15
"""Transfers that take so much longer are no chance."""


def check(asked: Judged) -> Iterator[Finding]:
    """A finding for the rank, or the ranks that cannot be told apart, in whose groups transfers are slow."""
    rows = in_complete_steps(asked["links"], asked.run)
    slow = {}
    for rank, own in by_rank(rows):
        steps = lasting(own["factor"] > LEAST_FACTOR)
        slower_ns = float(own["slower_ns"].mean())
        if steps and slower_ns > LEAST_COST_FRAC * step_ns(asked.run):
            slow[rank] = (float(own.loc[list(steps), "factor"].median()), slower_ns, steps)
    if not slow:
        return
    worst = max(factor for factor, _, _ in slow.values())
    # Who shares one slow group with the culprit is as slow as it is only where it is in no other group.
    ranks = tuple(rank for rank, (factor, _, _) in slow.items() if factor >= 0.9 * worst)
    factor, slower_ns, steps = slow[ranks[0]]
    named = f"rank {ranks[0]}'s link is" if len(ranks) == 1 else f"a link of ranks {', '.join(map(str, ranks))} is"
    yield Finding(
        CODE, "warning", f"{named} slow: alike transfers take {factor:.2f} times as long", ranks, steps,
        asked.costs.saved_by_links_ns(ranks[0], _most_ns(rows)),
        (
            f"transfers take {factor:.2f} times as long in every group of the rank, counted from the last arrival, "
            f"in {len(steps)} steps",
            f"its calls take {ms(slower_ns)} a step longer than alike ones elsewhere",
        ),
        "test the link alone (nccl-tests), look at its error counters; take the port or the node out",
    )  # fmt: skip


def _most_ns(rows: pd.DataFrame) -> float:
    """The most that can be saved: what transfers take longer than alike ones, of all ranks together."""
    return float(rows.groupby("step")["slower_ns"].sum().mean())
