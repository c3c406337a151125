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

from tracekit.evidence import LEAST_COST_FRAC, by_rank, in_complete_steps, lasting, ms, step_ns
from tracekit.model import Finding, listed
from tracekit.replay.costs import Judged

CODE = "slow-link"
LEAST_FACTOR = 1.15
"""Transfers that take so much longer in most steps are no chance: medians of healthy links differ by some per cent."""
ALIKE = 0.9
"""Ranks as slow as this share of the slowest cannot be told apart from it."""


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
    # A neighbour that is in no other group is as slow as the culprit, which has more slow groups and so loses more.
    alike = {rank: slower_ns for rank, (factor, slower_ns, _) in slow.items() if factor >= ALIKE * worst}
    ranks = tuple(rank for rank, slower_ns in alike.items() if slower_ns >= ALIKE * max(alike.values()))
    factor, slower_ns, steps = max(slow[rank] for rank in ranks)
    of_them = "the rank" if len(ranks) == 1 else "these ranks, which cannot be told apart"
    named = f"rank {ranks[0]}'s link is" if len(ranks) == 1 else f"a link of ranks {listed(ranks)} is"
    yield Finding(
        CODE, "warning", f"{named} slow: alike transfers take {factor:.2f} times as long", ranks, steps,
        asked.costs.saved_by_links_ns(ranks[0], slower_ns),
        (
            f"counted from the last arrival, transfers take {factor:.2f} times as long in every group of {of_them}, "
            f"in {len(steps)} of {rows['step'].nunique()} steps",
            f"its calls take {ms(slower_ns)} a step longer than alike ones elsewhere",
        ),
        "test the link alone (nccl-tests), look at its error counters; take the port or the node out",
    )  # fmt: skip
