"""One clock for all ranks: how far each file's clock is ahead of the lowest rank's, with an error.

Members of a synchronising collective end together when the call is short; long ones end apart for real. So two ranks'
clocks differ by the median difference of ends over the shortest quarter of the calls that they share, and the error of
that is the differences' median absolute deviation (over ten calls at least: the ends of five often lie to one side by
chance, as gloo's, where now one member ends first and now the other). Ranks that share no call are tied through
others, and parts of the job that share no collective at all by sends and receives, which bound the difference: no
receive ends before its send began, and no send before its receive began.

A clock drifts where the differences of ends grow far beyond their scatter; of sends and receives, whose ends may lie
apart for other reasons, only where besides no one difference satisfies all bounds.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

SYNCHRONIZING = frozenset({"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"})
SHORTEST_FRAC, MIN_CALLS = 0.25, 5
"""The offset is made of this share of the shared calls, the shortest, and of so many at least (or all there are)."""
MIN_CALLS_FOR_ERROR = 10
MIN_CALLS_FOR_DRIFT = 20
"""Fewer do not tell of a drift: it takes as many in the shortest quarter, or the shortest half."""
DRIFT_SURE = 5
"""A drift is told only if between the run's halves it amounts to so many times the scatter around it."""
SAME_HOST_NS = 1_000_000
"""Processes of one host read one clock; on a CPU trace only a larger difference than this is a file's clock."""

Times = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Clock:
    """How far a rank's clock is ahead of the lowest rank's. `error_ns` is None where nothing tells."""

    offset_ns: int
    error_ns: int | None
    drift_ppb: int | None = None


@dataclass(frozen=True)
class Tie:
    """What the calls that two ranks share say: the second's clock is ahead of the first's by this much.

    `drift_ppb` is 0 where it does not drift as far as they tell, None where nothing tells.
    """

    offset_ns: int
    error_ns: int
    calls: int
    drift_ppb: int | None = None


@dataclass(frozen=True)
class Bounds:
    """Between which values a receiver's clock is ahead of its sender's; how fast that grows, by the ends of both."""

    least_ns: int
    most_ns: int
    drift_ppb: int | None = None

    def back(self) -> Bounds:
        """The same of the sender's clock against the receiver's."""
        return Bounds(-self.most_ns, -self.least_ns, _opposite(self.drift_ppb))

    def both(self, other: Bounds) -> Bounds:
        """What satisfies these and others of the same two clocks."""
        drift_ppb = self.drift_ppb or other.drift_ppb
        return Bounds(max(self.least_ns, other.least_ns), min(self.most_ns, other.most_ns), drift_ppb)


def _opposite(drift_ppb: int | None) -> int | None:
    return None if drift_ppb is None else -drift_ppb


def ties(calls: pd.DataFrame) -> dict[tuple[int, int], Tie]:
    """The ties between ranks: of each matched synchronising call's lowest member with each other member."""
    shared = calls[calls["op"].isin(SYNCHRONIZING) & calls["match"].notna()]
    shared = shared.sort_values(["match", "rank"])
    first = shared.groupby("match")[["rank", "start_ns", "end_ns"]].transform("first")
    pairs = pd.DataFrame(
        {
            "lowest": first["rank"],
            "rank": shared["rank"],
            "apart_ns": shared["end_ns"] - first["end_ns"],
            "length_ns": np.minimum(shared["end_ns"] - shared["start_ns"], first["end_ns"] - first["start_ns"]),
            "end_ns": first["end_ns"],
        }
    )
    pairs = pairs[pairs["rank"] != pairs["lowest"]]
    return {
        pair: tie(one["apart_ns"].to_numpy(), one["length_ns"].to_numpy(), one["end_ns"].to_numpy())
        for pair, one in _by_pair(pairs, "lowest", "rank")
    }


