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
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
import pandas as pd
from isal import igzip

from tracekit import model
from tracekit.analysis import Analysis
from tracekit.axes import ALL_RANKS, AXES, SHORT
from tracekit.errors import NotMeasured, WrongUse
from tracekit.intervals import EMPTY, Nanoseconds, union
from tracekit.model import NO_TIME, RankTables, Run
from tracekit.read import names
from tracekit.replay.path import critical_path
from tracekit.waiting import with_waits

SUFFIXES = (".json", ".json.gz")
PIECE = 20_000
"""Events that are written at once."""
BEFORE_NS = 3_600 * 10**9
"""So long before its first step the trace's time begins at most: hosts do something before, and no time is negative."""
JOB, FIRST_RANK = 1, 2
"""Process numbers: of the whole job's counters, and of rank 0. Number 0 has a meaning of its own in Perfetto."""
CATEGORIES = {
    model.COMPUTE: "kernel", model.COMM: "kernel", model.MEMORY: "gpu_memcpy", model.LAUNCH: "cuda_runtime",
    model.SYNCHRONIZE: "cuda_runtime", model.RUNTIME: "cuda_runtime", model.OPERATOR: "cpu_op",
    model.ANNOTATION: "user_annotation", model.PYTHON: "python_function", model.DATA_LOADING: "user_annotation",
    model.GARBAGE_COLLECTION: "user_annotation", model.STREAM_WAIT: "cuda_sync", model.DEVICE_SYNC: "cuda_sync",
    model.DEVICE_ANNOTATION: "gpu_user_annotation", model.OVERHEAD: "overhead", model.OTHER: "other",
}  # fmt: skip
CATEGORIES_ON_CPU = {**CATEGORIES, model.COMPUTE: "cpu_op", model.COMM: "user_annotation"}

CALL_COLUMNS = (
    *("op", "group", "group_ranks", "group_size", "seq", "dtype", "bytes", "peer", "match", "rank"),
    *("wait_ns", "transfer_ns"),
)

Progress = Callable[[int, int, str], None]
Calls = Mapping[tuple[str, int], str]
"""What is told of a call, as JSON without braces, by its lane and start."""


def write_perfetto(analysis: Analysis, file: str | os.PathLike[str], *, progress: Progress | None = None) -> int:
    """Writes the merged trace to a `.json` or `.json.gz` file; how many events it has. WrongUse for another name.

    The file appears when it is complete.
    """
    path = Path(file)
    if not path.name.endswith(SUFFIXES):
        raise WrongUse(f"{path}: a trace for Perfetto is a .json or a .json.gz file")
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    count = 0
    try:
        with _opened(beside, packed=path.name.endswith(".gz")) as sink:
            for events in _pieces(trace_events(analysis, progress)):
                sink.write((b",\n" if count else _head(analysis.run)) + ",\n".join(events).encode())
                count += len(events)
            sink.write(b"\n]}\n")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return count


def _opened(path: Path, *, packed: bool) -> BinaryIO:
    if not packed:
        return path.open("wb")
    sink: BinaryIO = igzip.open(path, "wb")  # type: ignore[no-untyped-call]
    return sink


def _pieces(events: Iterator[str]) -> Iterator[list[str]]:
    while piece := list(islice(events, PIECE)):
        yield piece


def _head(run: Run) -> bytes:
    backends = run.ranks["backend"].dropna().unique()
    told = {} if run.world_size is None else {"world_size": run.world_size}
    backend = {"backend": str(backends[0])} if len(backends) == 1 else {}
    head = {"schemaVersion": 1, "baseTimeNanoseconds": _base_ns(run), "distributedInfo": {**backend, **told}}
    return msgspec.json.encode(head)[:-1] + b',"traceEvents":[\n'


def _base_ns(run: Run) -> int:
    """Where the trace's own time begins, before all that a step or a call may hold."""
    firsts = [int(table["start_ns"].min()) for table in (run.steps, run.calls) if len(table)]
    return max(min(firsts, default=0) - BEFORE_NS, 0)


def trace_events(analysis: Analysis, progress: Progress | None = None) -> Iterator[str]:
    """The trace's events, each as its JSON text, one rank after another in the order of the layout."""
    run = with_waits(analysis.run)
    run = replace(run, calls=_with_arrows(run.calls))
    places = _places(analysis)
    order = sorted(run.sources, key=lambda key: (places[key[0]].order, key))
    base_ns = _base_ns(run)
    yield from _job(run, base_ns)
    yield from _critical_path(analysis, base_ns)
    for nth, key in enumerate(order):
        if progress:
            progress(nth, len(order), f"rank {key[0]}")
        yield from _rank(run.rank(*key), nth, places[key[0]].words, base_ns)


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
        told = f'"cat":"critical path","name":{_json(f"rank {rank}: {what}")},"id":{nth + 1},"pid":{JOB},"tid":1'
        yield f'{{"ph":"b",{told},"ts":{_us(start_ns - base_ns)},"args":{{"rank":{rank},"lane":{_json(lane)}}}}}'
        yield f'{{"ph":"e",{told},"ts":{_us(end_ns - base_ns)}}}'


