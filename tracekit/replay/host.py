"""When the host waits for the device, and what it does the rest of the time.

The host is blocked by a synchronising call, or a copy or allocation that returns when work on the device is over. It
also waits where the trace shows no call: between two launches it does nothing that is recorded for a millisecond or
more, while work that it launched before comes to its end. (A program that waits for a transfer in a library that the
profiler does not see looks like that.) On a CPU trace the program waits where it computes nothing and, in the later
half of the gap, a communication of its rank ends.

What else a host does unseen (`Blocks.unseen`) may be work that the profiler does not record, or a wait for another rank
that it does not see either; `unseen.py` tells the two apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from tracekit.intervals import Spans, length_within, merge, union
from tracekit.model import (
    ANNOTATION,
    DATA_LOADING,
    GARBAGE_COLLECTION,
    LAUNCH,
    OPERATOR,
    OVERHEAD,
    RUNTIME,
    SYNCHRONIZE,
    RankTables,
)
from tracekit.replay.causes import CONTACT_NS, tolerance
from tracekit.replay.timeline import NOTHING, Timeline, timeline
from tracekit.replay.work import (
    CLASSES,
    HOST,
    LAYERS,
    Codes,
    Flags,
    RankWork,
    Times,
    Work,
    launching_lanes,
    spans_of,
)

UNSEEN_NS = 1_000_000
"""A host that does nothing that is recorded for so long while device work ends waits for it."""
BLOCKING_NS = 20_000
"""A launch, copy or allocation that takes this long may have waited for the device."""
RECORDED = (OPERATOR, RUNTIME, LAUNCH, SYNCHRONIZE, DATA_LOADING, GARBAGE_COLLECTION, OVERHEAD)


@dataclass(frozen=True)
class Blocks:
    """Where the host goes on after it waited: from `since` on it waited for the work `awaited`, until `at`.

    In order of time. With no awaited work (-1) the host stops to wait for nothing: where an `unseen` time begins, and
    where it ends.
    """

    since: Times
    at: Times
    awaited: Codes
    unseen: Flags

    def __len__(self) -> int:
        return len(self.at)


def step_spans(one: RankTables, work: Work, base_ns: int) -> tuple[Times, Times]:
    """Where the host begins and ends each step: its `ProfilerStep`.

    Without one a step begins with its window, or the first launch before that, and the host does not tell its end.
    """
    begin = one.steps["start_ns"].to_numpy() - base_ns
    rows = one.host[one.host["kind"] == ANNOTATION]
    names = [str(name) for name in rows["name"].cat.categories]
    number = np.array([int(n) if (n := name.removeprefix("ProfilerStep#")).isdecimal() else -1 for name in names])
    told = dict(zip(number[rows["name"].cat.codes].tolist() if len(names) else [], range(len(rows)), strict=False))
    place = np.array([told.get(step, -1) for step in one.steps["step"].tolist()], np.int64)
    if (place >= 0).all() and len(place):
        return rows["start_ns"].to_numpy()[place] - base_ns, rows["end_ns"].to_numpy()[place] - base_ns
    if len(begin) and work.launched.any():
        begin[0] = min(begin[0], int(work.launch[work.launched].min()))
    return begin, begin


def blocks_on_device(one: RankTables, work: Work, begins: Times, base_ns: int) -> Blocks:
    """The blocks of a rank with a device whose steps begin at `begins`."""
    if not work.launched.any():
        return _in_order([])
    host = one.host[one.host["lane"].isin(launching_lanes(one))]
    recorded = _recorded(host, base_ns)
    blocks = _in_order([_of_calls(host, work, base_ns), _unseen(work, recorded)])
    points = np.unique(np.concatenate((begins, work.launch[work.launched])))
    return _with_unseen(blocks, work, points[:-1], points[1:], merge([recorded, union(work.start, work.end)]))


def _of_calls(host: pd.DataFrame, work: Work, base_ns: int) -> Blocks:
    calls = host[host["kind"].isin([SYNCHRONIZE, LAUNCH, RUNTIME])]
    since, at = calls["start_ns"].to_numpy() - base_ns, calls["end_ns"].to_numpy() - base_ns
    sync = (calls["kind"] == SYNCHRONIZE).to_numpy()
    awaited = _last_to_end(work, since, at, CONTACT_NS)
    over = work.end[awaited]
    returns = (at - over <= 2 * CONTACT_NS) & (over - since >= BLOCKING_NS)
    held = (awaited >= 0) & (over > since) & (sync | returns)
    return _blocks(since[held], at[held], awaited[held])


def _blocks(since: Times, at: Times, awaited: Codes, *, unseen: bool = False) -> Blocks:
    return Blocks(since, at, awaited, np.full(len(at), unseen))


def _last_to_end(work: Work, since: Times, at: Times, slack: int | Times) -> Codes:
    """Of the work that was launched up to `since` the last to end by `at`; -1 where another ended later, or none."""
    end = work.end - tolerance(work)
    order = np.argsort(end, kind="stable")
    place = np.searchsorted(end[order], at + slack, side="right") - 1
    while (later := (place >= 0) & (work.start[order[place]] >= at)).any():
        place[later] -= 1  # short work that began only then cannot have been waited for
    found = np.where(place >= 0, order[place], NOTHING)
    fits = (found >= 0) & (work.start[found] < at) & (~work.launched[found] | (work.launch[found] <= since))
    return np.where(fits, found, NOTHING)


def _unseen(work: Work, recorded: Spans) -> Blocks:
    launch, first = np.unique(np.where(work.launched, work.launch, -(2**62)), return_index=True)
    known = launch > -(2**62)
    launch, slack = launch[known], (work.start - work.launch + tolerance(work))[first[known]]
    slack = np.minimum(slack, UNSEEN_NS // 2)
    since, at, slack = launch[:-1], launch[1:], slack[1:]
    awaited = _last_to_end(work, since, at, slack)
    over = np.minimum(work.end[awaited], at)
    unseen = over - since - length_within(recorded, since, np.maximum(over, since))
    held = (awaited >= 0) & (unseen >= np.maximum(UNSEEN_NS, (over - since) / 2))
    return _blocks(since[held], at[held], awaited[held])


def _with_unseen(blocks: Blocks, work: Work, since: Times, at: Times, seen: Spans) -> Blocks:
    """The blocks, and with them the times between `since` and `at` in which nothing is seen of host or device."""
    place = np.searchsorted(blocks.at, at)
    ends = np.append(np.append(blocks.at, -1), -1)
    is_block = ends[place] == at
    over = np.minimum(np.append(work.end, 0)[np.append(blocks.awaited, -1)], np.append(blocks.at, 0))
    begin = np.where(is_block, np.append(over, 0)[np.minimum(place, len(over) - 1)], since)
    begin = np.maximum(np.maximum(begin, since), np.where(place > 0, ends[place - 1], since))
    unseen = at - begin - length_within(seen, begin, np.maximum(at, begin))
    held = unseen >= np.maximum(UNSEEN_NS, (at - begin) / 2)
    split = np.isin(np.arange(len(blocks)), place[held & is_block])
    awaited = np.where(is_block, np.append(blocks.awaited, -1)[np.minimum(place, len(blocks))], -1)
    kept = Blocks(*(getattr(blocks, name)[~split] for name in ("since", "at", "awaited", "unseen")))
    marks = _blocks(np.minimum(since, begin)[held], begin[held], awaited[held])
    return _in_order([kept, marks, _blocks(begin[held], at[held], np.full(held.sum(), -1), unseen=True)])


def _recorded(host: pd.DataFrame, base_ns: int) -> Spans:
    rows = host[host["kind"].isin(RECORDED)]
    return union(rows["start_ns"].to_numpy() - base_ns, rows["end_ns"].to_numpy() - base_ns)


def blocks_of_program(work: Work, program: tuple[Times, Times, Codes], marks: Times) -> Blocks:
    """The blocks of a rank without a device; `marks` are moments at which the program does something, too."""
    if not len(work):
        return _in_order([])
    reach = np.sort(np.concatenate((program[1], marks)))
    at = np.unique(np.concatenate((program[0], marks)))
    place = np.searchsorted(reach, at, side="right") - 1
    at, since = at[place >= 0], reach[np.maximum(place, 0)][place >= 0]
    awaited = _last_to_end(work, at, at, CONTACT_NS)
    over = np.minimum(work.end[awaited], at)
    held = (awaited >= 0) & (over > since) & (over - since >= at - over)
    blocks = _in_order([_blocks(since[held], at[held], awaited[held])])
    return _with_unseen(blocks, work, since, at, union(work.start, work.end))


def _in_order(found: list[Blocks]) -> Blocks:
    """All blocks in order of their ends, of several with one end the one that waits longest."""
    nothing = np.empty(0, np.int64)
    since, at, awaited = (
        np.concatenate([nothing, *(getattr(one, name) for one in found)]) for name in ("since", "at", "awaited")
    )
    unseen = np.concatenate([np.empty(0, bool), *(one.unseen for one in found)])
    order = np.lexsort((since, ~unseen, at))
    order = order[np.unique(at[order], return_index=True)[1]]
    return Blocks(since[order], at[order], awaited[order], unseen[order])


def with_marks(blocks: Blocks, at: Times) -> Blocks:
    """The blocks, and moments at which the host does not wait."""
    return _in_order([_blocks(at, at, np.full(len(at), -1)), blocks])


def host_timeline(
    one: RankTables, told: RankWork, blocks: Blocks, waited: Times, steps: tuple[Times, Times], base_ns: int
) -> Timeline:
    """What the host does from its first step on, as codes of `RankWork`, the waits left out.

    `waited` is how much of each unseen time counts as waiting.
    """
    begins, ends = steps
    last = [ends.max(initial=0), blocks.at.max(initial=0), told.work.launch.max(initial=0), *told.program[1][-1:]]
    layers = [(begins, np.append(begins[1:], max(last) + 1), _instances(one, told, HOST))]
    layers.append(_waited(told.work, blocks, waited))
    layers.append(_not_recorded(one, told, blocks, waited, begins))
    layers.append(told.program)
    for cls, kind in LAYERS:
        starts, stops = spans_of(one.host, kind, base_ns)
        place = np.searchsorted(begins, starts, side="right") - 1
        held = place >= 0
        layers.append((starts[held], stops[held], _instances(one, told, cls)[place[held]]))
    return timeline(int(begins[0]), max(last) + 1, layers)


def _waited(work: Work, blocks: Blocks, waited: Times) -> tuple[Times, Times, Codes]:
    over = blocks.since.copy()
    held = blocks.awaited >= 0
    over[held] = np.minimum(work.end[blocks.awaited[held]], blocks.at[held])
    over[blocks.unseen] += waited
    spans = union(blocks.since, np.maximum(over, blocks.since))
    return spans.starts, spans.ends, np.full(len(spans), NOTHING)


def _not_recorded(
    one: RankTables, told: RankWork, blocks: Blocks, waited: Times, begins: Times
) -> tuple[Times, Times, Codes]:
    """The unseen times that do not count as waiting, as what is not recorded of their step's host."""
    starts, ends = blocks.since[blocks.unseen] + waited, blocks.at[blocks.unseen]
    step = np.searchsorted(begins, starts, side="right") - 1
    held = (step >= 0) & (ends > starts)
    codes = told.unseen_of(_instances(one, told, HOST)[step[held]])
    return starts[held], ends[held], codes


def _instances(one: RankTables, told: RankWork, cls: str) -> Codes:
    step = one.steps["step"].to_numpy()
    found = told.instances.of(np.full(len(step), CLASSES.index(cls)), step, np.full(len(step), -1))
    return np.where(told.example, found, told.as_measured)
