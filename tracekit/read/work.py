"""What each span is: work or not, of which kind, launched when; and what cannot have been."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit import intervals
from tracekit.model import (
    ANNOTATION,
    COMM,
    COMPUTE,
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


@dataclass(frozen=True)
class Sorted:
    """One rank's spans told apart. Both frames keep the row labels of the raw table and are in order of start."""

    work: pd.DataFrame
    host: pd.DataFrame
    on_cpu: bool
    cut: int
    before_launch: int
    clock_behind: int


def sort_out(spans: pd.DataFrame, communicates: re.Pattern[str]) -> Sorted:
    """Gives each span its kind, and work its `launch_ns`; mends or leaves out durations that cannot be.

    Adds `kind`, and to work `launch_ns` and `launcher` (row label of the launching call, -1 if none).
    """
    spans = spans.iloc[np.argsort(spans["start_ns"].to_numpy(), kind="stable")]
    kinds = _kinds(spans, communicates)
    is_work = np.isin(kinds, WORK_KINDS)
    if not is_work.any():
        return _on_cpu(spans.assign(kind=kinds))
    spans = spans.assign(kind=kinds)
    work, host = _launched(spans[is_work], _on_their_stream(spans[~is_work]))
    early = (work["end_ns"] < work["launch_ns"]).to_numpy()
    behind = early & _clock_behind(work)
    work, cut = _without_overruns(work[~early | behind])
    work = work.assign(launch_ns=np.minimum(work["launch_ns"], work["start_ns"]))
    return Sorted(work, host, False, cut, int((early & ~behind).sum()), int(behind.sum()))


def _kinds(spans: pd.DataFrame, communicates: re.Pattern[str]) -> npt.NDArray[np.object_]:
    """Kinds by category and name, each pair looked at once."""
    categories, labels = spans["category"].cat.categories, spans["name"].cat.categories
    pairs = spans["category"].cat.codes.to_numpy(np.int64) * len(labels) + spans["name"].cat.codes.to_numpy(np.int64)
    kind_of = np.full(len(categories) * len(labels), "", dtype=object)
    seen = np.zeros(len(kind_of), bool)
    seen[pairs] = True
    for pair in np.flatnonzero(seen).tolist():
        kind_of[pair] = names.kind(categories[pair // len(labels)], labels[pair % len(labels)], communicates)
    return np.asarray(kind_of[pairs], object)


def _launched(work: pd.DataFrame, host: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Work and stream waits with their launches, joined by correlation; calls that launched work become `LAUNCH`."""
    calls = host[host["kind"].isin((RUNTIME, SYNCHRONIZE)) & (host["correlation"] != NO_ID)]
    calls = calls.drop_duplicates("correlation").sort_values("correlation")
    launch_ns, launcher = _joined(work, calls)
    launched = host["kind"].eq(RUNTIME) & np.isin(host.index.to_numpy(), launcher)
    wait_ns = np.where(host["kind"].eq(STREAM_WAIT), _joined(host, calls)[0], NO_TIME)
    host = host.assign(kind=host["kind"].mask(launched, LAUNCH), launch_ns=wait_ns)
    return work.assign(launch_ns=launch_ns, launcher=launcher), host


def _joined(rows: pd.DataFrame, calls: pd.DataFrame) -> tuple[Times, Times]:
    """For each row the start and the label of the call with its correlation; `NO_TIME` and -1 where there is none."""
    ids, wanted = calls["correlation"].to_numpy(), rows["correlation"].to_numpy()
    place = np.minimum(np.searchsorted(ids, wanted), max(len(ids) - 1, 0))
    found = (ids[place] == wanted) if len(ids) else np.zeros(len(rows), bool)
    launch_ns, launcher = np.full(len(rows), NO_TIME), np.full(len(rows), -1)
    launch_ns[found] = calls["start_ns"].to_numpy()[place[found]]
    launcher[found] = calls.index.to_numpy()[place[found]]
    return launch_ns, launcher


def _on_their_stream(host: pd.DataFrame) -> pd.DataFrame:
    """Host rows with the waits of streams on the lane of the stream, which Kineto may write beside it."""
    waits = host["kind"].eq(STREAM_WAIT).to_numpy()
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
    calls, is gloo's own. What a communication span contains on its thread is that call's work, not compute.
    """
    labels = spans["name"].cat.categories
    codes = spans["name"].cat.codes.to_numpy()
    is_gloo = np.array([names.is_gloo(name) for name in labels], bool)[codes]
    is_handle = np.array([names.operation(name) in ("send", "recv", "sendrecv") for name in labels], bool)[codes]
    issues = np.array([names.is_communication_call(name) for name in labels], bool)[codes]
    computes = np.array([names.is_dispatcher_operator(name) for name in labels], bool)[codes]
    own = np.array([name.startswith(("ProfilerStep#", "c10d::")) for name in labels], bool)[codes]
    annotated = spans["kind"].isin((ANNOTATION, OPERATOR)).to_numpy()
    comm = is_gloo & ~is_handle & annotated
    lanes = spans["lane"].cat.codes.to_numpy()
    gloo_lanes = np.setdiff1d(np.unique(lanes[comm]), np.unique(lanes[own]))
    compute = computes & spans["kind"].eq(OPERATOR).to_numpy() & ~np.isin(lanes, gloo_lanes)
    compute &= ~_contained(spans, issues & annotated, compute)
    kind = np.where(comm, COMM, np.where(compute, COMPUTE, spans["kind"].to_numpy(object)))
    spans = spans.assign(kind=kind)
    spans = spans.assign(launch_ns=NO_TIME, launcher=-1)
    return Sorted(spans[comm | compute], spans[~(comm | compute)], True, 0, 0, 0)


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
    is_copy = (work["kind"] == MEMORY).to_numpy()
    rows = work[is_copy]
    told = copies.reindex(rows.index)
    operation = np.full(len(work), None, dtype=object)
    operation[is_copy] = [
        names.copy_direction(name, *([direction] if isinstance(direction, str) else []))
        for name, direction in zip(rows["name"], told["direction"], strict=True)
    ]
    return operation, told["bytes"].astype("Int64").reindex(work.index)
