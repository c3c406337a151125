"""The simulator's own account of what happened: by sweeping over each rank's times, second way to tracekit's numbers.

Between two neighbouring times at which some work begins or ends, nothing changes: each such moment belongs to whatever
classes of work run in it. A length is the sum of the moments that a question asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.plan.schedule import BACKWARD_WEIGHT, FORWARD, Action
from tracekit.simulate.engine import Group, Rank, World
from tracekit.simulate.kernels import COMM, COMPUTE, MEMORY
from tracekit.simulate.program import Call, Launch, Program

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Spans = tuple[Ints, Ints]


@dataclass(frozen=True)
class Moments:
    """Time cut where something changes: `times`, and which classes run from each to the next."""

    times: Ints
    running: Mapping[str, Flags]

    @classmethod
    def of(cls, classes: Mapping[str, Spans]) -> Moments:
        """The moments of spans of several classes."""
        times = np.unique(np.concatenate([part for spans in classes.values() for part in spans]))
        running = {}
        for name, (starts, ends) in classes.items():
            change = np.zeros(len(times), np.int64)
            np.add.at(change, np.searchsorted(times, starts), 1)
            np.add.at(change, np.searchsorted(times, ends), -1)
            running[name] = np.cumsum(change) > 0
        return cls(times, running)

    def merged(self) -> Moments:
        """The same without cuts at which no class begins or ends to run."""
        state = np.array(list(self.running.values()))
        kept = np.append(True, (state[:, 1:] != state[:, :-1]).any(axis=0))
        return Moments(self.times[kept], {name: flags[kept] for name, flags in self.running.items()})

    def length(self, asked: Flags, begin: npt.ArrayLike, end: npt.ArrayLike) -> Ints:
        """Nanoseconds of the moments asked for between two times (or arrays of such)."""
        lasts = np.append(np.diff(self.times), 0) * asked
        before = np.concatenate(([0], np.cumsum(lasts)))

        def until(time: npt.ArrayLike) -> Ints:
            at = np.asarray(time, np.int64)
            nth = np.searchsorted(self.times, at, side="right") - 1
            part = np.where(nth >= 0, (at - self.times[nth]) * asked[nth], 0)
            return np.asarray(np.where(nth >= 0, before[nth], 0) + part, np.int64)

        return until(end) - until(begin)


@dataclass(frozen=True)
class Gap:
    """A time in which the device does nothing: until `launched` the host is late, from then on the cause is another."""

    start: int
    launched: int
    end: int
    behind_another: bool
    """Whether the work that ends the gap waits for another lane."""


@dataclass(frozen=True)
class Account:
    """One rank's: its steps' windows, its work by class, and when its actions computed."""

    rank: int
    windows: Spans
    moments: Moments
    actions: list[list[tuple[Action, int, int]]]
    useful: Flags
    gaps: list[Gap]


def account(one: Rank) -> Account:
    """What one rank did."""
    kinds = np.array([_kind(work) for program in one.programs for work in program.work])
    classes = {kind: (one.starts[kinds == kind], one.ends[kinds == kind]) for kind in (COMPUTE, COMM, MEMORY)}
    classes["waiting"] = (one.starts[kinds == COMM], one.begins[kinds == COMM])
    inside = _collectives_inside(one)
    classes["inside"] = (one.begins[inside], one.ends[inside])
    moments = Moments.of(classes)
    useful = moments.running[COMPUTE] | moments.running["inside"]
    windows = _windows(one)
    return Account(one.rank, windows, moments, _actions(one, kinds), useful, _gaps(one, int(windows[1][-1])))


def _kind(work: Launch | Call) -> str:
    return COMM if isinstance(work, Call) else work.kernel.kind


def bases(programs: Sequence[Program]) -> list[int]:
    """The place of each step's first slot."""
    return [0, *np.cumsum([program.slots for program in programs]).tolist()]


def _collectives_inside(one: Rank) -> Ints:
    """The slots of collectives launched in a pipeline's actions."""
    return np.array([
        base + slot
        for base, program in zip(bases(one.programs), one.programs, strict=False)
        for _, slots in program.actions
        for slot in slots if isinstance(program.work[slot], Call)
    ], np.int64)  # fmt: skip


