"""What each span is: work or not, of which kind, launched when; and what cannot have been."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit import intervals
from tracekit.model import (
    ANNOTATION,
    COMM,
    COMPUTE,
    HOST_KINDS,
    LAUNCH,
    MEMORY,
    NO_TIME,
    OPERATOR,
    RUNTIME,
    STREAM_WAIT,
    SYNCHRONIZE,
    WORK_KINDS,
)
from tracekit.read import names
from tracekit.read.columns import NO_ID

Flags = npt.NDArray[np.bool_]
Times = npt.NDArray[np.int64]

KINDS = (*WORK_KINDS, *HOST_KINDS)
SYNC_LANE_OFFSET = 1_000_000
"""Kineto writes some synchronisation rows on a lane of their own: the stream's number and this."""

OVERRUN_NS = 1_000_000
"""A span may run this far into the next one on its lane (launches that overlap on purpose do so by microseconds)."""
OVERRUN_FACTOR = 10
"""... and so many times the time from its start to the next start, before it counts as impossible."""
CLOCK_BEHIND_NS = 100_000
"""A device's clock may be so much behind its host's"""
CLOCK_MIN_WORK, CLOCK_MIN_FRAC = 20, 0.1
"""if of so much launched work such a share starts before its launch."""


LOST_MIN, LOST_FRAC = 5, 0.005
"""So many launches, and such a share of all, without a kernel are lost kernels."""


@dataclass(frozen=True)
class Sorted:
    """One rank's spans told apart. Both frames keep the row labels of the raw table and are in order of start."""

    work: pd.DataFrame
    host: pd.DataFrame
    on_cpu: bool
    cut: int
    before_launch: int
    clock_behind: int
    lost: int = 0


def sort_out(spans: pd.DataFrame, communicates: names.Communicates) -> Sorted:
    """Gives each span its kind, and work its `launch_ns`; mends or leaves out durations that cannot be.

    Adds `kind` and `launch_ns`, and to work `launch_lane` (the code of the launching call's lane, -1 if none).
    """
    order = np.argsort(spans["start_ns"].to_numpy(), kind="stable")
    spans = spans.take(order).assign(kind=_kinds(spans, communicates)[order])
    is_work = is_kind(spans, *WORK_KINDS)
    if not is_work.any():
        return _on_cpu(spans)
    work, host = _launched(spans[is_work], _on_their_stream(spans[~is_work]))
    lost = _lost(work, host)
    early = (work["end_ns"] < work["launch_ns"]).to_numpy()
    behind = early & _clock_behind(work)
    work, cut = _without_overruns(work[~early | behind] if early.any() else work)
    return Sorted(work, host, False, cut, int((early & ~behind).sum()), int(behind.sum()), lost)


