"""What each piece of a rank's work waits for on its own rank, beside its lane and its launch.

Told by the trace where it can be, else inferred, and only where what was measured agrees (what is waited for ended
before, but for the clock's noise). All are pairs of (who waits, for whom), as places in the rank's work:

- communication waits for the device work that the program launched last before it: PyTorch has a collective's stream
  wait for the current stream when the call is issued;
- work that was launched and whose lane was free, and that begins where work on another lane ends, waited for that;
- behind a `cudaStreamWaitEvent` or a `Stream Wait Event` the next launched work waits for the call issued last that was
  over then, unless contact tells for which;
- the first work of a micro-batch waits for what the rank received for it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.model import RUNTIME, STREAM_WAIT
from tracekit.replay.work import NO_RECEIVE, Codes, Flags, Times, Work

CONTACT_NS = 10_000
"""Work that waits for other work begins within this after it (events between streams take 1 to 5 us),"""
NOISE_FRAC = 0.001
"""or within this share of how long the two last, which covers the noise of coarse clocks."""

FEW = 4
"""So many calls back a stream may wait for one behind which nothing else tells the wait."""

Pairs = tuple[Codes, Codes]
NOTHING = -1


def tolerance(work: Work) -> Times:
    """How far from contact the borders of each piece of work may lie."""
    return np.maximum(CONTACT_NS, _noise(work))


def _noise(work: Work) -> Times:
    return np.asarray(((work.end - work.start) * NOISE_FRAC).astype(np.int64))


def before_on_lane(work: Work) -> Codes:
    """The place of what ran before on each piece's lane; -1 where there is none, or it was not over."""
    order = np.lexsort((np.arange(len(work)), work.lane))
    before = np.full(len(work), NOTHING)
    same = work.lane[order][1:] == work.lane[order][:-1]
    before[order[1:]] = np.where(same, order[:-1], NOTHING)
    over = work.end[before] <= work.start + tolerance(work)
    return np.where((before >= 0) & over, before, NOTHING)


def waits(work: Work, host: pd.DataFrame, base_ns: int, before: Codes, ready: Times) -> Pairs:
    """All pairs, each once. `ready` is when lane and launch would have let each piece begin."""
    contact = _for_contact(work, ready)
    found = [_for_current_stream(work), contact, _behind_stream_waits(work, host, base_ns, contact)]
    found.append(_for_received(work))
    waiting = np.concatenate([pair[0] for pair in found])
    awaited = np.concatenate([pair[1] for pair in found])
    held = (awaited < waiting) & (awaited != before[waiting])
    pairs = np.unique(np.stack((waiting[held], awaited[held])), axis=1)
    return pairs[0], pairs[1]


def _agrees(work: Work, waiting: Codes, awaited: Codes) -> Flags:
    """Whether the awaited work was over when the waiting work began, as far as clocks tell."""
    slack = np.maximum(tolerance(work)[waiting], tolerance(work)[awaited])
    return np.asarray(work.end[awaited] <= work.start[waiting] + slack)


def _kept(work: Work, waiting: Codes, awaited: Codes) -> Pairs:
    told = awaited >= 0
    waiting, awaited = waiting[told], awaited[told]
    held = _agrees(work, waiting, awaited) & (work.lane[waiting] != work.lane[awaited])
    return waiting[held], awaited[held]


def _last_launched(work: Work, among: Flags, at: Times) -> Codes:
    """The work among some that was launched last before each moment, -1 where there is none."""
    there = np.flatnonzero(among & work.launched)
    there = there[np.argsort(work.launch[there], kind="stable")]
    place = np.searchsorted(work.launch[there], at, side="left") - 1
    return np.where(place >= 0, np.append(there, NOTHING)[place], NOTHING)


def _for_current_stream(work: Work) -> Pairs:
    waiting = np.flatnonzero(work.is_comm & work.launched)
    return _kept(work, waiting, _last_launched(work, ~work.is_comm, work.launch[waiting]))


def _for_contact(work: Work, ready: Times) -> Pairs:
    waiting = np.flatnonzero(work.start - ready > CONTACT_NS / 2)
    slack = tolerance(work)
    order = np.argsort(work.end, kind="stable")
    place = np.searchsorted(work.end[order], work.start[waiting] + _noise(work)[waiting], side="right") - 1
    found = np.where(place >= 0, order[place], NOTHING)
    near = (found >= 0) & (work.end[found] >= work.start[waiting] - np.maximum(slack[waiting], slack[found]))
    near &= ~work.launched[waiting] | ~work.launched[found] | (work.launch[found] <= work.launch[waiting])
    return _kept(work, waiting[near], found[near])


def _behind_stream_waits(work: Work, host: pd.DataFrame, base_ns: int, contact: Pairs) -> Pairs:
    at = _stream_waits(host) - base_ns
    launched = np.flatnonzero(work.launched & ~work.is_comm)
    launched = launched[np.argsort(work.launch[launched], kind="stable")]
    place = np.unique(np.searchsorted(work.launch[launched], at, side="left"))
    waiting = launched[place[place < len(launched)]]
    others = np.sort(work.launch[work.is_comm & work.launched])
    since = np.searchsorted(others, work.launch[waiting], side="left")
    issued = at[np.searchsorted(at, work.launch[waiting], side="right") - 1]
    waiting = waiting[np.searchsorted(others, issued, side="left") == since]
    explained = contact[0][work.is_comm[contact[1]]]
    return _last_issued(work, waiting[~np.isin(waiting, explained)])