def _windows(one: Rank) -> Spans:
    """A step begins when the host begins it and all work of the steps before is done; the last ends with all of it."""
    edges, place = bases(one.programs), 0
    done = [0, *(int(one.ends[:edge].max()) for edge in edges[1:])]
    hosts = []
    for program in one.programs:
        hosts.append((int(one.host_starts[place]), int(one.host_ends[place + len(program.instructions) - 1])))
        place += len(program.instructions)
    starts = [max(begin, before) for (begin, _), before in zip(hosts, done, strict=False)]
    ends = [*starts[1:], max(hosts[-1][1], starts[-1], done[-1])]
    return np.array(starts, np.int64), np.array(ends, np.int64)


def _actions(one: Rank, kinds: npt.NDArray[np.str_]) -> list[list[tuple[Action, int, int]]]:
    """For each step the actions with the begin and end of what they compute."""
    steps = []
    for base, program in zip(bases(one.programs), one.programs, strict=False):
        found = []
        for action, slots in program.actions:
            place = np.arange(base + slots.start, base + slots.stop)
            place = place[kinds[place] == COMPUTE]
            found.append((action, int(one.starts[place].min()), int(one.ends[place].max())))
        steps.append(found)
    return steps


def _gaps(one: Rank, until: int) -> list[Gap]:
    """The rank's gaps. Work is gone through by start; of what starts at once, the first launched ends the gap."""
    work = [piece for program in one.programs for piece in program.work]
    free, gaps = 0, []
    for at in np.lexsort((one.launches, one.starts)).tolist():
        start, end = int(one.starts[at]), int(one.ends[at])
        if start > free and end > start:
            launched = min(max(int(one.launches[at]), free), start)
            gaps.append(Gap(free, launched, start, bool(work[at].after)))
        free = max(free, end)
    return [*gaps, Gap(free, until, until, False)] if until > free else gaps


def moments_of_gaps(gaps: Sequence[Gap], cause: int, starts: Ints, ends: Ints) -> Ints:
    """Nanoseconds of the gaps that are the host's (0), a wait for another lane (1), or latency (2), by step."""
    parts = [
        (gap.start, gap.launched) if cause == 0 else (gap.launched, gap.end)
        for gap in gaps
        if cause == 0 or gap.behind_another == (cause == 1)
    ]
    edges = np.array(parts, np.int64).reshape(-1, 2)
    clipped = np.minimum(edges[:, 1, None], ends) - np.maximum(edges[:, 0, None], starts)
    return np.asarray(np.maximum(clipped, 0).sum(axis=0), np.int64)


def axis_rows(one: Rank, told: Account) -> pd.DataFrame:
    """Communication of each axis, and its part of what nothing hides; a moment that several share is shared equally."""
    work = [piece for program in one.programs for piece in program.work]
    named = np.array([ALONG.get(piece.axis, piece.axis) if isinstance(piece, Call) else "" for piece in work])
    compute = np.array([_kind(piece) == COMPUTE for piece in work])
    axes = sorted(set(named.tolist()) - {""})
    moments = Moments.of({axis: (one.starts[picked], one.ends[picked]) for axis, picked in
                          [*((axis, named == axis) for axis in axes), (COMPUTE, compute)]}).merged()  # fmt: skip
    rows = []
    for step, (start, end) in enumerate(zip(*told.windows, strict=True)):
        begin = np.clip(moments.times, start, end)
        lasts = np.append(np.diff(begin), 0)
        open_ = ~moments.running[COMPUTE]
        sharers = np.sum([moments.running[axis] for axis in axes], axis=0)
        before = np.zeros(len(lasts), np.int64)
        for axis in axes:
            runs = moments.running[axis]
            each = lasts // np.maximum(sharers, 1) + (before < lasts % np.maximum(sharers, 1))
            comm_ns = int(lasts[runs].sum())
            if comm_ns:
                rows.append((told.rank, step, axis, comm_ns, int(each[runs & open_].sum())))
            before += runs
    return pd.DataFrame(rows, columns=["rank", "step", "axis", "comm_ns", "exposed_ns"])