def _rank(one: RankTables, nth: int, words: str, base_ns: int) -> Iterator[str]:
    pid = FIRST_RANK + one.rank
    yield _metadata("process_name", pid, None, name=words)
    yield _metadata("process_labels", pid, None, labels=one.device)
    yield _metadata("process_sort_index", pid, None, sort_index=nth)
    calls = dict(zip(_keys(one.calls), _call_arguments(one.calls), strict=True))
    tables = [_outer_first(rows) for rows in (one.work, one.host)]
    threads = _threads(tables)
    for (lane, further), tid in threads.number.items():
        name = _lane_name(lane, one, tables[0])
        yield _metadata("thread_name", pid, tid, name=f"{name} ({further + 1})" if further else name)
    told = (calls, calls if one.on_cpu else {})
    spans = [_spans(*each, one, pid, base_ns) for each in zip(tables, threads.of_each, told, strict=True)]
    for _, _, event in merge(*spans):  # outer ones first
        yield event
    yield from _counter("calls waiting", pid, *_waits(one.calls), base_ns)
    yield from _arrows(one.calls, pid, _thread_of_each_call(tables, threads), base_ns)


def _outer_first(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.iloc[np.lexsort((-rows["end_ns"].to_numpy(), rows["start_ns"].to_numpy()))]


def _waits(calls: pd.DataFrame) -> tuple[Nanoseconds, Nanoseconds]:
    """Where the calls' waits begin and end."""
    waiting = calls[(calls["wait_ns"] > 0).fillna(False)]
    begin = waiting["start_ns"].to_numpy()
    return begin, begin + waiting["wait_ns"].to_numpy(np.int64)


@dataclass(frozen=True)
class Threads:
    """The number of each lane's threads, its own (0) and further ones, and the number of each table's rows."""

    number: Mapping[tuple[str, int], int]
    of_each: Sequence[Sequence[int]]


def _threads(tables: Sequence[pd.DataFrame]) -> Threads:
    """Threads for all rows: within each, spans hold one another or are apart."""
    further = _further(tables)
    used = [list(zip(rows["lane"].tolist(), places, strict=True)) for rows, places in zip(tables, further, strict=True)]
    number: dict[tuple[str, int], int] = {}
    for lane, place in sorted({key for keys in used for key in keys}, key=lambda key: (key[1], key[0])):
        own = lane.rpartition("/")[2]
        tid = int(own) if own.isdecimal() and len(own) < 10 and not place else 0
        while tid < 1 or tid in number.values():
            tid = max(number.values(), default=0) + 1
        number[lane, place] = tid
    return Threads(number, [[number[key] for key in keys] for keys in used])


def _further(tables: Sequence[pd.DataFrame]) -> list[list[int]]:
    """For each row of the tables, outer ones first, on which further thread of its lane it finds a place."""
    places = [[0] * len(rows) for rows in tables]
    each = [
        zip(
            rows["start_ns"].tolist(),
            (-rows["end_ns"]).tolist(),
            [table] * len(rows),
            range(len(rows)),
            rows["lane"].tolist(),
            strict=True,
        )
        for table, rows in enumerate(tables)
    ]
    open_until: dict[tuple[str, int], list[int]] = defaultdict(list)
    for start_ns, end_ns, table, row, lane in merge(*each):
        while not _fits(open_until[lane, places[table][row]], start_ns, -end_ns):
            places[table][row] += 1
    return places


def _fits(open_until: list[int], start_ns: int, end_ns: int) -> bool:
    """Whether a span crosses none of the open ones of its thread, each inside the one before; if so, it is open too."""
    while open_until and open_until[-1] <= start_ns:
        open_until.pop()
    fits = not open_until or end_ns <= open_until[-1]
    if fits:
        open_until.append(end_ns)
    return fits


def _thread_of_each_call(tables: Sequence[pd.DataFrame], threads: Threads) -> dict[tuple[str, int], int]:
    """By lane and start the thread on which a span that may be a call's stands."""
    keys = [_keys(rows) for rows in tables]
    return {
        key: tid
        for table, of_each in reversed(list(zip(keys, threads.of_each, strict=True)))
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
    keys = _keys(rows) if calls else [None] * len(rows)
    columns = zip(
        heads, tids, rows["start_ns"].tolist(), rows["end_ns"].tolist(),
        rows["correlation"].tolist(), rows["bytes"].fillna(-1).tolist(), keys, strict=True,
    )  # fmt: skip
    for head, tid, start_ns, end_ns, correlation, size, key in columns:
        told = f',"correlation":{correlation}' if correlation else ""
        told += f',"bytes":{size}' if size >= 0 else ""
        told += calls.get(key, "") if key else ""
        times = f'{_us(start_ns - base_ns)},"dur":{_us(end_ns - start_ns)}'
        where = f',"pid":{pid},"tid":{tid},"ts":{times}'
        yield start_ns, -end_ns, f'{head}{where},"args":{{"rank":{one.rank}{told}}}}}'


def _heads(rows: pd.DataFrame, one: RankTables) -> list[str]:
    """Phase, category and name of each row's event."""
    categories = CATEGORIES_ON_CPU if one.on_cpu else CATEGORIES
    kinds, labels = rows["kind"].cat.categories, [_json(name) for name in rows["name"].cat.categories]
    pairs = list(zip(rows["kind"].cat.codes.tolist(), rows["name"].cat.codes.tolist(), strict=True))
    heads = {
        (kind, name): f'{{"ph":"X","cat":{_json(categories[kinds[kind]])},"name":{labels[name]}'
        for kind, name in set(pairs)
    }
    return [heads[pair] for pair in pairs]


def _keys(rows: pd.DataFrame) -> list[tuple[str, int]]:
    return list(zip(rows["lane"].tolist(), rows["start_ns"].tolist(), strict=True))


def _call_arguments(calls: pd.DataFrame) -> list[str]:
    """What is told of each call, as Kineto spells it, and what all ranks together tell about it."""
    columns = [_values(calls[name]) for name in CALL_COLUMNS]
    rows = (dict(zip(CALL_COLUMNS, values, strict=True)) for values in zip(*columns, strict=True))
    return ["".join(f',"{name}":{_json(told)}' for name, told in _told(row) if told not in (None, "")) for row in rows]


def _values(column: pd.Series) -> list[Any]:
    """The column's values, None where one is missing."""
    return [None if missing else value for value, missing in zip(column.tolist(), column.isna().tolist(), strict=True)]


def _told(call: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    yield "Collective name", call["op"]
    if call["group_size"] or call["group_ranks"] or call["group"] != ALL_RANKS:
        yield "Process Group Name", call["group"]
        yield "Process Group Ranks", call["group_ranks"]
        yield "Group size", call["group_size"]
    yield "Seq", call["seq"]
    yield "dtype", call["dtype"]
    yield from zip(("In msg nelems", "Out msg nelems"), _elements(call), strict=True)
    if call["peer"] is not None:
        ends = (call["rank"], call["peer"])
        yield from zip(("Src Rank", "Dst Rank"), ends if call["op"] == "send" else ends[::-1], strict=True)
    for name in ("match", "wait_ns", "transfer_ns"):
        yield name, call[name]


def _elements(call: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """How many elements go in and come out, where the size of the whole array and of an element are known."""
    width = names.DTYPE_BYTES.get(str(call["dtype"]).lower())
    if call["bytes"] is None or not width:
        return None, None
    whole, members = call["bytes"] // width, call["group_size"] or 1
    part = whole // members
    return (part if call["op"] == "all_gather" else whole), (part if call["op"] == "reduce_scatter" else whole)


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


def _arrows(calls: pd.DataFrame, pid: int, threads: Mapping[tuple[str, int], int], base_ns: int) -> Iterator[str]:
    """The rank's ends of the arrows between the members of its calls."""
    joined = calls[calls["phase"].notna()]
    columns = zip(
        joined["match"].tolist(), joined["phase"].tolist(), _keys(joined), joined["arrow_ns"].tolist(), strict=True
    )
    for match, phase, key, at_ns in columns:
        binding = ',"bp":"e"' if phase == "f" else ""
        where = f'"pid":{pid},"tid":{threads[key]},"ts":{_us(at_ns - base_ns)}'
        yield f'{{"ph":"{phase}","cat":"call","name":"call","id":{match},{where}{binding}}}'


def _counter(name: str, pid: int, starts: Nanoseconds, ends: Nanoseconds, base_ns: int) -> Iterator[str]:
    """A counter of how many of the spans there are at a time."""
    times = np.concatenate([starts, ends])
    at, place = np.unique(times, return_inverse=True)
    changes = np.bincount(place, np.repeat([1, -1], [len(starts), len(ends)]), len(at))
    head = f'{{"ph":"C","name":{_json(name)},"pid":{pid},"ts":'
    for time, value in zip(at.tolist(), np.cumsum(changes).astype(int).tolist(), strict=True):
        yield f'{head}{_us(time - base_ns)},"args":{{"waiting":{value}}}}}'


def _metadata(what: str, pid: int, tid: int | None, **args: object) -> str:
    thread = {} if tid is None else {"tid": tid}
    return _json({"ph": "M", "name": what, "pid": pid, **thread, "args": args})


def _us(time_ns: int) -> str:
    """Microseconds with all decimals, as text, since a float would lose some."""
    return f"{time_ns // 1000}.{time_ns % 1000:03d}"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
