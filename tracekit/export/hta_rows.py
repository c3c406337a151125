"""One rank's events as HolisticTraceAnalysis (HTA) would find them in a file, as a table and as the file's text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit import model
from tracekit.export.trace_event import (
    CATEGORIES,
    CATEGORIES_ON_CPU,
    as_json,
    base_ns_of,
    call_arguments,
    lane_and_start,
    us,
)
from tracekit.model import WORK_KINDS, RankTables, Run
from tracekit.read.work import SYNC_LANE_OFFSET

ON_A_STREAM = (*WORK_KINDS, model.STREAM_WAIT, model.DEVICE_SYNC)
PROFILER = "Trace"
"""The category of the profiler's own span, which HTA leaves out."""
BANDWIDTH = "memory bandwidth (GB/s)"
_REFINED = (
    ("cuda_runtime", "cuda_driver", re.compile(r"cu[A-Z]")),
    ("cuda_runtime", "mtia_runtime", re.compile("runFunction")),
    ("gpu_memcpy", "gpu_memset", re.compile("(hip)?Memset")),
    ("other", PROFILER, re.compile("PyTorch Profiler")),
)
"""Categories of one kind that only the name tells apart."""


def rows_of(run: Run, rank: int, window: int) -> pd.DataFrame:
    """A rank's events, outer ones first, with their place in the file as index; see `_columns` for the rest.

    Times are on the run's one clock but on the file's own grid of microseconds, so that rounding to them, as HTA does,
    gives what HTA makes of the file itself.
    """
    one = run.rank(rank, window)
    rows = one.events
    rows = rows.iloc[np.lexsort((-rows["end_ns"].to_numpy(), rows["start_ns"].to_numpy()))].reset_index(drop=True)
    columns = _columns(rows, one, _off_grid_ns(run, rank, window) - _whole_us(base_ns_of(run)))
    processes = columns["pid"].nunique()
    return columns.set_axis(pd.RangeIndex(processes, processes + len(rows)))


def _columns(rows: pd.DataFrame, one: RankTables, moved_ns: int) -> pd.DataFrame:
    """`start_ns` and `end_ns` count from the trace's base; `key` finds a call; -1 is none in the other columns."""
    processes, threads = _halves(rows["lane"])
    on_stream = rows["kind"].isin(ON_A_STREAM).to_numpy() & (not one.on_cpu)
    return pd.DataFrame(
        {
            "cat": _categories(rows, one),
            "name": rows["name"],
            "pid": processes,
            "tid": threads,
            "start_ns": rows["start_ns"] + moved_ns,
            "end_ns": rows["end_ns"] + moved_ns,
            "stream": np.where(on_stream, _streams(rows["lane"]), -1),
            "correlation": _correlations(rows, on_stream),
            "bytes": rows["bytes"].fillna(-1).astype("int64"),
            "key": _keys(rows, one),
        }
    )


def _keys(rows: pd.DataFrame, one: RankTables) -> list[tuple[str, int] | None]:
    """Lane and start of what a call may be: on a device its work, not the annotation around that."""
    calls = rows["kind"].isin(WORK_KINDS).to_numpy() | one.on_cpu
    return [key if call else None for key, call in zip(lane_and_start(rows), calls.tolist(), strict=True)]


def _off_grid_ns(run: Run, rank: int, window: int) -> int:
    """How far the common clock's correction moved the file's microseconds off their grid, half of one at most."""
    mine = run.ranks[(run.ranks["rank"] == rank) & (run.ranks["window"] == window)]
    offset_ns = int(mine["clock_offset_ns"].fillna(0).iloc[0])
    return offset_ns - 1000 * round(offset_ns / 1000)


def _whole_us(time_ns: int) -> int:
    return time_ns // 1000 * 1000


