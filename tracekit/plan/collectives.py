"""What collectives cost, by arithmetic: bytes that a rank sends, steps, seconds, and bus bandwidth.

Sizes are those of the whole array: an all-gather's output, a reduce-scatter's input, one rank's send buffer of an
all-to-all. In a ring of n ranks an array of S bytes goes round in n parts; all-reduce is a reduce-scatter followed by
an all-gather. Bus bandwidth is the algorithm's bandwidth (size by time) times that same factor, so that it can be held
against the speed of a link whatever n is.

Time is steps × α + bytes / β: `Link.latency` per message on the longest chain, `Link.bandwidth` for what the busiest
rank sends or receives.

| operation | ring: steps | bytes | tree: steps | bytes |
|---|---|---|---|---|
| all_reduce | 2(n-1) | 2S(n-1)/n | 2⌈log2 n⌉ | 2S |
| reduce_scatter, all_gather | n-1 | S(n-1)/n | ⌈log2 n⌉ | S(n-1)/n |
| broadcast, reduce | n-1 | S | ⌈log2 n⌉ | S |
| all_to_all | n-1 | S(n-1)/n | ⌈log2 n⌉ | ⌈log2 n⌉·S/2 |
| gather, scatter | n-1 | S(n-1)/n | ⌈log2 n⌉ | S(n-1)/n |
| send, recv, sendrecv | 1 | S | 1 | S |

`ring` is a pipelined ring, for all-to-all and gather one message to each rank. `tree` is the double binary tree for
all-reduce, broadcast and reduce (as in NCCL), recursive doubling or halving for all-gather and reduce-scatter, Bruck's
for all-to-all. A tree of all-gather or reduce-scatter sends no more than a ring in fewer steps, but to ranks far away,
which links between neighbours only do not give. `hierarchical` works first inside of nodes, then between them.

Sources: Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations" (the ring);
Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication operations in MPICH" (α-β, recursive
doubling, Bruck); Sanders, Speck and Träff 2009, "Two-tree algorithms for full bandwidth broadcast, reduction and scan";
NVIDIA nccl-tests, doc/PERFORMANCE.md (bus bandwidth; 1 for broadcast, reduce and all that is not named there).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.errors import WrongUse

if TYPE_CHECKING:
    from tracekit.plan.hardware import Link

TWICE_AROUND = ("all_reduce",)
ONCE_AROUND = ("all_gather", "reduce_scatter", "all_to_all")
FROM_ONE = ("broadcast", "reduce")
BY_ROOT = ("gather", "scatter")
BETWEEN_TWO = ("send", "recv", "sendrecv")
OPERATIONS = frozenset((*TWICE_AROUND, *ONCE_AROUND, *FROM_ONE, *BY_ROOT, *BETWEEN_TWO, "barrier"))
RING, TREE = "ring", "tree"
ALGORITHMS = (RING, TREE)


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
    if op in TWICE_AROUND:
        return 2 * once_bytes
    if op in ONCE_AROUND or op in FROM_ONE:
        return once_bytes
    if op in BY_ROOT:
        return once_bytes / ranks
    if op in ("send", "sendrecv"):
        return float(size_bytes)
    return 0.0 if op in ("recv", "barrier") else None


def steps(op: str, ranks: int, algorithm: str = RING) -> int:
    """Messages one after the other, from begin to end; WrongUse for an operation or algorithm that is not known."""
    _check(op, ranks, algorithm)
    if ranks == 1:
        return 0
    if op in BETWEEN_TWO:
        return 1
    once = ranks - 1 if algorithm == RING else (ranks - 1).bit_length()
    return 2 * once if op in (*TWICE_AROUND, "barrier") else once


def busiest_bytes(op: str, ranks: int, size_bytes: float, algorithm: str = RING) -> float:
    """Bytes that the busiest rank must send or receive; WrongUse for an operation or algorithm that is not known."""
    _check(op, ranks, algorithm)
    if ranks == 1 or op == "barrier":
        return 0.0
    if op in (*BETWEEN_TWO, *FROM_ONE):
        return float(size_bytes)
    if algorithm == TREE and op == "all_reduce":
        return 2.0 * size_bytes
    if algorithm == TREE and op == "all_to_all":
        return (ranks - 1).bit_length() * size_bytes / 2
    once_bytes = (ranks - 1) / ranks * size_bytes
    return 2 * once_bytes if op in TWICE_AROUND else once_bytes


def seconds(op: str, ranks: int, size_bytes: float, link: Link, algorithm: str = RING) -> float:
    """How long the operation takes on `ranks` of which each has such a link, by α-β; 0 for a group of one.

    `algorithm` is ring or tree; WrongUse for an operation or algorithm that is not known.
    """
    return steps(op, ranks, algorithm) * link.latency + busiest_bytes(op, ranks, size_bytes, algorithm) / link.bandwidth


def quickest(op: str, ranks: int, size_bytes: float, link: Link) -> tuple[str, float]:
    """The quicker of ring and tree, and its seconds, as a library chooses by size."""
    return min(((algorithm, seconds(op, ranks, size_bytes, link, algorithm)) for algorithm in ALGORITHMS), key=_time)


def tree_beats_ring_below(op: str, ranks: int, link: Link) -> float | None:
    """The size in bytes below which the tree is quicker; None where it is at every size, 0 where it never is."""
    saved = (steps(op, ranks, RING) - steps(op, ranks, TREE)) * link.latency
    more = busiest_bytes(op, ranks, 1.0, TREE) - busiest_bytes(op, ranks, 1.0, RING)
    if more > 0:
        return saved * link.bandwidth / more
    return None if saved > 0 else 0.0


def hierarchical_parts(op: str, nodes: int, per_node: int, size_bytes: float) -> list[tuple[str, bool, int, float]]:
    """The operations that make up one on nodes × per_node ranks: (operation, inside, ranks, size in bytes).

    All-reduce: reduce-scatter inside, all-reduce of each part between nodes, all-gather inside. An all-gather goes
    between nodes first, a reduce-scatter inside first, so that fewest bytes leave the node: S/per_node each. Broadcast
    and reduce go between one rank of each node, and inside. An all-to-all goes to the right place inside, then to the
    right node. WrongUse for other operations.
    """
    part = size_bytes / per_node
    known = {
        "all_reduce": [
            ("reduce_scatter", True, per_node, size_bytes),
            ("all_reduce", False, nodes, part),
            ("all_gather", True, per_node, size_bytes),
        ],
        "reduce_scatter": [("reduce_scatter", True, per_node, size_bytes), ("reduce_scatter", False, nodes, part)],
        "all_gather": [("all_gather", False, nodes, part), ("all_gather", True, per_node, size_bytes)],
        "broadcast": [("broadcast", False, nodes, size_bytes), ("broadcast", True, per_node, size_bytes)],
        "reduce": [("reduce", True, per_node, size_bytes), ("reduce", False, nodes, size_bytes)],
        "all_to_all": [("all_to_all", True, per_node, size_bytes), ("all_to_all", False, nodes, size_bytes)],
    }
    if op not in known:
        raise WrongUse(f"no hierarchical algorithm is known for {op!r}; there are {', '.join(known)}")
    return known[op]


def hierarchical_seconds(op: str, nodes: int, per_node: int, size_bytes: float, inside: Link, between: Link) -> float:
    """How long the hierarchical algorithm takes: its parts one after the other, rings on their own links."""
    parts = hierarchical_parts(op, nodes, per_node, size_bytes)
    return sum(seconds(part, ranks, size, inside if within else between) for part, within, ranks, size in parts)


def hierarchical_bytes(op: str, nodes: int, per_node: int, size_bytes: float) -> tuple[float, float]:
    """Bytes of the busiest rank inside its node, and between nodes."""
    parts = hierarchical_parts(op, nodes, per_node, size_bytes)
    told = [(within, busiest_bytes(part, ranks, size)) for part, within, ranks, size in parts]
    return sum(size for within, size in told if within), sum(size for within, size in told if not within)


def _time(told: tuple[str, float]) -> float:
    return told[1]


def _check(op: str, ranks: int, algorithm: str) -> None:
    if op not in OPERATIONS:
        raise WrongUse(f"no collective is named {op!r}")
    if algorithm not in ALGORITHMS:
        raise WrongUse(f"no algorithm is named {algorithm!r}; there are {', '.join(ALGORITHMS)}")
    if ranks < 1:
        raise WrongUse(f"a group has at least 1 rank, not {ranks}")