ALONG = {"embedding": "pipeline"}
"""Tied embeddings are summed up along the pipeline."""


def action_rows(told: Account) -> pd.DataFrame:
    """A pipeline's actions: when each computes, and how long it is busy."""
    rows = [
        (told.rank, step, action.stage, action.kind, action.microbatch, start, end,
         int(told.moments.length(told.useful, start, end)))
        for step, mine in enumerate(told.actions)
        for action, start, end in sorted(mine, key=lambda one: one[1])
    ]  # fmt: skip
    columns = ["rank", "step", "stage", "action", "microbatch", "start_ns", "end_ns", "busy_ns"]
    return pd.DataFrame(rows, columns=columns)


def step_rows(told: Account) -> pd.DataFrame:
    """Breakdown, overlap, own and waiting time of each step of a rank."""
    moments, (starts, ends) = told.moments, told.windows
    late, waits, latency = (moments_of_gaps(told.gaps, cause, starts, ends) for cause in range(3))
    compute, comm, memory = (moments.running[kind] for kind in (COMPUTE, COMM, MEMORY))
    waiting = moments.running["waiting"] & ~compute
    asked = {
        "compute_ns": compute,
        "exposed_comm_ns": comm & ~compute,
        "exposed_memory_ns": memory & ~comm & ~compute,
        "comm_ns": comm,
        "overlap_ns": comm & compute,
        "wait_ns": waiting,
        "busy_ns": compute | comm | memory,
    }
    rows = pd.DataFrame({name: moments.length(flags, starts, ends) for name, flags in asked.items()})
    rows.insert(0, "step_ns", ends - starts)
    rows["idle_ns"] = rows["step_ns"] - rows.pop("busy_ns")
    rows["own_ns"] = rows["step_ns"] - rows["wait_ns"]
    rows = rows.assign(host_late_ns=late, stream_wait_ns=waits, launch_latency_ns=latency)
    keys = {"rank": told.rank, "step": np.arange(len(starts)), "start_ns": starts, "end_ns": ends}
    return pd.DataFrame({**keys, **rows})


def call_rows(world: World, one: Rank) -> pd.DataFrame:
    """Each call of a rank with its wait."""
    told = [
        (slot + base, step, work)
        for step, (base, program) in enumerate(zip(bases(one.programs), one.programs, strict=False))
        for slot, work in enumerate(program.work) if isinstance(work, Call)
    ]  # fmt: skip
    at = np.array([slot for slot, _, _ in told], np.int64)
    calls = [call for _, _, call in told]
    groups = [world.group_of[call.axis][one.rank] for call in calls]
    return pd.DataFrame({
        "rank": one.rank, "step": np.array([step for _, step, _ in told], np.int64),
        "axis": [call.axis for call in calls], "group": np.array([group.number for group in groups], np.int64),
        "op": [call.op for call in calls], "number": one.numbers[at],
        "bytes": np.array([call.bytes for call in calls], np.int64),
        "peer": pd.array([group.members[call.peer] if call.peer >= 0 else None
                          for call, group in zip(calls, groups, strict=True)], "Int64"),
        "start_ns": one.starts[at], "end_ns": one.ends[at], "wait_ns": one.begins[at] - one.starts[at],
        "transfer_ns": one.ends[at] - one.begins[at],
    })  # fmt: skip


# Pipelines ------------------------------------------------------------------------------------------------------------


def pipeline_rows(world: World, accounts: Sequence[Account]) -> pd.DataFrame:
    """The bubble of each pipeline, rank and step, with its phases and causes; empty without a pipeline."""
    groups = world.groups.get("pipeline", [])
    rows = [
        row
        for group in groups
        for step in range(world.job.steps)
        for row in _of_pipeline(group, step, [accounts[rank] for rank in group.members])
    ]
    return pd.DataFrame(rows)


