"""What collectives cost, by arithmetic: bytes that a rank sends, and bus bandwidth.

Sizes are those of the whole array: an all-gather's output, a reduce-scatter's input, one rank's send buffer of an
all-to-all. In a ring of n ranks an array of S bytes goes round in n parts; all-reduce is a reduce-scatter followed by
an all-gather. Bus bandwidth is the algorithm's bandwidth (size by time) times that same factor, so that it can be held
against the speed of a link whatever n is.

Sources: Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations" (the ring);
NVIDIA nccl-tests, doc/PERFORMANCE.md (bus bandwidth; 1 for broadcast, reduce and all that is not named there).
"""

from __future__ import annotations

TWICE_AROUND = ("all_reduce",)
ONCE_AROUND = ("all_gather", "reduce_scatter", "all_to_all")


def bus_factor(op: str, ranks: int) -> float:
    """What algorithm bandwidth is multiplied with to get bus bandwidth, by operation and ranks in the group."""
    if op in TWICE_AROUND:
        return 2 * (ranks - 1) / ranks
    if op in ONCE_AROUND:
        return (ranks - 1) / ranks
    return 1.0


def sent_bytes(op: str, ranks: int, size_bytes: int) -> float | None:
    """Bytes that each rank sends, of `ranks` in a ring, mean over the group; None for an operation that is not known.

    In a broadcast or reduce all but one pass the array on; in a gather or scatter all but the root's own part goes
    over one link. A sender sends the array, a receiver nothing.
    """
    once_bytes = (ranks - 1) / ranks * size_bytes
    factors = {
        "all_reduce": 2 * once_bytes,
        **dict.fromkeys(("all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce"), once_bytes),
        **dict.fromkeys(("gather", "scatter"), once_bytes / ranks),
        **dict.fromkeys(("send", "sendrecv"), float(size_bytes)),
        **dict.fromkeys(("recv", "barrier"), 0.0),
    }
    return factors.get(op)