def _categories(rows: pd.DataFrame, one: RankTables) -> pd.Categorical:
    """Kineto's category of each event, by its kind and name, each pair looked at once."""
    kinds, names = rows["kind"].cat.categories, rows["name"].cat.categories
    pairs = rows["kind"].cat.codes.to_numpy(np.int64) * len(names) + rows["name"].cat.codes.to_numpy(np.int64)
    seen, place = np.unique(pairs, return_inverse=True)
    known = CATEGORIES_ON_CPU if one.on_cpu else CATEGORIES
    told = [_category(known[kinds[pair // len(names)]], names[pair % len(names)]) for pair in seen.tolist()]
    categories = sorted(set(told))
    codes = np.array([categories.index(category) for category in told], np.int32)
    return pd.Categorical.from_codes(codes[place], categories=pd.Index(categories, dtype=object))


def _category(category: str, name: str) -> str:
    found = (finer for coarse, finer, pattern in _REFINED if coarse == category and pattern.match(name))
    return next(found, category)


def _halves(lanes: pd.Series) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Process and thread of each lane, as numbers where all are."""
    split = [lane.partition("/") for lane in lanes.cat.categories]
    codes = lanes.cat.codes.to_numpy()
    processes, threads = (_numbers([parts[which] for parts in split])[codes] for which in (0, 2))
    return processes, threads


def _numbers(texts: list[str]) -> npt.NDArray[Any]:
    values = [int(text) if re.fullmatch(r"-?\d{1,18}", text) else text for text in texts]
    alike = all(isinstance(value, int) for value in values)
    return np.array(values, dtype="int64" if alike else object)


def _streams(lanes: pd.Series) -> npt.NDArray[Any]:
    threads = [lane.rpartition("/")[2] for lane in lanes.cat.categories]
    told = [int(thread) if thread.isdecimal() and len(thread) < 10 else -1 for thread in threads]
    streams = [stream - SYNC_LANE_OFFSET if stream >= SYNC_LANE_OFFSET else stream for stream in told]
    return np.array(streams, dtype="int64")[lanes.cat.codes.to_numpy()]


def _correlations(rows: pd.DataFrame, on_stream: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """The correlation, within int64; none is 0 for work, whose launch is not in the file, and else -1."""
    work = rows["kind"].isin(WORK_KINDS).to_numpy() & on_stream
    ids = (rows["correlation"].to_numpy() & np.uint64(2**63 - 1)).astype("int64")
    return np.where((ids == 0) & ~work, -1, ids)


def head_of(run: Run, rank: int, window: int) -> dict[str, object]:
    """What a rank's file says of itself before its events; HTA finds a file's rank here."""
    mine = run.ranks[(run.ranks["rank"] == rank) & (run.ranks["window"] == window)].iloc[0]
    told = {"backend": mine["backend"], "rank": rank, "world_size": mine["world_size"]}
    whose = {name: value if name == "backend" else int(value) for name, value in told.items() if pd.notna(value)}
    memory = mine["device_memory_bytes"]
    size = {"totalGlobalMem": int(memory)} if pd.notna(memory) else {}
    return {
        "schemaVersion": 1,
        "distributedInfo": whose,
        "deviceProperties": [] if mine["device"] == "cpu" else [{"id": 0, "name": mine["device"], **size}],
        "baseTimeNanoseconds": _whole_us(base_ns_of(run)),
    }


def events_of(rows: pd.DataFrame, calls: pd.DataFrame) -> Iterator[str]:
    """The JSON text of each event of the file, in the order of the rows' index; names of processes come first."""
    begin = us(int(rows["start_ns"].min())) if len(rows) else "0"
    for process, streams in rows.groupby("pid", sort=False)["stream"]:
        named = f'"name":"process_name","args":{{"name":"{"device" if (streams >= 0).any() else "host"}"}}'
        yield f'{{"ph":"M",{named},"pid":{as_json(process)},"tid":0,"ts":{begin}}}'
    told = dict(zip(lane_and_start(calls), call_arguments(calls), strict=True))
    texts = {name: {one: as_json(one) for one in rows[name].cat.categories} for name in ("cat", "name")}
    columns = ("cat", "name", "pid", "tid", "start_ns", "end_ns", "stream", "correlation", "bytes", "key")
    for cat, name, pid, tid, start_ns, end_ns, stream, correlation, size, key in zip(
        *(rows[column].tolist() for column in columns), strict=True
    ):
        args = _arguments(stream, correlation, size, end_ns - start_ns) + told.get(key, "")
        where = f'"pid":{as_json(pid)},"tid":{as_json(tid)},"ts":{us(start_ns)},"dur":{us(end_ns - start_ns)}'
        yield (
            f'{{"ph":"X","cat":{texts["cat"][cat]},"name":{texts["name"][name]},{where},"args":{{{args.lstrip(",")}}}}}'
        )


def _arguments(stream: int, correlation: int, size: int, length_ns: int) -> str:
    args = f',"stream":{stream}' if stream >= 0 else ""
    args += f',"correlation":{correlation}' if correlation >= 0 else ""
    args += f',"bytes":{size}' if size >= 0 else ""
    return args + (f',"{BANDWIDTH}":{size / length_ns}' if size >= 0 and length_ns else "")
