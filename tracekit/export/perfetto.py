"""One merged trace of all ranks on one clock, for Perfetto's UI (https://ui.perfetto.dev) and chrome://tracing.

In the Trace Event Format that Kineto writes, so that tracekit itself reads it back. Each rank is a process, named by
its place in the layout and sorted so that neighbours along the pipeline and in tensor groups stand together; its lanes
are threads. Communication carries its arguments, its wait and its transfer. A flow arrow joins the members of each
matched call, from the first to arrive to the last, and from sender to receiver. Counter tracks tell how many of a
rank's calls wait for another member, and on a process `job` how many ranks do. There, too, a track shows the critical
path: which work, on which rank, each step took as long as.

Perfetto drops a span that begins within another of its thread and ends after it. Such spans (kernels that overlap on
one stream, gloo's handles) stand on a further thread, named after their lane; read back, they are on a lane of its own.

Written rank by rank and in pieces: never more than one rank's tables are held.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from pathlib import Path

import numpy as np
import pandas as pd

from tracekit.analysis import Analysis
from tracekit.axes import AXES, SHORT
from tracekit.errors import NotMeasured, WrongUse
from tracekit.export.threads import Key, threads
from tracekit.export.trace_event import (
    CATEGORIES,
    CATEGORIES_ON_CPU,
    Progress,
    as_json,
    base_ns_of,
    call_arguments,
    lane_and_start,
    us,
    write_events,
)
from tracekit.intervals import EMPTY, Nanoseconds, union
from tracekit.model import NO_TIME, RankTables, Run
from tracekit.replay.path import critical_path
from tracekit.waiting import with_waits

SUFFIXES = (".json", ".json.gz")
JOB, FIRST_RANK = 1, 2
"""Process numbers: of the whole job's counters, and of rank 0. Number 0 has a meaning of its own in Perfetto."""
Calls = Mapping[tuple[str, int], str]
"""What is told of a call, as JSON without braces, by its lane and start."""


def write_perfetto(analysis: Analysis, file: str | os.PathLike[str], *, progress: Progress | None = None) -> int:
    """Writes the merged trace to a `.json` or `.json.gz` file; how many events it has. WrongUse for another name.

    The file appears when it is complete.
    """
    path = Path(file)
    if not path.name.endswith(SUFFIXES):
        raise WrongUse(f"{path}: a trace for Perfetto is a .json or a .json.gz file")
    return write_events(path, _head(analysis.run), trace_events(analysis, progress))


def _head(run: Run) -> dict[str, object]:
    backends = run.ranks["backend"].dropna().unique()
    told = {} if run.world_size is None else {"world_size": run.world_size}
    backend = {"backend": str(backends[0])} if len(backends) == 1 else {}
    return {"schemaVersion": 1, "baseTimeNanoseconds": base_ns_of(run), "distributedInfo": {**backend, **told}}


def trace_events(analysis: Analysis, progress: Progress | None = None) -> Iterator[str]:
    """The trace's events, each as its JSON text, one rank after another in the order of the layout."""
    run = with_waits(analysis.run)
    run = replace(run, calls=_with_arrows(run.calls))
    places = _places(analysis)
    base_ns = base_ns_of(run)
    yield from _job(run, base_ns)
    yield from _critical_path(analysis, base_ns)
    for nth, rank in enumerate(sorted(places, key=lambda rank: places[rank].order)):
        if progress:
            progress(nth, len(places), f"rank {rank}")
        yield from _rank(run, rank, nth, places[rank].words, base_ns)


@dataclass(frozen=True)
class Place:
    """Where a rank stands: for sorting, and in words."""

    order: tuple[int, ...]
    words: str


def _places(analysis: Analysis) -> dict[int, Place]:
    """The places of all ranks with files; without a layout, in order of rank."""
    ranks = sorted(set(analysis.run.ranks["rank"].tolist()))
    try:
        rows = analysis["places"]
    except NotMeasured:
        rows = pd.DataFrame(columns=["rank", "axis", "place"])
    told: dict[int, dict[str, int]] = {}
    for rank, axis, place in rows[["rank", "axis", "place"]].itertuples(index=False):
        told.setdefault(rank, {})[axis] = place
    return {rank: _place(told.get(rank, {}), rank) for rank in ranks}


def _place(stands: Mapping[str, int], rank: int) -> Place:
    words = " ".join(f"{SHORT[axis]} {stands[axis]}" for axis in AXES if axis in stands)
    return Place((*(stands.get(axis, 0) for axis in AXES), rank), f"rank {rank}" + (f" ({words})" if words else ""))


