"""What all traces that are written share: Chrome's Trace Event Format as Kineto writes it, in pieces."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import pandas as pd
from isal import igzip

from tracekit import model
from tracekit.axes import ALL_RANKS
from tracekit.model import Run
from tracekit.read import names

PIECE = 20_000
"""Events that are written at once."""
BEFORE_NS = 3_600 * 10**9
"""So long before its first step the trace's time begins at most: hosts do something before, and no time is negative."""
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


def write_events(path: Path, head: Mapping[str, object], events: Iterator[str]) -> int:
    """Writes a trace (packed where its name ends in .gz), which appears once it is complete; how many events it has."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    count = 0
    try:
        with _opened(beside, packed=path.name.endswith(".gz")) as sink:
            sink.write(f'{json.dumps(head)[:-1]}, "traceEvents":[\n'.encode())
            for piece in _pieces(events):
                sink.write((",\n" if count else "").encode() + ",\n".join(piece).encode())
                count += len(piece)
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


def base_ns_of(run: Run) -> int:
    """Where the trace's own time begins, before all that a step or a call may hold."""
    firsts = [int(table["start_ns"].min()) for table in (run.steps, run.calls) if len(table)]
    return max(min(firsts, default=0) - BEFORE_NS, 0)


def lane_and_start(rows: pd.DataFrame) -> list[tuple[str, int]]:
    """What a span and the call that it may be have in common."""
    return list(zip(rows["lane"].tolist(), rows["start_ns"].tolist(), strict=True))


def call_arguments(calls: pd.DataFrame) -> list[str]:
    """What is told of each call, as Kineto spells it, and what all ranks together tell about it."""
    columns = [_values(calls[name]) for name in CALL_COLUMNS]
    rows = (dict(zip(CALL_COLUMNS, values, strict=True)) for values in zip(*columns, strict=True))
    return [
        "".join(f',"{name}":{as_json(told)}' for name, told in _told(row) if told not in (None, "")) for row in rows
    ]


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


def us(time_ns: int) -> str:
    """Microseconds with all decimals, as text, since a float would lose some."""
    whole, rest = divmod(abs(time_ns), 1000)
    return f"{'-' if time_ns < 0 else ''}{whole}.{rest:03d}"


def as_json(value: object) -> str:
    return msgspec.json.encode(value).decode()
