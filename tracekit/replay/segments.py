"""One rank's part of the job's graph: segments of work between the points where ranks, lanes and the host meet.

Work on one lane with nothing between that waits or is waited for is one segment: it ends at the later of (its lane is
free + its length) and (the host's last stop + the time from there to a launch + the length from that launch on), over
all its launches. That is exact, so a segment stands for thousands of kernels. A node is a moment: the end of a segment,
a call that is ready, a call's end, the host after it waited. Each edge says how long after one node another comes at
the earliest, for each variant of the rank's durations (`pace`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.model import RankTables
from tracekit.replay.pace import Pace
from tracekit.replay.rank import Rank, Stretches, look_at
from tracekit.replay.unseen import NOBODY
from tracekit.replay.work import CLASSES, HOST, UNRECORDED, Codes, Flags, Times, Work

NEVER = -np.inf
SOURCE, NO_NODE, UNEXPLAINED = -1, -2, -3
SEGMENT, READY, DONE, STOP, STEP_END, MEETING, UNSEEN = range(7)
"""Kinds of nodes: a segment's end, a call ready, a call's end, the host going on; and of the job, a step's end, a
call's last arrival, and that of ranks that met unseen."""
NODE = ["kind", "place"]
ABOUT = ["unseen", "begin_ns", "device_ns", "lane", "what", "from_ns", "at_ns", "step", "call", "name"]

Weights = npt.NDArray[np.float64]


def first_look(one: RankTables, stretches: Stretches) -> pd.DataFrame:
    """The rank's edges as measured, and below them its instances with their lengths and how late work begins for no
    reason that is seen.

    Instances are rows of kind `NO_NODE` with `step`, `what` and `length_ns`; the last row is of kind `UNEXPLAINED`.
    """
    if one.steps.empty:
        return _table([], None, 1).assign(length_ns=0)
    rank = look_at(one, stretches.base_ns)
    kinds = rank.told.instances
    measured = np.ones((rank.told.codes, 1))
    hosts = rank.told.hosts
    lengths = pd.DataFrame({
        "step": np.append(kinds.step, kinds.step[hosts]),
        "what": np.append(kinds.cls, np.full(len(hosts), UNRECORDED)),
        "length_ns": np.append(rank.totals, rank.unseen_ns),
    })  # fmt: skip
    late = pd.DataFrame({"kind": [UNEXPLAINED], "length_ns": [np.maximum(rank.unexplained, 0).sum()]})
    return pd.concat(
        [_Cut(rank, stretches, measured, NOBODY).table(), lengths.assign(kind=NO_NODE), late], ignore_index=True
    )


def edges(one: RankTables, stretches: Stretches, pace: Pace, met: pd.DataFrame) -> pd.DataFrame:
    """The rank's edges, a row each: from `src_kind, src_place` to `kind, place`, with a weight for each variant.

    Of the node that an edge goes to: its `lane`, `what` is done (a place in `CLASSES`, -1 for calls), from when until
    when, its `step`, and its `call`. `met` is who met unseen (see `unseen.met`).
    """
    if one.steps.empty:
        return _table([], None, pace.variants)
    mine = met[met["rank"] == one.rank]
    rank = look_at(one, stretches.base_ns, mine)
    factors = pace.factors(one.rank, rank.told.instances.cls, rank.totals, rank.unseen_ns)
    return _Cut(rank, stretches, factors, mine).table()


Part = dict[str, npt.NDArray[Any]]
"""Rows of edges by column; `weights` has a column a variant, `lane` and `name` are numbers."""