def _job(run: Run, base_ns: int) -> Iterator[str]:
    """The process of the whole job: how many ranks wait at a time."""
    yield _metadata("process_name", JOB, None, name="job")
    yield _metadata("process_sort_index", JOB, None, sort_index=-1)
    waits = [union(*_waits(calls)) for _, calls in run.calls.groupby(["rank", "window"])] or [EMPTY]
    starts, ends = (np.concatenate([getattr(spans, edge) for spans in waits]) for edge in ("starts", "ends"))
    yield from _counter("ranks waiting for another", JOB, starts, ends, base_ns)


def _critical_path(analysis: Analysis, base_ns: int) -> Iterator[str]:
    """The pieces of the critical path as a track of the job; nothing where the run cannot be replayed."""
    try:
        path = critical_path(analysis.replay)
    except NotMeasured:
        return
    columns = (path[name].tolist() for name in ("rank", "lane", "what", "start_ns", "end_ns"))
    for nth, (rank, lane, what, start_ns, end_ns) in enumerate(zip(*columns, strict=True)):
        told = f'"cat":"critical path","name":{as_json(f"rank {rank}: {what}")},"id":{nth + 1},"pid":{JOB},"tid":1'
        yield f'{{"ph":"b",{told},"ts":{us(start_ns - base_ns)},"args":{{"rank":{rank},"lane":{as_json(lane)}}}}}'
        yield f'{{"ph":"e",{told},"ts":{us(end_ns - base_ns)}}}'


def _rank(run: Run, rank: int, nth: int, words: str, base_ns: int) -> Iterator[str]:
    """A rank's process, in all its windows."""
    pid = FIRST_RANK + rank
    devices = run.ranks.loc[run.ranks["rank"] == rank, "device"]
    yield _metadata("process_name", pid, None, name=words)
    yield _metadata("process_labels", pid, None, labels=str(devices.iloc[0]))
    yield _metadata("process_sort_index", pid, None, sort_index=nth)
    taken: Mapping[Key, int] = {}
    for key in sorted(key for key in run.sources if key[0] == rank):
        one = run.rank(*key)
        tables = [_outer_first(rows) for rows in (one.work, one.host)]
        on = threads(tables, taken)
        yield from _thread_names(one, tables[0], {key: tid for key, tid in on.number.items() if key not in taken})
        yield from _window(one, tables, on.of_each, base_ns)
        taken = on.number


def _thread_names(one: RankTables, work: pd.DataFrame, new: Mapping[Key, int]) -> Iterator[str]:
    for (lane, further), tid in new.items():
        name = _lane_name(lane, one, work)
        told = f"{name} ({further + 1})" if further else name
        yield _metadata("thread_name", FIRST_RANK + one.rank, tid, name=told)


def _window(
    one: RankTables, tables: Sequence[pd.DataFrame], tids: Sequence[Sequence[int]], base_ns: int
) -> Iterator[str]:
    """What a rank does in one window, each table's rows on the threads of these numbers."""
    pid = FIRST_RANK + one.rank
    calls = dict(zip(lane_and_start(one.calls), call_arguments(one.calls), strict=True))
    told = (calls, calls if one.on_cpu else {})
    spans = [_spans(*each, one, pid, base_ns) for each in zip(tables, tids, told, strict=True)]
    for _, _, event in merge(*spans):  # outer ones first
        yield event
    yield from _counter("calls waiting", pid, *_waits(one.calls), base_ns)
    yield from _arrows(one.calls, pid, _thread_of_each_call(tables, tids), base_ns)