def _kinds(spans: pd.DataFrame, communicates: names.Communicates) -> pd.Categorical:
    """Kinds by category and name, each pair looked at once."""
    categories, labels = spans["category"].cat.categories, spans["name"].cat.categories
    pairs = spans["category"].cat.codes.to_numpy(np.int64) * len(labels) + spans["name"].cat.codes.to_numpy(np.int64)
    kind_of = np.full(len(categories) * len(labels), -1, np.int8)
    seen = np.zeros(len(kind_of), bool)
    seen[pairs] = True
    for pair in np.flatnonzero(seen).tolist():
        kind = names.kind(categories[pair // len(labels)], labels[pair % len(labels)], communicates)
        kind_of[pair] = KINDS.index(kind)
    return _as_kinds(kind_of[pairs])


def _as_kinds(codes: npt.NDArray[np.int8]) -> pd.Categorical:
    return pd.Categorical.from_codes(codes, categories=pd.Index(KINDS, dtype=object), validate=False)


def is_kind(rows: pd.DataFrame, *kinds: str) -> Flags:
    """Which rows are of one of the kinds."""
    return np.isin(rows["kind"].cat.codes.to_numpy(), [KINDS.index(kind) for kind in kinds])


def _with_kind(rows: pd.DataFrame, where: Flags, kind: str) -> pd.Categorical:
    """The rows' kinds, with another one in some places."""
    return _as_kinds(np.where(where, np.int8(KINDS.index(kind)), rows["kind"].cat.codes.to_numpy()))


def _launched(work: pd.DataFrame, host: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Work and stream waits with their launches, joined by correlation; calls that launched work become `LAUNCH`."""
    ids, starts_ns = host["correlation"].to_numpy(), host["start_ns"].to_numpy()
    calls = np.flatnonzero(is_kind(host, RUNTIME, SYNCHRONIZE) & (ids != NO_ID))
    calls = calls[np.argsort(ids[calls], kind="stable")]  # by id, and of one id by start
    launcher = _first_with_id(work["correlation"].to_numpy(), ids[calls], calls)
    launched = np.zeros(len(host), bool)
    launched[launcher[launcher >= 0]] = True
    waits = np.flatnonzero(is_kind(host, STREAM_WAIT))
    wait_ns = np.full(len(host), NO_TIME)
    wait_ns[waits] = _at(_first_with_id(ids[waits], ids[calls], calls), starts_ns, NO_TIME)
    lanes = host["lane"].cat.codes.to_numpy()
    return (
        work.assign(launch_ns=_at(launcher, starts_ns, NO_TIME), launch_lane=_at(launcher, lanes, -1)),
        host.assign(kind=_with_kind(host, launched & is_kind(host, RUNTIME), LAUNCH), launch_ns=wait_ns),
    )


def _lost(work: pd.DataFrame, host: pd.DataFrame) -> int:
    """How many kernels must be missing: launches between others that led to none, unless a graph was captured then.

    Nought where they are so few that a call which failed explains them. Of all real traces at hand none lacks any.
    """
    labels, starts_ns = host["name"].cat.categories, host["start_ns"].to_numpy()
    launching = np.array([names.launches_kernel(name) for name in labels], bool)[host["name"].cat.codes]
    known_ns = work["launch_ns"].to_numpy()[work["launch_ns"].to_numpy() != NO_TIME]
    if not launching.any() or not len(known_ns):
        return 0
    launching &= (starts_ns >= known_ns.min()) & (starts_ns <= known_ns.max()) & ~_capturing(host)
    ids = host["correlation"].to_numpy()
    launching &= ids != NO_ID
    lost = int((launching & ~np.isin(ids, work["correlation"].to_numpy())).sum())
    return lost if lost >= max(LOST_MIN, LOST_FRAC * launching.sum()) else 0


def _capturing(host: pd.DataFrame) -> Flags:
    """Which calls are made while some stream is captured to a graph, whose kernels run later, and often."""
    which = np.array([names.capture(name) for name in host["name"].cat.categories], object)
    if not any(which):
        return np.zeros(len(host), bool)
    told = which[host["name"].cat.codes]
    return np.asarray(np.cumsum((told == "begin").astype(int) - (told == "end").astype(int)) > 0)


def _first_with_id(wanted: npt.NDArray[np.uint64], ids: npt.NDArray[np.uint64], places: Times) -> Times:
    """For each id that is wanted the place of its first occurrence in the ordered ids; -1 where there is none."""
    if not len(ids):
        return np.full(len(wanted), -1)
    found = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    return np.where(ids[found] == wanted, places[found], -1)


def _at(places: Times, values: npt.NDArray[np.integer[Any]], otherwise: int) -> npt.NDArray[Any]:
    """The values at the places, another where the place is -1."""
    return np.where(places >= 0, values[places], otherwise) if len(values) else np.full(len(places), otherwise)


def _on_their_stream(host: pd.DataFrame) -> pd.DataFrame:
    """Host rows with the waits of streams on the lane of the stream, which Kineto may write beside it."""
    waits = is_kind(host, STREAM_WAIT)
    if not waits.any():
        return host
    codes, lanes = host["lane"].cat.codes.to_numpy().copy(), host["lane"].cat.categories
    for code in np.unique(codes[waits]):
        process, _, thread = lanes[code].partition("/")
        beside = int(thread) - SYNC_LANE_OFFSET if thread.isdecimal() and len(thread) < 19 else -1
        if beside >= 0 and f"{process}/{beside}" in lanes:
            codes[waits & (codes == code)] = list(lanes).index(f"{process}/{beside}")
    return host.assign(lane=pd.Categorical.from_codes(codes, categories=lanes))


def _clock_behind(work: pd.DataFrame) -> Flags:
    """Work that seems to end before its launch only because the device's clock is a little behind the host's.

    Seen on V100 files: up to 53 us, for as many as 99 % of a file's kernels. So where many pieces of work start before
    their launch, being early by less than `CLOCK_BEHIND_NS` does not make them impossible.
    """
    lead_ns = work["launch_ns"].to_numpy() - work["start_ns"].to_numpy()
    launched = work["launch_ns"].to_numpy() != NO_TIME
    leading = launched & (lead_ns > 0)
    usual = launched.sum() >= CLOCK_MIN_WORK and leading.sum() >= CLOCK_MIN_FRAC * launched.sum()
    return leading & (lead_ns < CLOCK_BEHIND_NS) if usual else np.zeros(len(work), bool)


def _without_overruns(work: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Work whose impossible ends are cut at the next start on the same lane, and how many were."""
    order = np.lexsort((work["end_ns"].to_numpy(), work["start_ns"].to_numpy(), work["lane"].cat.codes.to_numpy()))
    lane = work["lane"].cat.codes.to_numpy()[order]
    start, end = work["start_ns"].to_numpy()[order], work["end_ns"].to_numpy()[order].copy()
    gap, overrun = start[1:] - start[:-1], end[:-1] - start[1:]
    impossible = (lane[1:] == lane[:-1]) & (overrun > OVERRUN_NS) & (overrun > OVERRUN_FACTOR * gap)
    if not impossible.any():
        return work, 0
    end[:-1] = np.where(impossible, start[1:], end[:-1])
    mended = np.empty_like(end)
    mended[order] = end
    return work.assign(end_ns=mended), int(impossible.sum())


def _on_cpu(spans: pd.DataFrame) -> Sorted:
    """Sorts a trace without device rows: gloo's collectives stand in for communication, operators for compute.

    The program's own threads compute; a thread on which gloo runs collectives, and that neither takes steps nor issues
    calls, is gloo's own. What a communication span contains on its thread is that call's work, not compute; but a
    handle's span (of gloo's send or receive) only lasts while the program does other things. Where annotations tell how
    long the program waits for such a call, these waits are its communication.
    """
    labels = spans["name"].cat.categories
    codes = spans["name"].cat.codes.to_numpy()
    is_gloo = np.array([names.is_gloo(name) for name in labels], bool)[codes]
    is_handle = np.array([names.operation(name) in ("send", "recv", "sendrecv") for name in labels], bool)[codes]
    issues = np.array([names.is_communication_call(name) for name in labels], bool)[codes]
    computes = np.array([names.is_dispatcher_operator(name) for name in labels], bool)[codes]
    own = np.array([name.startswith(("ProfilerStep#", "c10d::")) for name in labels], bool)[codes]
    annotated = is_kind(spans, ANNOTATION, OPERATOR)
    waits = np.array([names.awaited_transfer(name) is not None for name in labels], bool)[codes] & annotated
    collectives = is_gloo & ~is_handle & annotated
    comm = collectives | waits
    lanes = spans["lane"].cat.codes.to_numpy()
    gloo_lanes = np.setdiff1d(np.unique(lanes[collectives]), np.unique(lanes[own]))
    compute = computes & is_kind(spans, OPERATOR) & ~np.isin(lanes, gloo_lanes)
    communicating = (issues & annotated & ~(is_gloo & is_handle)) | waits
    compute &= ~_contained(spans, communicating, compute)
    spans = spans.assign(kind=_with_kind(spans, compute, COMPUTE), launch_ns=NO_TIME, launch_lane=-1)
    spans = spans.assign(kind=_with_kind(spans, comm, COMM))
    work = _without_what_they_contain(spans[comm | compute], spans[communicating])
    return Sorted(work, spans[~(comm | compute)], True, 0, 0, 0)


def _without_what_they_contain(work: pd.DataFrame, communicating: pd.DataFrame) -> pd.DataFrame:
    """The work, operators that call or wait for communication in the pieces that are left of them.

    DTensor's do (`aten::add` around `_c10d_functional::wait_tensor`). Each piece counts as a call.
    """
    compute = is_kind(work, COMPUTE)
    start, end = work["start_ns"].to_numpy(), work["end_ns"].to_numpy()
    lanes, theirs = work["lane"].cat.codes.to_numpy(), communicating["lane"].cat.codes.to_numpy()
    places: list[int] = []
    starts, ends = [], []
    for lane in np.intersect1d(lanes[compute], theirs):
        there = communicating[theirs == lane]
        cut = intervals.union(there["start_ns"].to_numpy(), there["end_ns"].to_numpy())
        first = np.minimum(np.searchsorted(cut.starts, start), len(cut) - 1)
        for place in np.flatnonzero(
            compute & (lanes == lane) & (cut.starts[first] >= start) & (cut.ends[first] <= end)
        ):
            left = intervals.subtract(intervals.union(start[place : place + 1], end[place : place + 1]), cut)
            places += [int(place)] * len(left)
            starts.append(left.starts)
            ends.append(left.ends)
    if not starts:
        return work
    pieces = work.iloc[places].assign(start_ns=np.concatenate(starts), end_ns=np.concatenate(ends))
    whole = np.ones(len(work), bool)
    whole[places] = False
    return pd.concat([work[whole], pieces]).sort_values("start_ns", kind="stable")


def _contained(spans: pd.DataFrame, outer: Flags, inner: Flags) -> Flags:
    """Which of the inner rows lie inside an outer row of their own lane."""
    start, end = spans["start_ns"].to_numpy(), spans["end_ns"].to_numpy()
    lanes, held = spans["lane"].cat.codes.to_numpy(), np.zeros(len(spans), bool)
    for lane in np.unique(lanes[outer]):
        cover = intervals.union(start[outer & (lanes == lane)], end[outer & (lanes == lane)])
        rows = np.flatnonzero(inner & (lanes == lane))
        if len(cover) and len(rows):
            place = np.searchsorted(cover.starts, start[rows], side="right") - 1
            held[rows] = (place >= 0) & (end[rows] <= cover.ends[place])
    return held


def copy_columns(work: pd.DataFrame, copies: pd.DataFrame) -> tuple[npt.NDArray[np.object_], pd.Series]:
    """Direction and bytes of each copy in the work; None and null for other work and where the file does not tell."""
    is_copy = is_kind(work, MEMORY)
    rows = work[is_copy]
    told = copies.reindex(rows.index)
    operation = np.full(len(work), None, dtype=object)
    operation[is_copy] = [
        names.copy_direction(name, *([direction] if isinstance(direction, str) else []))
        for name, direction in zip(rows["name"], told["direction"], strict=True)
    ]
    return operation, told["bytes"].astype("Int64").reindex(work.index)
