"""The whole job's graph: the ranks' parts joined where calls meet, in levels, and its replay.

A node is a moment of a rank, of a call (when its last member has arrived), or of the job (a step's end). It comes at
the latest of its edges: a node before, and so many nanoseconds. A replay goes through the levels of the graph, for many
scenarios at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.replay.rank import Stretches
from tracekit.replay.segments import DONE, MEETING, READY, SOURCE, STEP_END, STOP, UNSEEN

HELD_BYTES = 128 * 2**20
"""So much the moments of the scenarios that are replayed at once may take."""

Codes = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Weights = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Scenario:
    """How long everything takes: of each rank the variant of its durations; of each rank and kind of transfer, how much
    of the measured and of the median length it takes. `free`: collectives do not even wait for their members; what is
    sent still has to come before it is received.
    """

    variant: Codes
    measured: Weights
    median: Weights
    free: bool = False


@dataclass(frozen=True)
class Graph:
    """Edges in the order of the nodes that they go to, and nodes in the order of their levels; node 0 is the source."""

    src: Codes
    dst: Codes
    weights: Weights
    """A row for each edge that the ranks told, a column for each variant;"""
    weighted: Codes
    """and each edge's row in it."""
    rank: Codes
    own_ns: Weights
    median_ns: Weights
    transfer: Codes
    meets: Flags
    levels: Codes
    rows: pd.DataFrame
    nodes: int
    steps: Codes
    step_nodes: Codes
    step_stretch: Codes
    measured_ns: Weights
    broken: int

    def replayed(self, scenarios: Sequence[Scenario]) -> Weights:
        """The step times of each scenario: a row a scenario, a column a step."""
        at_once = max(1, HELD_BYTES // (8 * self.nodes))
        parts = [scenarios[nth : nth + at_once] for nth in range(0, len(scenarios), at_once)]
        ends = [self.moments(part)[self.step_nodes].T for part in parts]
        return self._lengths(np.concatenate(ends))

    def _lengths(self, ends: Weights) -> Weights:
        """From the end of the steps before, or the stretch's begin, to each step's end.

        Where ranks hold different steps, one may end before those that come before it: it takes no time.
        """
        ends = pd.DataFrame(ends.T).groupby(self.step_stretch).cummax().to_numpy().T
        first = np.diff(self.step_stretch, prepend=-1) != 0
        before = np.concatenate((np.zeros((len(ends), 1)), ends[:, :-1]), axis=1)
        return np.asarray(ends - np.where(first, 0, before))

    @property
    def measured_step_ns(self) -> Weights:
        """The measured length of each step, counted like the replayed ones."""
        return np.asarray(self._lengths(self.measured_ns[None])[0])

    def moments(self, scenarios: Sequence[Scenario]) -> Weights:
        """When each node comes, after its stretch's begin: a row a node, a column a scenario."""
        variant = np.stack([one.variant for one in scenarios], axis=1)
        measured = np.stack([one.measured for one in scenarios], axis=2)
        median = np.stack([one.median for one in scenarios], axis=2)
        free = np.array([one.free for one in scenarios])
        at = np.zeros((self.nodes, len(scenarios)))
        flat, base = self.weights.ravel(), self.weighted * self.weights.shape[1]
        starts = np.flatnonzero(np.diff(self.dst, prepend=-1))
        bounds = np.searchsorted(starts, self.levels)
        for low, high, first, last in zip(self.levels[:-1], self.levels[1:], bounds[:-1], bounds[1:], strict=True):
            edges = slice(low, high)
            length = flat.take(base[edges, None] + variant[self.rank[edges]])
            moved = np.flatnonzero(self.transfer[edges] >= 0) + low
            if len(moved):
                by = self.rank[moved], self.transfer[moved]
                length[moved - low] = measured[by] * self.own_ns[moved, None] + median[by] * self.median_ns[moved, None]
                if free.any():
                    length[np.ix_(moved[self.meets[moved]] - low, np.flatnonzero(free))] = -np.inf
            come = at[self.src[edges]] + length
            nodes = self.dst[starts[first:last]]
            at[nodes] = np.maximum.reduceat(come, starts[first:last] - low, axis=0)
        return at

    def slack(self, scenario: Scenario) -> Weights:
        """How much longer each edge could be without any step's end coming later."""
        at = self.moments([scenario])[:, 0]
        length = self._base(scenario)
        latest = np.full(self.nodes, np.inf)
        latest[self.step_nodes] = at[self.step_nodes]
        for low, high in zip(self.levels[-2::-1], self.levels[:0:-1], strict=True):
            edges = slice(low, high)
            np.minimum.at(latest, self.src[edges], latest[self.dst[edges]] - length[edges])
        return np.asarray(latest[self.dst] - at[self.src] - length)

    @property
    def kinds(self) -> int:
        """How many kinds of transfers there are, at least one."""
        return max(int(self.transfer.max(initial=-1)) + 1, 1)

    def path(self, scenario: Scenario) -> Iterator[tuple[int, float, float]]:
        """Backwards from each stretch's end, the edges on which it depends: edge, and when its two ends come."""
        at = self.moments([scenario])[:, 0]
        come = at[self.src] + self._base(scenario)
        starts = np.searchsorted(self.dst, np.arange(self.nodes + 1))
        lasts = np.flatnonzero(np.diff(self.step_stretch, append=-1))
        for node in self.step_nodes[lasts].tolist():
            while node:
                low, high = starts[node], starts[node + 1]
                edge = low + int(np.argmax(come[low:high]))
                before = int(self.src[edge])
                yield edge, float(at[before]), float(at[node])
                node = before

    def _base(self, scenario: Scenario) -> Weights:
        """The length of every edge in one scenario."""
        length = self.weights[self.weighted, scenario.variant[self.rank]]
        moved = np.flatnonzero(self.transfer >= 0)
        by = self.rank[moved], self.transfer[moved]
        length[moved] = scenario.measured[by] * self.own_ns[moved] + scenario.median[by] * self.median_ns[moved]
        if scenario.free:
            length[self.meets] = -np.inf
        return length


def graph_of(rows: pd.DataFrame, calls: pd.DataFrame, stretches: Stretches) -> Graph:
    """The graph of all ranks' edges. `rows` have `nth_rank`; `calls` are those of the run, by their `row`, with
    `meeting`, `batch`, `own_transfer_ns`, `median_transfer_ns` and `transfer` (the number of its kind).
    """
    names = [name for name in rows.columns if name.startswith("w") and name[1:].isdecimal()]
    weights = np.ascontiguousarray(rows[names], np.float64)
    rows = _all_edges(rows.drop(columns=names), calls, stretches)
    return _in_levels(rows, weights, calls, stretches)


def _all_edges(rows: pd.DataFrame, calls: pd.DataFrame, stretches: Stretches) -> pd.DataFrame:
    """The ranks' edges and those of their calls; `weighted` is the row in which an edge's weights stand."""
    met = calls[["meeting", "batch", "pair"]]
    told = rows.assign(weighted=np.arange(len(rows))).merge(met, left_on="call", right_index=True, how="left")
    told["stretch"] = stretches.of(told["step"].where(told["step"] >= 0, min(stretches.of_step)).to_numpy())
    is_over = (told["kind"] == DONE) & (told["src_kind"] == READY)
    meets = is_over & (told["meeting"] >= 0)
    arrivals, transfers = _arrivals(told[meets]), _transfers(told[meets])
    parts = [told.assign(moves=is_over & ~meets, waits=False), arrivals, transfers]
    return pd.concat([part[[*rows, "weighted", "moves", "waits"]] for part in parts], ignore_index=True)


def _arrivals(over: pd.DataFrame) -> pd.DataFrame:
    """From each member's readiness to the moment at which all have arrived."""
    return over.assign(
        kind=MEETING, place=_meeting(over), at_ns=over["from_ns"], what=-1, moves=False, waits=False, device_ns=0.0,
    )  # fmt: skip


def _transfers(over: pd.DataFrame) -> pd.DataFrame:
    """From the arrivals of a call, and of those in its batch, to its end on each member."""
    batch = over[["nth_rank", "batch"]].assign(met=_meeting(over)).drop_duplicates()
    rows = over.merge(batch, on=["nth_rank", "batch"])
    told = rows.assign(src_kind=MEETING, src_place=rows["met"], moves=True, waits=~rows["pair"].astype(bool))
    return told.drop(columns="met")


def _meeting(over: pd.DataFrame) -> pd.Series:
    return over["meeting"].astype("int64") * (int(over["stretch"].max() if len(over) else 0) + 1) + over["stretch"]


def _in_levels(rows: pd.DataFrame, weights: Weights, calls: pd.DataFrame, stretches: Stretches) -> Graph:
    keys, ends = _numbered(rows)
    src, dst = ends
    count = len(keys)
    defined = np.zeros(count, bool)
    defined[dst] = True
    defined[0] = True
    time = np.full(count, np.inf)
    np.minimum.at(time, dst, rows["from_ns"].to_numpy(np.float64))
    kept = defined[src]
    level = _levels(src[kept], dst[kept], count, time)
    kept &= level[src] < level[dst]
    orphans = np.setdiff1d(np.flatnonzero(defined)[1:], dst[kept])
    broken = int((~kept).sum())
    if broken:
        rows, src, dst = rows[kept].reset_index(drop=True), src[kept], dst[kept]
    if len(orphans):  # a node that lost all its edges comes when it was measured
        begin = float(stretches.begin_ns[0] - stretches.base_ns)
        spare = _fixed(keys[orphans], time[orphans]).assign(weighted=len(weights) + np.arange(len(orphans)))
        rows = pd.concat([rows, spare], ignore_index=True)
        weights = np.concatenate([weights, np.repeat(time[orphans, None] - begin, weights.shape[1], axis=1)])
        src, dst = np.append(src, np.zeros(len(orphans), np.int64)), np.append(dst, orphans)
    return _sorted(rows, weights, calls, src, dst, level, keys, broken, stretches)


def _fixed(keys: Codes, time: Weights) -> pd.DataFrame:
    """An edge from the source to each of some nodes."""
    return pd.DataFrame({
        "kind": keys >> 40 & 7, "place": keys & (2**40 - 1), "src_kind": SOURCE, "src_place": SOURCE, "nth_rank": 0,
        "moves": False, "waits": False, "device_ns": 0.0, "from_ns": time, "at_ns": time, "step": -1, "call": -1,
        "lane": "host", "what": -1, "name": "",
    })  # fmt: skip


def _numbered(rows: pd.DataFrame) -> tuple[Codes, tuple[Codes, Codes]]:
    """The key of each node (0 for the source), and the numbers of the nodes at each row's ends."""
    src = _keys(rows["src_kind"], rows["src_place"], rows["nth_rank"])
    dst = _keys(rows["kind"], rows["place"], rows["nth_rank"])
    keys, numbers = np.unique(np.concatenate((np.zeros(1, np.int64), src, dst)), return_inverse=True)
    return keys, (numbers[1 : len(src) + 1], numbers[len(src) + 1 :])


def _keys(kind: pd.Series, place: pd.Series, rank: pd.Series) -> Codes:
    """One number for each node; meetings and steps' ends belong to no rank."""
    of_job = kind.isin([MEETING, STEP_END, UNSEEN])
    keys = (rank.where(~of_job, 0).to_numpy(np.int64) + 1) * 2**43 + kind.to_numpy(np.int64) * 2**40
    return np.where(kind == SOURCE, 0, keys + place.to_numpy(np.int64))


def _levels(src: Codes, dst: Codes, count: int, time: Weights) -> Codes:
    """The longest way from the source to each node, in edges. Where nodes wait for each other in a circle, which clocks
    that are off make, the one that was measured first goes first.
    """
    order = np.argsort(src, kind="stable")
    heads = np.searchsorted(src[order], np.arange(count + 1))
    targets = dst[order]
    waits_for = np.bincount(dst, minlength=count)
    level = np.full(count, -1)
    left = np.flatnonzero(waits_for)
    left = left[np.argsort(time[left], kind="stable")]
    front, nth, passed = np.flatnonzero(waits_for == 0), 0, 0
    while len(front):
        level[front] = nth
        nth += 1
        sizes = heads[front + 1] - heads[front]
        places = np.repeat(heads[front] - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        reached, times = np.unique(targets[places], return_counts=True)
        waits_for[reached] -= times
        front = reached[(waits_for[reached] == 0) & (level[reached] < 0)]
        if not len(front):
            while passed < len(left) and level[left[passed]] >= 0:
                passed += 1
            front = left[passed : passed + 1]
    return level


def _sorted(
    rows: pd.DataFrame,
    weights: Weights,
    calls: pd.DataFrame,
    src: Codes,
    dst: Codes,
    level: Codes,
    keys: Codes,
    broken: int,
    stretches: Stretches,
) -> Graph:
    by_level = np.argsort(level, kind="stable")
    number = np.empty(len(keys), np.int64)
    number[by_level] = np.arange(len(keys))
    source = number[0]
    if source:  # the source is the first of its level
        other = by_level[0]
        number[0], number[other] = 0, source
    src, dst = number[src], number[dst]
    order = np.lexsort((np.arange(len(dst)), dst))
    rows, src, dst = rows.iloc[order].reset_index(drop=True), src[order], dst[order]
    of_edge = np.sort(level)[dst]
    kind = keys >> 40 & 7
    is_end = np.flatnonzero((kind == STEP_END) & (keys > 0))
    steps = keys[is_end] & (2**40 - 1)
    moves = rows["moves"].to_numpy(bool)
    about = calls[["own_transfer_ns", "median_transfer_ns", "transfer"]].reindex(rows["call"].to_numpy())
    transfer = about["transfer"].fillna(-1).to_numpy(np.int64)
    told = rows.drop(columns=["weighted", "moves", "waits"]).assign(transfer=transfer)
    return Graph(
        src=src, dst=dst, weights=weights, weighted=rows["weighted"].to_numpy(np.int64),
        rank=rows["nth_rank"].to_numpy(np.int64),
        own_ns=about["own_transfer_ns"].fillna(0).to_numpy(np.float64),
        median_ns=about["median_transfer_ns"].fillna(0).to_numpy(np.float64),
        transfer=np.where(moves, transfer, -1),
        meets=rows["waits"].to_numpy(bool),
        levels=np.append(np.flatnonzero(np.diff(of_edge, prepend=-1)), len(of_edge)), rows=told, nodes=len(keys),
        steps=steps, step_nodes=number[is_end], step_stretch=stretches.of(steps),
        measured_ns=_measured(rows, steps, stretches), broken=broken,
    )  # fmt: skip


def _measured(rows: pd.DataFrame, steps: Codes, stretches: Stretches) -> Weights:
    """When each step was over as measured, after its stretch's begin."""
    ends = rows[rows["kind"] == STEP_END]
    host = ends[ends["src_kind"] == STOP].groupby("place")["at_ns"].max()
    over = rows[rows["kind"].isin([DONE, 0])].groupby("step")["at_ns"].max()
    latest = pd.concat([host, over], axis=1).max(axis=1).reindex(steps).to_numpy(np.float64)
    return np.asarray(latest - (stretches.begin_ns - stretches.base_ns)[stretches.of(steps)])
