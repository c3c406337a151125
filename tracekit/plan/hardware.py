"""What a layout runs on: GPUs, nodes, and the links inside of and between nodes.

A link is what one rank gets of it: the bytes that it sends per second, while it receives as many. Presets take makers'
figures (dense BF16, no sparsity; links in one direction) and LINK_SHARE of their bandwidth, since a collective never
reaches all of it. Measured figures are better: `links_of_sweep` reads the JSON of `python -m workloads collectives`.

Sources: NVIDIA data sheets of V100, A100, H100, H200, of DGX-1, DGX A100, H100, H200 and B200, and of GeForce RTX 4090
(Ada white paper); AMD's data sheet of MI300X. One network adapter per GPU: 200 Gb/s (HDR) with A100, 400 Gb/s (NDR)
with H100 and later; half of one of 100 Gb/s in DGX-1. Latencies: NCCL, src/graph/tuning.cc, a ring's step with the
protocol LL128 over NVLink, PCIe and the network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from tracekit.errors import Unreadable, WrongUse

GB = 10**9
GBIT = 10**9 / 8
LINK_SHARE = 0.8
"""Bus bandwidth by the link's own: nccl-tests' all-reduce reaches about 235 of 300 GB/s on eight A100, 360 of 450 on
eight H100 (without NVLink SHARP)."""
EFFICIENCY = 0.7
"""Share of the peak that matrix products reach, if nothing else is said. Fitted to one digit on one published run, the
145.6-billion row of Narayanan et al. 2021, table 1; `python -m benchmarks.published` holds it to the others."""
NVLINK_S, PCIE_S, NETWORK_S = 1.9e-6, 2.5e-6, 4.0e-6


@dataclass(frozen=True)
class Link:
    """What a rank can send: `bandwidth` in bytes per second, `latency` in seconds per message.

    WrongUse unless bandwidth is above 0 and latency at least 0.
    """

    bandwidth: float
    latency: float

    def __post_init__(self) -> None:
        if not self.bandwidth > 0:
            raise WrongUse(f"a link's bandwidth must be above 0 bytes per second, not {self.bandwidth}")
        if not self.latency >= 0:
            raise WrongUse(f"a link's latency cannot be negative: {self.latency} seconds")


@dataclass(frozen=True)
class Cluster:
    """GPUs in nodes.

    `flops` is a GPU's peak per second, `efficiency` the share of it that matrix products reach, `memory_bytes` one
    GPU's memory, `inside` a rank's link within its node, `between` its link to other nodes. WrongUse for numbers that
    cannot be. The last node need not be full. `memory_bandwidth` is a GPU's memory in bytes per second; where it is
    None, pointwise work takes no time of its own, and `efficiency` must stand for all work.
    """

    gpus: int
    gpus_per_node: int
    memory_bytes: float
    flops: float
    efficiency: float
    inside: Link
    between: Link
    memory_bandwidth: float | None = None

    def __post_init__(self) -> None:
        if self.gpus < 1 or self.gpus_per_node < 1:
            raise WrongUse(f"a cluster has GPUs, in nodes: not {self.gpus}, {self.gpus_per_node} in each node")
        if not (self.memory_bytes > 0 and self.flops > 0):
            raise WrongUse(f"memory and FLOP/s must be above 0, not {self.memory_bytes} bytes and {self.flops}")
        if not 0 < self.efficiency <= 1:
            raise WrongUse(f"efficiency is a share of the peak, above 0 and up to 1, not {self.efficiency}")

    def node(self, rank: int) -> int:
        """The node on which a rank runs, when ranks fill node after node."""
        return rank // self.gpus_per_node

    def link(self, ranks: list[int]) -> Link:
        """What a ring of these ranks gives each of them.

        Within a node the inside link. Across nodes every rank has its own adapter, so with r of the group's ranks in
        each node r rings share the work: r times the bandwidth between nodes, at most the bandwidth inside. (NCCL
        makes such rings; each adapter sends the group's bytes by r.)
        """
        nodes = {self.node(rank) for rank in ranks}
        if len(nodes) <= 1:
            return self.inside
        together = max(1, len(ranks) // len(nodes))
        return Link(min(self.inside.bandwidth, together * self.between.bandwidth), self.between.latency)


@dataclass(frozen=True)
class _Node:
    """A maker's figures: GPUs, bytes, dense BF16 FLOP/s and memory bytes per second of each, its links one way."""

    gpus: int
    memory_bytes: float
    flops: float
    memory_bandwidth: float
    inside: float
    between: float
    inside_latency: float = NVLINK_S


NODES: Mapping[str, _Node] = {
    "v100-32gb": _Node(8, 32 * GB, 125e12, 900 * GB, 150 * GB, 50 * GBIT),
    "a100-40gb": _Node(8, 40 * GB, 312e12, 1555 * GB, 300 * GB, 200 * GBIT),
    "a100-80gb": _Node(8, 80 * GB, 312e12, 2039 * GB, 300 * GB, 200 * GBIT),
    "h100-80gb": _Node(8, 80 * GB, 989e12, 3350 * GB, 450 * GB, 400 * GBIT),
    "h200-141gb": _Node(8, 141 * GB, 989e12, 4800 * GB, 450 * GB, 400 * GBIT),
    "b200-180gb": _Node(8, 180 * GB, 2250e12, 8000 * GB, 900 * GB, 400 * GBIT),
    "mi300x-192gb": _Node(8, 192 * GB, 1307e12, 5300 * GB, 448 * GB, 400 * GBIT),
    "rtx4090-24gb": _Node(8, 24 * GB, 165e12, 1008 * GB, 32 * GB, 25 * GBIT, PCIE_S),
}
"""Nodes by name. V100 computes in FP16. A 4090 has PCIe 4.0 x16 and no NVLink; eight share one 200 Gb/s adapter."""


def preset(name: str, gpus: int, *, efficiency: float = EFFICIENCY) -> Cluster:
    """A cluster of so many GPUs, in nodes of the named kind; WrongUse where there is none of that name."""
    if name not in NODES:
        raise WrongUse(f"no cluster is named {name!r}; there are {', '.join(NODES)}")
    node = NODES[name]
    return Cluster(
        gpus,
        node.gpus,
        node.memory_bytes,
        node.flops,
        efficiency,
        Link(LINK_SHARE * node.inside, node.inside_latency),
        Link(LINK_SHARE * node.between, NETWORK_S),
        node.memory_bandwidth,
    )


def links_of_sweep(path: str | Path) -> dict[str, Link]:
    """Each operation's link, by name, from a file `collectives.json` that `python -m workloads collectives` wrote.

    Bandwidth is the fit's bus bandwidth, so that it holds for any number of ranks; latency is the fit's, of a whole
    call, by the steps that a ring of that many ranks takes. Operations without a fit, or whose time did not grow with
    size, are left out. Unreadable where the file is not such a sweep.
    """
    sweep = _sweep(path)
    try:
        ranks = int(sweep["ranks"])
        fits = {name: told["fit"] for name, told in sweep["operations"].items()}
        return {
            name: Link(fit["busbw_gbs"] * GB, fit["latency_ns"] / 1e9 / _steps(name, ranks))
            for name, fit in fits.items()
            if fit and fit.get("busbw_gbs")
        }
    except (KeyError, TypeError, AttributeError, ValueError) as why:
        raise Unreadable(f"{path} is not a sweep of collectives: {why!r} is missing or wrong") from why


def link_of_sweep(path: str | Path) -> Link:
    """The link that the sweep's all-reduce saw, else that of the first operation with a fit; Unreadable without any."""
    links = links_of_sweep(path)
    if not links:
        raise Unreadable(f"{path} has no fit of latency and bandwidth: sweep more than one size")
    return links.get("all_reduce") or next(iter(links.values()))


def with_sweep(cluster: Cluster, path: str | Path) -> Cluster:
    """The cluster with the sweep's link: inside, or, where the sweep ran over several hosts, between nodes."""
    sweep, link = _sweep(path), link_of_sweep(path)
    across = sweep["ranks"] > sweep.get("ranks_per_host", sweep["ranks"])
    return replace(cluster, between=link) if across else replace(cluster, inside=link)


def _sweep(path: str | Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=dict[str, Any])
    except OSError as why:
        raise Unreadable(f"{path}: {why.strerror}") from why
    except msgspec.MsgspecError as why:
        raise Unreadable(f"{path} is not a sweep of collectives: {why}") from why


def _steps(op: str, ranks: int) -> int:
    """Messages one after the other in a ring of `ranks`."""
    from tracekit.plan.collectives import steps

    return max(1, steps(op, ranks))