def _stream_waits(host: pd.DataFrame) -> Times:
    """When the host had a stream wait for another."""
    names = host["name"].cat.categories
    calls = np.array(["StreamWaitEvent" in str(name) for name in names], bool)
    told = host[(host["kind"] == RUNTIME) & (calls[host["name"].cat.codes] if len(names) else False)]
    rows = host[host["kind"] == STREAM_WAIT]
    issued = np.where(rows["launch_ns"] > 0, rows["launch_ns"], rows["start_ns"])
    return np.sort(np.concatenate((told["start_ns"].to_numpy(), issued)))


def _last_issued(work: Work, waiting: Codes) -> Pairs:
    """The call that was issued last before each and was over when it began, of the last few."""
    calls = np.flatnonzero(work.is_comm & work.launched)
    calls = calls[np.argsort(work.launch[calls], kind="stable")]
    place = np.searchsorted(work.launch[calls], work.launch[waiting], side="right") - 1
    found = np.full(len(waiting), NOTHING)
    for back in range(FEW):
        call = np.where(place >= back, np.append(calls, NOTHING)[np.maximum(place - back, -1)], NOTHING)
        over = (call >= 0) & (work.end[call] <= work.start[waiting])
        found = np.where((found < 0) & over, call, found)
    return _kept(work, waiting, found)


def _for_received(work: Work) -> Pairs:
    """The first work of each micro-batch's action, with what it received.

    A channel (a lane and the rank that it receives from) serves the actions of one kind, as many in a step as it
    receives, each over before the action of the same number begins. Of a channel that serves none so, an action waits
    for what was received last before.
    """
    told = np.flatnonzero(work.action >= 0)
    first = told[np.unique(work.action[told], return_index=True)[1]]
    receives = np.flatnonzero(work.source != NO_RECEIVE)
    served = [first[np.isin(work.purpose[first], group)] for group in _groups(work)]
    pairs: list[Pairs] = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    for lane, source in np.unique(np.stack((work.lane, work.source))[:, receives], axis=1).T.tolist():
        there = receives[(work.lane[receives] == lane) & (work.source[receives] == source)]
        found = next((pair for actions in served if len((pair := _in_turn(work, actions, there))[0])), None)
        pairs.append(found or _last_received(work, first, there))
    return np.concatenate([pair[0] for pair in pairs]), np.concatenate([pair[1] for pair in pairs])


def _groups(work: Work) -> list[list[int]]:
    """Sets of purposes that one channel may serve: a kind on one stage, on all, on all but the first or the last."""
    groups: list[list[int]] = []
    for kind in dict.fromkeys(kind for kind, _ in work.purposes if kind):
        stages = sorted((int(stage or 0), code) for code, (one, stage) in enumerate(work.purposes) if one == kind)
        codes = [code for _, code in stages]
        groups += [[code] for code in codes] + ([codes, codes[1:], codes[:-1]] if len(codes) > 1 else [])
    return groups


def _in_turn(work: Work, actions: Codes, receives: Codes) -> Pairs:
    """The actions with the receives of their number, of the steps in which there are as many and each came in time."""
    begin = work.start + _noise(work)
    pairs: list[Pairs] = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    for step in np.unique(work.step[receives]):
        mine, theirs = actions[work.step[actions] == step], receives[work.step[receives] == step]
        if len(mine) == len(theirs) and (work.end[theirs] <= begin[mine]).all():
            pairs.append((mine, theirs))
    return np.concatenate([pair[0] for pair in pairs]), np.concatenate([pair[1] for pair in pairs])


def _last_received(work: Work, first: Codes, receives: Codes) -> Pairs:
    begin = work.start[first] + _noise(work)[first]
    place = np.searchsorted(np.maximum.accumulate(work.end[receives]), begin, side="right") - 1
    return _kept(work, first, np.where(place >= 0, receives[place], NOTHING))


def latest_of(pairs: Pairs, values: Times, floor: Times) -> Times:
    """For each piece the latest of its own floor and what it waits for."""
    latest = floor.copy()
    np.maximum.at(latest, pairs[0], values[pairs[1]])
    return latest


def usual_latency(work: Work, before: Codes) -> int:
    """How long launched work takes to begin on a free lane where it waits for nothing, 0 where nothing tells.

    The lower quartile over all but communication: some of the rest waits for other lanes.
    """
    free = work.launched & ~work.is_comm & ((before < 0) | (work.end[before] <= work.launch))
    waits_ns: npt.NDArray[np.int64] = (work.start - work.launch)[free]
    return int(np.percentile(waits_ns[waits_ns >= 0], 25, method="lower")) if (waits_ns >= 0).any() else 0