def _by_pair(rows: pd.DataFrame, one: str, other: str) -> Iterator[tuple[tuple[int, int], pd.DataFrame]]:
    for _, part in rows.groupby([one, other]):
        yield (int(part[one].iloc[0]), int(part[other].iloc[0])), part


def tie(apart_ns: Times, lengths_ns: Times, times_ns: Times) -> Tie:
    """The tie that differences of ends make, of calls of these lengths at these times."""
    count = max(MIN_CALLS, int(np.ceil(SHORTEST_FRAC * len(apart_ns))))
    by_length = np.argsort(lengths_ns, kind="stable")
    shortest, more = by_length[:count], by_length[: max(count, MIN_CALLS_FOR_ERROR)]
    most = by_length[: max(count, min(len(apart_ns) // 2, MIN_CALLS_FOR_DRIFT))]
    told = apart_ns[shortest]
    offset_ns = round(float(np.median(told)))
    error_ns = round(float(np.median(np.abs(apart_ns[more] - offset_ns))))
    return Tie(offset_ns, error_ns, len(told), _drift_ppb(apart_ns[most], times_ns[most]))


def _drift_ppb(apart_ns: Times, times_ns: Times) -> int | None:
    """How fast the difference grows: the median slope between the early and the late half; None of too few calls.

    It grows, and is not 0, where it does so by far more than the differences scatter around the line that it makes.
    """
    if len(apart_ns) < MIN_CALLS_FOR_DRIFT:
        return None
    order = np.argsort(times_ns, kind="stable")
    half = len(order) // 2
    early, late = order[:half], order[-half:]
    passed_ns = float(np.median(times_ns[late] - times_ns[early]))
    grown_ns = float(np.median(apart_ns[late] - apart_ns[early]))
    if passed_ns <= 0:
        return None
    rest_ns = apart_ns - grown_ns / passed_ns * (times_ns - times_ns[0])
    scatter_ns = float(np.median(np.abs(rest_ns - np.median(rest_ns))))
    if abs(grown_ns) <= DRIFT_SURE * max(scatter_ns, 1):
        return 0
    return round(grown_ns / passed_ns * 1e9)


def bounds(calls: pd.DataFrame) -> dict[tuple[int, int], Bounds]:
    """For each pair of sender and receiver: what bounds by how much the receiver's clock is ahead of the sender's."""
    matched = calls[calls["match"].notna()]
    sends = matched[matched["op"] == "send"].set_index("match")[["rank", "start_ns", "end_ns"]]
    recvs = matched[matched["op"] == "recv"].set_index("match")[["rank", "start_ns", "end_ns"]]
    both = sends.add_suffix("_send").join(recvs.add_suffix("_recv"), how="inner")
    return {pair: _bounds_of(one) for pair, one in _by_pair(both, "rank_send", "rank_recv")}


def _bounds_of(transfers: pd.DataFrame) -> Bounds:
    send, sent, recv, received = (
        transfers[name].to_numpy() for name in ("start_ns_send", "end_ns_send", "start_ns_recv", "end_ns_recv")
    )
    return Bounds(int((recv - sent).max()), int((received - send).min()), _drift_ppb(received - sent, sent))


def solve(
    ranks: Sequence[int],
    tied: dict[tuple[int, int], Tie],
    bounded: dict[tuple[int, int], Bounds],
    hosts: dict[int, str | None],
    on_cpu: frozenset[int],
) -> tuple[dict[int, Clock], list[list[int]]]:
    """Each rank's clock against the lowest rank's, by the path of least error; and the parts that nothing ties.

    An offset within its error is 0. Ranks of one host that were traced without a device share its clock.
    """
    edges: dict[int, list[tuple[int, Tie]]] = defaultdict(list)
    by_bounds = _by_bounds(bounded)
    for (one, other), told in {**by_bounds, **_drifting_as(by_bounds, tied)}.items():
        known = _same_clock(told) if _one_host(one, other, hosts, on_cpu) else told
        edges[one].append((other, known))
        edges[other].append((one, Tie(-known.offset_ns, known.error_ns, known.calls, _opposite(known.drift_ppb))))
    clocks: dict[int, Clock] = {}
    parts = []
    for rank in sorted(ranks):
        if rank not in clocks:
            part = _spread(rank, edges, known=bool(edges.get(rank)) or len(ranks) == 1)
            clocks.update(part)
            parts.append(sorted(part))
    return clocks, parts


def _spread(start: int, edges: dict[int, list[tuple[int, Tie]]], *, known: bool) -> dict[int, Clock]:
    """Clocks of all ranks that can be reached from one, whose own is taken as right."""
    queue, drifts = [(0, 0, start, 0)], _drifts(start, edges)
    found: dict[int, Clock] = {}
    while queue:
        error_ns, steps, rank, offset_ns = heapq.heappop(queue)
        if rank in found:
            continue
        settled = offset_ns if abs(offset_ns) > error_ns else 0
        found[rank] = Clock(settled, error_ns if known else None, drifts.get(rank))
        for other, told in edges.get(rank, []):
            if other not in found:
                heapq.heappush(queue, (error_ns + told.error_ns, steps + 1, other, offset_ns + told.offset_ns))
    return found


def _drifts(start: int, edges: dict[int, list[tuple[int, Tie]]]) -> dict[int, int]:
    """Drifts of ranks against `start`, by the fewest ties that tell of drifts, if just one of these drifts.

    Of two nothing is sure: behind a clock that drifts they cancel out but for their errors.
    """
    seen: dict[int, tuple[int, ...]] = {start: ()}
    queue = deque([start])
    while queue:
        rank = queue.popleft()
        for other, told in edges.get(rank, []):
            if told.drift_ppb is not None and other not in seen:
                seen[other] = (*seen[rank], told.drift_ppb) if told.drift_ppb else seen[rank]
                queue.append(other)
    return {rank: path[0] for rank, path in seen.items() if len(path) == 1}


def _drifting_as(by_bounds: dict[tuple[int, int], Tie], tied: dict[tuple[int, int], Tie]) -> dict[tuple[int, int], Tie]:
    """Ties by collectives that are too few to tell of a drift, with what sends and receives tell of it."""
    return {
        pair: replace(told, drift_ppb=by_bounds[pair].drift_ppb)
        if told.drift_ppb is None and pair in by_bounds else told
        for pair, told in tied.items()
    }  # fmt: skip


def _by_bounds(bounded: dict[tuple[int, int], Bounds]) -> dict[tuple[int, int], Tie]:
    """Ties that bounds make: no difference where they allow none, else the middle; the error is half their distance."""
    told: dict[tuple[int, int], Tie] = {}
    for send, recv in sorted(bounded):
        if recv < send and (recv, send) in bounded:
            continue
        mine = bounded[send, recv]
        if (recv, send) in bounded:
            mine = mine.both(bounded[recv, send].back())
        least_ns, most_ns = mine.least_ns, mine.most_ns
        error_ns = max(abs(most_ns - least_ns) // 2, 1)
        offset_ns = 0 if least_ns <= 0 <= most_ns else (least_ns + most_ns) // 2
        told[send, recv] = Tie(offset_ns, error_ns, 0, 0 if least_ns <= most_ns else mine.drift_ppb)
    return told


def _one_host(one: int, other: int, hosts: dict[int, str | None], on_cpu: frozenset[int]) -> bool:
    return one in on_cpu and other in on_cpu and hosts.get(one) is not None and hosts.get(one) == hosts.get(other)


def _same_clock(told: Tie) -> Tie:
    """No difference, unless it is so large and sure that the file's times were shifted."""
    shifted = abs(told.offset_ns) > max(SAME_HOST_NS, 10 * told.error_ns)
    return told if shifted else Tie(0, 0, told.calls)