def _table(parts: list[Part], work: Work | None, variants: int) -> pd.DataFrame:
    """The parts below one another."""
    weights = [f"w{nth}" for nth in range(variants)]
    held = [part for part in parts if len(part["place"])]
    if not held or work is None:
        return pd.DataFrame(columns=["src_kind", "src_place", *NODE, *ABOUT, *weights])
    columns = {name: np.concatenate([part[name] for part in held]) for name in held[0]}
    table = pd.DataFrame(columns.pop("weights"), columns=weights)
    lane = pd.Categorical.from_codes(columns.pop("lane"), categories=pd.Index([*work.lanes, HOST], dtype=object))
    name = pd.Categorical.from_codes(columns.pop("name"), categories=pd.Index([*work.names], dtype=object))
    return pd.concat([pd.DataFrame({**columns, "lane": lane, "name": name}), table], axis=1)


def _place_of_max(values: Weights, first: Codes) -> Codes:
    """For each segment the first place with its largest value."""
    largest = np.maximum.reduceat(values, first)
    segment = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(values))))
    places = np.flatnonzero(values == largest[segment])
    return places[np.unique(segment[places], return_index=True)[1]]


@dataclass(frozen=True)
class _Cut:
    """A rank cut into segments, at one pace for each variant."""

    rank: Rank
    stretches: Stretches
    factors: Weights
    met: pd.DataFrame

    def table(self) -> pd.DataFrame:
        parts = [*self._stops(), *self._meetings(), *self._step_ends()]
        if len(self.work):
            parts += [*self._segments(), *self._calls()]
        return _table(parts, self.work, self._variants)

    @property
    def work(self) -> Work:
        return self.rank.work

    # The host's stops

    @cached_property
    def stop_at(self) -> Times:
        """When the host goes on: where stretches begin, and after each block."""
        return self._of_stops(self.rank.steps[0], self.rank.blocks.at)

    @cached_property
    def stop_awaits(self) -> Codes:
        """The work that ended then, -1 for none."""
        return self._of_stops(np.full(len(self.rank.steps[0]), -1), self.rank.blocks.awaited)

    @cached_property
    def stop_unseen(self) -> Codes:
        """Which of the unseen times ends then, -1 for none."""
        unseen = self.rank.blocks.unseen
        return self._of_stops(np.full(len(self.rank.steps[0]), -1), np.where(unseen, np.cumsum(unseen) - 1, -1))

    @cached_property
    def stop_begins(self) -> Flags:
        """Whether a stretch begins then."""
        return self._of_stops(np.full(len(self.rank.steps[0]), 1), np.zeros(len(self.rank.blocks), np.int64)) > 0

    def _issued_at(self, at: Times) -> Codes:
        """The call that was issued at each moment, -1 for none."""
        order = np.argsort(self.work.launch, kind="stable")
        place = np.searchsorted(self.work.launch[order], at)
        found = np.append(order, -1)[np.minimum(place, len(order))]
        same = (found >= 0) & (np.append(self.work.launch, 0)[found] == at)
        return np.where(same, np.append(self.work.call, -1)[found], -1)

    def _of_stops(self, of_steps: Codes, of_blocks: Codes) -> Codes:
        begins = self.rank.steps[0][self._first_steps]
        order = np.lexsort((np.arange(len(begins) + len(of_blocks)), np.concatenate((begins, self.rank.blocks.at))))
        return np.concatenate((of_steps[self._first_steps], of_blocks))[order]

    @cached_property
    def _first_steps(self) -> Codes:
        """The places of the steps with which stretches begin."""
        stretch = self.stretches.of(self.rank.step_numbers)
        return np.flatnonzero(np.diff(stretch, prepend=-1))

    @cached_property
    def stop_stretch(self) -> Codes:
        """The stretch of each stop, -1 before the first."""
        begins = self.rank.steps[0][self._first_steps]
        stretch = self.stretches.of(self.rank.step_numbers)[self._first_steps]
        return np.append(stretch, -1)[np.searchsorted(begins, self.stop_at, side="right") - 1]

    @cached_property
    def stretch(self) -> Codes:
        """The stretch of each piece of work."""
        return self.stretches.of(self.work.step)

    def _begin_of(self, stretch: Codes) -> Times:
        """When each stretch begins, in the rank's own times."""
        return np.asarray((self.stretches.begin_ns - self.stretches.base_ns)[stretch])

    def _passed(self, at: Times) -> Weights:
        return self.rank.timeline.passed(at, self.factors)

    def _since_stop(self, at: Times, stop: Codes) -> Weights:
        return np.asarray(self._passed(at) - self._passed(self.stop_at)[stop])

    def _stop_of(self, at: Times) -> Codes:
        return np.maximum(np.searchsorted(self.stop_at, at, side="right") - 1, 0)

    def _stops(self) -> list[Part]:
        nth = np.arange(len(self.stop_at))
        begins = np.flatnonzero(self.stop_begins)
        from_begin = (
            self.stop_at[begins] - (self.stretches.begin_ns - self.stretches.base_ns)[self.stop_stretch[begins]]
        )
        parts = [self._rows(SOURCE, SOURCE, STOP, begins, np.repeat(from_begin[:, None], self._variants, 1) * 1.0)]
        later = nth[1:][(self.stop_stretch[1:] == self.stop_stretch[:-1]) & (self.stop_stretch[1:] >= 0)]
        going_on = self._rows(STOP, later - 1, STOP, later, self._since_stop(self.stop_at[later], later - 1))
        begun = np.searchsorted(self.rank.steps[0], self.stop_at[later - 1], side="right") - 1
        parts.append({
            **going_on, "unseen": self.stop_unseen[later], "begin_ns": self.stop_at[later - 1],
            "call": self._issued_at(self.stop_at[later]), "step": self.rank.step_numbers[begun],
        })  # fmt: skip
        held = np.flatnonzero(self.stop_awaits >= 0)
        held = held[self.stretch[self.stop_awaits[held]] == self.stop_stretch[held]]
        awaited = self.stop_awaits[held]
        at, over = self.stop_at[held], self.work.end[awaited]
        rest = np.where((at >= over)[:, None], self._passed(at) - self._passed(over), (at - over)[:, None])
        parts.append(self._rows(*self._node(awaited), STOP, held, rest))
        return parts

    def _meetings(self) -> list[Part]:
        """The host comes to the ranks that it meets unseen, and goes on after the last of them has come."""
        own, others = self.met[self.met["unseen"] >= 0], self.met[self.met["unseen"] < 0]
        goes_on = np.flatnonzero(self.stop_unseen >= 0)[own["unseen"].to_numpy(np.int64)]
        latest, at = own["latest_ns"].to_numpy(np.int64), self.stop_at[goes_on]
        rest = np.where((at >= latest)[:, None], self._passed(at) - self._passed(latest), (at - latest)[:, None])
        issued = pd.Series(self.work.launch, index=self.work.call)[others["call"]].to_numpy(np.int64)
        comes = np.concatenate((goes_on - 1, self._stop_of(issued)))
        meeting = np.concatenate((own["meeting"], others["meeting"])).astype(np.int64)
        meeting = meeting * len(self.stretches.begin_ns) + self.stop_stretch[comes]
        held = (own["waited_ns"] > 0).to_numpy()
        return [
            self._rows(STOP, comes, UNSEEN, meeting, np.zeros((len(comes), self._variants))),
            self._rows(UNSEEN, meeting[: len(own)][held], STOP, goes_on[held], rest[held]),
        ]

    @property
    def _variants(self) -> int:
        return int(self.factors.shape[1])

    # Segments

    @cached_property
    def order(self) -> Codes:
        """Places of the work, lane by lane."""
        return np.lexsort((np.arange(len(self.work)), self.work.lane))

    @cached_property
    def before(self) -> Codes:
        """What ran before on the lane, in the same stretch."""
        before = self.rank.before
        same = (before >= 0) & (self.stretch[before] == self.stretch)
        return np.where(same, before, -1)

    @cached_property
    def pairs(self) -> tuple[Codes, Codes]:
        waiting, awaited = self.rank.pairs
        same = self.stretch[waiting] == self.stretch[awaited]
        return waiting[same], awaited[same]

    @cached_property
    def stop(self) -> Codes:
        """The last stop before each piece's launch; -1 where there was none."""
        stop = self._stop_of(self.work.launch)
        return np.where(self.work.launched & (self.stop_stretch[stop] == self.stretch), stop, -1)

    @cached_property
    def opens(self) -> Flags:
        """By place in `order`: whether a segment begins there."""
        work, order = self.work, self.order
        waits_itself, is_awaited = np.zeros(len(work), bool), np.zeros(len(work), bool)
        waits_itself[self.pairs[0]] = True
        is_awaited[self.pairs[1]] = True
        is_awaited[self.stop_awaits[self.stop_awaits >= 0]] = True
        one, other = order[:-1], order[1:]
        joined = (self.before[other] == one) & ~waits_itself[other] & ~is_awaited[one]
        joined &= ~work.is_comm[one] & ~work.is_comm[other]
        joined &= (self.stop[one] == self.stop[other]) & (work.step[one] == work.step[other])
        return np.append(True, ~joined) if len(order) else np.empty(0, bool)

    @cached_property
    def segment(self) -> Codes:
        """The segment of each piece of work."""
        segment = np.empty(len(self.work), np.int64)
        segment[self.order] = np.cumsum(self.opens) - 1
        return segment

    def _node(self, place: Codes) -> tuple[Codes, Codes]:
        """The node at which each piece of work is over."""
        return np.where(self.work.is_comm[place], DONE, SEGMENT), self.segment[place]

    @cached_property
    def length(self) -> Weights:
        """Of each piece, its delay and its own length; of calls only the delay."""
        own = (self.work.end - self.work.start) * ~self.work.is_comm
        return np.asarray(self.rank.delay[:, None] + own[:, None] * self.factors[self.work.instance])

    @cached_property
    def from_stop(self) -> Weights:
        """From the stop before each piece's launch to the earliest begin that the launch allows."""
        since = self._since_stop(self.work.launch, np.maximum(self.stop, 0)) + self.rank.latency[:, None]
        since[self.stop < 0] = NEVER
        return since

    def _segments(self) -> list[Part]:
        order, first = self.order, np.flatnonzero(self.opens)
        sums = np.cumsum(self.length[order], axis=0)
        up_to = sums - self.length[order]
        last = np.append(first[1:], len(order)) - 1
        whole = sums[last] - up_to[first]
        by_launch = self.from_stop[order] - up_to
        launched = sums[last] + np.maximum.reduceat(by_launch, first, axis=0)
        tail = sums[last, 0] - up_to[_place_of_max(by_launch[:, 0], first), 0]
        is_call = self.work.is_comm[order[first]]
        kinds, segments = np.where(is_call, READY, SEGMENT), np.arange(len(first))
        begin = order[first]
        parts = []
        held = self.before[begin] >= 0
        ran = self._node(self.before[begin[held]])
        parts.append(self._rows(*ran, kinds[held], segments[held], whole[held], whole[held, 0]))
        held = self.stop[begin] >= 0
        parts.append(self._rows(STOP, self.stop[begin[held]], kinds[held], segments[held], launched[held], tail[held]))
        into = self.segment[self.pairs[0]]
        parts.append(self._rows(*self._node(self.pairs[1]), kinds[into], into, whole[into], whole[into, 0]))
        waits_for_none = np.ones(len(begin), bool)
        waits_for_none[into] = False
        alone = (self.before[begin] < 0) & (self.stop[begin] < 0) & waits_for_none
        begin_ns = self._begin_of(self.stretch[begin[alone]])
        at = (self.work.start[begin[alone]] - begin_ns)[:, None] - self.rank.delay[begin[alone]][:, None]
        parts.append(self._rows(SOURCE, SOURCE, kinds[alone], segments[alone], whole[alone] + at, whole[alone, 0]))
        return parts

    def _calls(self) -> list[Part]:
        """From ready to over: the weight is put there by the job, which knows of the other members."""
        calls = np.flatnonzero(self.work.is_comm)
        over = self._rows(READY, self.segment[calls], DONE, self.segment[calls], np.zeros((len(calls), self._variants)))
        return [{**over, "begin_ns": self.work.launch[calls]}]

    def _step_ends(self) -> list[Part]:
        """A step is over when the host and all lanes are."""
        ends, numbers = self.rank.steps[1], self.rank.step_numbers
        stop = self._stop_of(ends)
        held = self.stop_stretch[stop] == self.stretches.of(numbers)
        parts = [self._rows(STOP, stop[held], STEP_END, numbers[held], self._since_stop(ends[held], stop[held]))]
        if len(self.work):
            key = self.work.lane[self.order] * (int(self.work.step.max()) + 2) + self.work.step[self.order]
            last = self.order[np.flatnonzero(np.diff(key, append=-1))]
            nothing = np.zeros((len(last), self._variants))
            parts.append(self._rows(*self._node(last), STEP_END, self.work.step[last], nothing))
        return parts

    # Rows

    def _rows(
        self,
        src_kind: Codes | int,
        src_place: Codes | int,
        kind: Codes | int,
        place: Codes,
        weights: Weights,
        device_ns: Weights | float = 0.0,
    ) -> Part:
        count = len(place)
        kinds = np.broadcast_to(kind, count)
        return {
            "src_kind": np.broadcast_to(src_kind, count), "src_place": np.broadcast_to(src_place, count),
            "kind": kinds, "place": np.asarray(place), "device_ns": np.broadcast_to(device_ns, count),
            "unseen": np.full(count, -1), "begin_ns": np.zeros(count, np.int64), "weights": weights,
            **self._about(kinds, place),
        }  # fmt: skip

    def _about(self, kind: Codes, place: Codes) -> Part:
        work = self.work
        on_lane = np.isin(kind, [SEGMENT, READY, DONE])
        of_segment = {name: values[np.where(on_lane, place, -1)] for name, values in self._of_segments.items()}
        stops = np.append(self.stop_at, 0)[np.where(kind == STOP, np.minimum(place, len(self.stop_at)), -1)]
        of_step = np.searchsorted(self.rank.step_numbers, np.where(kind == STEP_END, place, 0))
        ends = np.append(self.rank.steps[1], 0)[np.where(kind == STEP_END, of_step, -1)]
        host = np.where(kind == STEP_END, ends, stops)
        return {
            "lane": np.where(on_lane, of_segment["lane"], len(work.lanes)),
            "what": np.where(on_lane, of_segment["what"], CLASSES.index(HOST)),
            "from_ns": np.where(on_lane, of_segment["from"], host), "at_ns": np.where(on_lane, of_segment["to"], host),
            "step": np.where(on_lane, of_segment["step"], np.where(kind == STEP_END, place, -1)),
            "call": np.where(on_lane, of_segment["call"], -1), "name": np.where(on_lane, of_segment["name"], -1),
        }  # fmt: skip

    @cached_property
    def _of_segments(self) -> dict[str, Codes]:
        """Of each segment: lane, the class of its longest work, its span and so on; a last row for none."""
        if not len(self.work):
            return {name: np.array([-1]) for name in ("lane", "what", "from", "to", "step", "call", "name")}
        work, order, first = self.work, self.order, np.flatnonzero(self.opens)
        last = order[np.append(first[1:], len(order)) - 1]
        begin = order[first]
        main = order[_place_of_max((work.end - work.start)[order].astype(np.float64), first)]
        cls = np.append(self.rank.told.instances.cls, -1)[work.instance[main]]
        columns = {
            "lane": work.lane[begin], "what": np.where(work.is_comm[begin], -1, cls), "from": work.start[begin],
            "to": work.end[last], "step": work.step[begin], "call": work.call[begin], "name": work.name[main],
        }  # fmt: skip
        return {name: np.append(values, -1) for name, values in columns.items()}