def _of_pipeline(group: Group, step: int, accounts: Sequence[Account]) -> Iterable[dict[str, object]]:
    actions = [told.actions[step] for told in accounts]
    begin = min(start for mine in actions for action, start, _ in mine if action.kind == FORWARD)
    until = max(end for mine in actions for action, _, end in mine if action.kind != FORWARD)
    busy = [int(told.moments.length(told.useful, begin, until)) for told in accounts]
    bubble = [until - begin - one for one in busy]
    causes = _causes(accounts, actions, sum(bubble) / len(bubble))
    for place, told in enumerate(accounts):
        yield {
            "group": group.number, "rank": told.rank, "stage": place, "step": step, "window_ns": until - begin,
            "busy_ns": busy[place], "bubble_ns": bubble[place], **_phases(told, actions[place], begin, until), **causes,
        }  # fmt: skip


def _phases(told: Account, actions: list[tuple[Action, int, int]], begin: int, until: int) -> dict[str, int]:
    """The bubble before the first backward, after the last forward, and between."""
    backward = min(start for action, start, _ in actions if action.kind != FORWARD)
    forward = max(backward, max(end for action, _, end in actions if action.kind == FORWARD))
    edges = [begin, backward, forward, until]
    idle = [b - a - int(told.moments.length(told.useful, a, b)) for a, b in pairwise(edges)]
    return dict(zip(("warmup_ns", "steady_ns", "cooldown_ns"), idle, strict=True))


def _causes(
    accounts: Sequence[Account], actions: list[list[tuple[Action, int, int]]], bubble_ns: float
) -> dict[str, int]:
    """What the order leaves idle with stages alike, what stages' differences add, what single actions' do, the rest."""
    busy = {
        action: int(told.moments.length(told.useful, start, end))
        for told, mine in zip(accounts, actions, strict=True)
        for action, start, end in mine
    }
    alike = _means(busy, lambda action: (action.kind,))
    by_stage = _means(busy, lambda action: (action.kind, action.stage))
    actual = {action: float(end - start) for mine in actions for action, start, end in mine}
    order = [[action for action, _, _ in sorted(mine, key=lambda one: one[1])] for mine in actions]
    balanced, imbalanced, real = (_replayed(order, lasts) for lasts in (alike, by_stage, actual))
    must, imbalance, jitter = balanced - sum(alike.values()) / len(order), imbalanced - balanced, real - imbalanced
    return {
        "must_ns": round(must), "imbalance_ns": round(imbalance), "jitter_ns": round(jitter),
        "transfer_ns": round(bubble_ns - must - imbalance - jitter),
    }  # fmt: skip


def _means(lasts: Mapping[Action, int], key: Callable[[Action], tuple[object, ...]]) -> dict[Action, float]:
    """The mean of each action's length over those with the same key."""
    parts: dict[tuple[object, ...], list[int]] = {}
    for action, ns in lasts.items():
        parts.setdefault(key(action), []).append(ns)
    return {action: sum(parts[key(action)]) / len(parts[key(action)]) for action in lasts}


def _replayed(order: list[list[Action]], lasts: Mapping[Action, float]) -> float:
    """When all is done if each action begins as soon as its rank and the stage beside it allow."""
    known = {(_gives(action), action.stage, action.microbatch) for mine in order for action in mine}
    done: dict[tuple[str, int, int], float] = {}
    free, left = [0.0] * len(order), [list(mine) for mine in order]
    while any(left):
        before = len(done)
        for rank, mine in enumerate(left):
            while mine and all(need in done for need in _needs(mine[0], known)):
                action = mine.pop(0)
                start = max([free[rank], *(done[need] for need in _needs(action, known))])
                free[rank] = done[_gives(action), action.stage, action.microbatch] = start + lasts[action]
        if len(done) == before:
            raise AssertionError("the actions wait for each other")
    return max(free)


def _gives(action: Action) -> str:
    return action.kind if action.kind in (FORWARD, BACKWARD_WEIGHT) else "gradient"


def _needs(action: Action, known: set[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    if action.kind == BACKWARD_WEIGHT:
        return []
    neighbour = action.stage - 1 if action.kind == FORWARD else action.stage + 1
    need = (_gives(action), neighbour, action.microbatch)
    return [need] if need in known else []