def _outer_first(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.iloc[np.lexsort((-rows["end_ns"].to_numpy(), rows["start_ns"].to_numpy()))]


def _waits(calls: pd.DataFrame) -> tuple[Nanoseconds, Nanoseconds]:
    """Where the calls' waits begin and end."""
    waiting = calls[(calls["wait_ns"] > 0).fillna(False)]
    begin = waiting["start_ns"].to_numpy()
    return begin, begin + waiting["wait_ns"].to_numpy(np.int64)


def _thread_of_each_call(tables: Sequence[pd.DataFrame], tids: Sequence[Sequence[int]]) -> dict[tuple[str, int], int]:
    """By lane and start the thread on which a span that may be a call's stands."""
    keys = [lane_and_start(rows) for rows in tables]
    return {
        key: tid
        for table, of_each in reversed(list(zip(keys, tids, strict=True)))
        for key, tid in zip(table, of_each, strict=True)
    }


def _lane_name(lane: str, one: RankTables, work: pd.DataFrame) -> str:
    process, _, thread = lane.partition("/")
    on_device = not one.on_cpu and lane in set(work["lane"].cat.categories)
    return f"device {process} stream {thread}" if on_device else f"thread {thread}"


def _spans(
    rows: pd.DataFrame, tids: Sequence[int], calls: Calls, one: RankTables, pid: int, base_ns: int
) -> Iterator[tuple[int, int, str]]:
    """The rows' events after start and negative end. All name their rank, by which a reader takes the file apart."""
    heads = _heads(rows, one)
    keys = lane_and_start(rows) if calls else [None] * len(rows)
    columns = zip(
        heads, tids, rows["start_ns"].tolist(), rows["end_ns"].tolist(),
        rows["correlation"].tolist(), rows["bytes"].fillna(-1).tolist(), keys, strict=True,
    )  # fmt: skip
    for head, tid, start_ns, end_ns, correlation, size, key in columns:
        told = f',"correlation":{correlation}' if correlation else ""
        told += f',"bytes":{size}' if size >= 0 else ""
        told += calls.get(key, "") if key else ""
        times = f'{us(start_ns - base_ns)},"dur":{us(end_ns - start_ns)}'
        where = f',"pid":{pid},"tid":{tid},"ts":{times}'
        yield start_ns, -end_ns, f'{head}{where},"args":{{"rank":{one.rank}{told}}}}}'


def _heads(rows: pd.DataFrame, one: RankTables) -> list[str]:
    """Phase, category and name of each row's event."""
    categories = CATEGORIES_ON_CPU if one.on_cpu else CATEGORIES
    kinds, labels = rows["kind"].cat.categories, [as_json(name) for name in rows["name"].cat.categories]
    pairs = list(zip(rows["kind"].cat.codes.tolist(), rows["name"].cat.codes.tolist(), strict=True))
    heads = {
        (kind, name): f'{{"ph":"X","cat":{as_json(categories[kinds[kind]])},"name":{labels[name]}'
        for kind, name in set(pairs)
    }
    return [heads[pair] for pair in pairs]


def _with_arrows(calls: pd.DataFrame) -> pd.DataFrame:
    """The calls with where an arrow between members begins (`s`), goes on (`t`) and ends (`f`), and when.

    Each end is within its call, and a nanosecond after the one before, by which a reader tells their order. What a
    program sends and only later waits for begins an arrow where it was sent.
    """
    shared = calls[calls["match"].notna() & calls.duplicated(["match"], keep=False)]
    shared = shared.assign(receives=shared["op"] == "recv").sort_values(["match", "receives", "start_ns", "rank"])
    turn, back = (shared.groupby("match").cumcount(ascending=up) for up in (True, False))
    sent_ns = shared["arrival_ns"].where(shared["op"] == "send")
    begin_ns = sent_ns.fillna(shared["start_ns"]).astype("int64")
    latest_ns = sent_ns.fillna(shared["end_ns"] - 1).astype("int64").clip(lower=begin_ns)
    at_ns = (begin_ns.groupby(shared["match"]).cummax() + turn).clip(upper=latest_ns)
    return calls.assign(
        phase=pd.Series(np.select([turn == 0, back == 0], ["s", "f"], "t"), shared.index, dtype="str").reindex(
            calls.index
        ),
        arrow_ns=at_ns.reindex(calls.index, fill_value=NO_TIME),
    )


def _arrows(calls: pd.DataFrame, pid: int, tids: Mapping[tuple[str, int], int], base_ns: int) -> Iterator[str]:
    """The rank's ends of the arrows between the members of its calls."""
    joined = calls[calls["phase"].notna()]
    ends = (joined[name].tolist() for name in ("match", "phase", "arrow_ns"))
    for match, phase, at_ns, key in zip(*ends, lane_and_start(joined), strict=True):
        binding = ',"bp":"e"' if phase == "f" else ""
        where = f'"pid":{pid},"tid":{tids[key]},"ts":{us(at_ns - base_ns)}'
        yield f'{{"ph":"{phase}","cat":"call","name":"call","id":{match},{where}{binding}}}'


def _counter(name: str, pid: int, starts: Nanoseconds, ends: Nanoseconds, base_ns: int) -> Iterator[str]:
    """A counter of how many of the spans there are at a time."""
    times = np.concatenate([starts, ends])
    at, place = np.unique(times, return_inverse=True)
    changes = np.bincount(place, np.repeat([1, -1], [len(starts), len(ends)]), len(at))
    head = f'{{"ph":"C","name":{as_json(name)},"pid":{pid},"ts":'
    for time, value in zip(at.tolist(), np.cumsum(changes).astype(int).tolist(), strict=True):
        yield f'{head}{us(time - base_ns)},"args":{{"waiting":{value}}}}}'


def _metadata(what: str, pid: int, tid: int | None, **args: object) -> str:
    thread = {} if tid is None else {"tid": tid}
    return as_json({"ph": "M", "name": what, "pid": pid, **thread, "args": args})
