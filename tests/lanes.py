"""Runs drawn as text: one character is one microsecond, one line is one lane, and the answer is counted by eye.

    step       000000111111               windows of all ranks: step 0 is [0, 6), step 1 is [6, 12) us
    0/main     a.b...SS....               rank 0, a host thread: launches `a` and `b`, then a synchronising call
    0/7        .CCC..CCCC..  by=ab        rank 0, stream 7: two kernels, launched by `a` and by `b`
    0/20       ...NNnn.....  op=all_gather group=dp bytes=800
    1/7        CCCC........               rank 1

A label is `rank/stream` (a number) or `rank/thread` (a word); `rank.window/...` tells several windows of a rank. `.` is
nothing. A run of one letter is one span; to set two spans side by side, write the second in small letters on a stream
(`CCcc`), on a thread put it on another line with the same label, as for nested operators.

On a stream: C computes, N communicates, M copies, `!` is a compute kernel of no length, W is a wait for another stream
(drawn where the host issued it; use a second line with the same label where the stream is at work then).
On a thread: small letters launch, S synchronises, D loads data, G collects garbage, R is another runtime call, O an
operator, A an annotation, P Python, V the profiler's overhead; C and N are the work of a rank without streams, which is
a CPU rank. There `op=send` and `op=recv` are lifetimes of handles: a call, but no work.
`0/memory 1.3.2` are allocator events: the digit is what is then allocated, in bytes.

After the cells, `key=value`: `by` one launch letter a kernel (`-` for none), `name`, `op` (of a collective or a copy),
`group`, `bytes`, `seq`, `peer`, `size` (of the group); `incomplete` the steps that are, on a `step` line; `reserved`,
`device`, the device's `capacity` and the `unit` of all these bytes on a `memory` line. `run` matches the n-th call of
a group and operation of each rank that draws the group (of two ranks that name each other as `peer`, for sends and
receives), except on a line with `match=none`.
`step` without a rank holds for all ranks, `0/step` for one. Without either, step 0 is from a rank's first work to its
last, and a rank without work has no step.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import pandas as pd

from tracekit import model
from tracekit.model import Run

US = 1000
HOST_PID = 1000
DEVICE_KINDS = {"C": model.COMPUTE, "N": model.COMM, "M": model.MEMORY, "!": model.COMPUTE, "W": model.STREAM_WAIT}
HOST_KINDS = {
    "S": model.SYNCHRONIZE, "D": model.DATA_LOADING, "G": model.GARBAGE_COLLECTION, "R": model.RUNTIME,
    "O": model.OPERATOR, "V": model.OVERHEAD, "A": model.ANNOTATION, "P": model.PYTHON, "C": model.COMPUTE,
    "N": model.COMM,
}  # fmt: skip
OPERATION = {"N": "all_reduce", "M": "host_to_device"}
NO_TRANSFER = ("send", "recv")
LINE = re.compile(r"(?:(\d+)(?:\.(\d+))?/)?(\w+)\s+(\S+)((?:\s+\w+=\S+)*)")


@dataclass(frozen=True)
class Line:
    """One line of a drawing; `rank` is None where it holds for all ranks."""

    rank: int | None
    window: int
    label: str
    cells: str
    options: dict[str, str]

    @property
    def on_device(self) -> bool:
        return self.label.isdigit()


@dataclass(frozen=True)
class Bar:
    """One span of a drawing, which of its line's spans it is, and when it was launched."""

    line: Line
    letter: str
    kind: str
    start_ns: int
    end_ns: int
    launch_ns: int
    correlation: int

    @property
    def operation(self) -> str | None:
        return self.line.options.get("op", OPERATION.get(self.letter))

    @property
    def is_call(self) -> bool:
        return self.letter == "N"

    @property
    def is_work(self) -> bool:
        return self.kind in model.WORK_KINDS and (self.line.on_device or self.operation not in NO_TRANSFER)

    @property
    def bytes(self) -> int | None:
        return int(self.line.options["bytes"]) if "bytes" in self.line.options else None


@dataclass(frozen=True)
class Rank:
    """All that a drawing says of one rank in one window."""

    rank: int
    window: int
    lines: list[Line]
    threads: list[str]
    bars: list[Bar]
    steps: list[tuple[int, int, int, bool]]

    @property
    def on_cpu(self) -> bool:
        return not any(line.on_device for line in self.lines)

    @property
    def memory(self) -> Iterator[tuple[int, str, int, int]]:
        """Allocator events: when, on which device, allocated and reserved bytes."""
        for line in self.lines:
            for at, cell in enumerate(line.cells if line.label == "memory" else ""):
                if cell != ".":
                    unit, device = int(line.options.get("unit", "1")), line.options.get("device", "cuda:0")
                    yield at * US, device, int(cell) * unit, int(line.options.get("reserved", "9")) * unit

    @property
    def capacity(self) -> int | None:
        """The device's memory, where a `memory` line tells it."""
        told = [line.options for line in self.lines if "capacity" in line.options]
        return int(told[0]["capacity"]) * int(told[0].get("unit", "1")) if told else None

    def lane(self, line: Line) -> tuple[int, int]:
        """Process and thread (device and stream) of a line."""
        return (0, int(line.label)) if line.on_device else (HOST_PID, 1 + self.threads.index(line.label))


@dataclass(frozen=True)
class Drawn:
    """One rank's large tables, held in memory."""

    tables: dict[str, pd.DataFrame] = field(repr=False)

    def open(self, name: str) -> pd.DataFrame:
        return self.tables[name]


def run(drawing: str) -> Run:
    """The run that the drawing shows."""
    ranks = _ranks(drawing)
    world = len({one.rank for one in ranks})
    return Run(
        path="drawing",
        ranks=model.table(
            model.RANKS,
            [
                (
                    *(one.rank, one.window, "drawing", "host", "cpu" if one.on_cpu else "cuda:0"),
                    *("gloo" if one.on_cpu else "nccl", world, 0, 0, None, len(one.bars), 0, one.capacity),
                )
                for one in ranks
            ],
        ),
        steps=model.table(model.STEPS, [(one.rank, one.window, *step) for one in ranks for step in one.steps]),
        calls=_matched([_call(one, bar) for one in ranks for bar in one.bars if bar.is_call]),
        notes=model.table(model.NOTES),
        sources={(one.rank, one.window): _tables(one) for one in ranks},
    )


def kineto(drawing: str, folder: Path) -> list[Path]:
    """Kineto files of the drawing, one a rank and window, in `folder`."""
    ranks = _ranks(drawing)
    files = []
    for one in ranks:
        file = folder / f"rank{one.rank}_window{one.window}.json"
        file.write_text(json.dumps(_kineto(one, len({other.rank for other in ranks})), indent=1))
        files.append(file)
    return files


def _ranks(drawing: str) -> list[Rank]:
    lines = [_line(text) for text in drawing.splitlines() if text.strip()]
    keys = sorted({(line.rank, line.window) for line in lines if line.rank is not None})
    return [
        _rank(*key, [line for line in lines if line.rank is None or (line.rank, line.window) == key]) for key in keys
    ]


def _line(text: str) -> Line:
    parts = LINE.fullmatch(text.strip())
    if not parts:
        raise ValueError(f"no lane: {text!r}")
    rank, window, label, cells, options = parts.groups()
    pairs = (option.split("=", 1) for option in options.split())
    return Line(None if rank is None else int(rank), int(window or 0), label, cells, dict(pairs))


def _rank(rank: int, window: int, all_lines: list[Line]) -> Rank:
    lines = [line for line in all_lines if line.rank is None or (line.rank, line.window) == (rank, window)]
    lanes = [line for line in lines if line.label not in ("step", "memory")]
    threads = list(dict.fromkeys(line.label for line in lanes if not line.on_device))
    launches = {
        letter: start * US
        for line in lanes if not line.on_device
        for letter, start, _ in _spans(line.cells) if letter.islower()
    }  # fmt: skip
    bars = [bar for line in lanes for bar in _bars(line, launches)]
    bars.sort(key=lambda bar: bar.start_ns)
    return Rank(rank, window, lines, threads, bars, _steps(lines, [bar for bar in bars if bar.is_work]))


def _spans(cells: str) -> Iterator[tuple[str, int, int]]:
    """Runs of one letter, with start and end in cells; every `!` for itself, without length."""
    at = 0
    for letter, run_of_it in groupby(cells):
        long = len(list(run_of_it))
        if letter == "!":
            yield from ((letter, at + i, at + i) for i in range(long))
        elif letter != ".":
            yield letter, at, at + long
        at += long


def _bars(line: Line, launches: dict[str, int]) -> Iterator[Bar]:
    kinds = DEVICE_KINDS if line.on_device else HOST_KINDS
    for nth, (cell, start, end) in enumerate(_spans(line.cells)):
        launch = line.options.get("by", "")[nth : nth + 1].strip("-")
        letter, kind = cell.upper(), kinds.get(cell.upper())
        if cell.islower() and not line.on_device:
            letter, kind, launch = "", model.LAUNCH, cell
        if kind is None:
            raise ValueError(f"no {cell!r} on a {'stream' if line.on_device else 'thread'}: {line.cells}")
        when = launches[launch] if launch and line.on_device else model.NO_TIME
        yield Bar(line, letter, kind, start * US, end * US, when, ord(launch) if launch else 0)


def _steps(lines: list[Line], work: list[Bar]) -> list[tuple[int, int, int, bool]]:
    rulers = sorted((line for line in lines if line.label == "step"), key=lambda line: line.rank is None)
    if rulers:
        incomplete = rulers[0].options.get("incomplete", "")
        spans = _spans(rulers[0].cells)
        return [(int(step), start * US, end * US, step not in incomplete) for step, start, end in spans]
    if not work:
        return []
    return [(0, min(bar.start_ns for bar in work), max(bar.end_ns for bar in work), True)]


def _step_at(one: Rank, time_ns: int) -> int:
    return next((step for step, start, end, _ in one.steps if start <= time_ns < end), model.NO_STEP)


def _step_of(one: Rank, bar: Bar) -> int:
    return _step_at(one, bar.start_ns if bar.launch_ns == model.NO_TIME else bar.launch_ns)


def _lane(one: Rank, bar: Bar) -> str:
    return "{}/{}".format(*one.lane(bar.line))


def _tables(one: Rank) -> Drawn:
    rows = {True: [], False: []}
    for bar in one.bars:
        rows[bar.is_work].append(
            (
                *(bar.kind, _name(one, bar), _lane(one, bar), _step_of(one, bar), bar.start_ns, bar.end_ns),
                *(bar.launch_ns, bar.correlation, bar.operation, bar.bytes, bar.line.options.get("shape")),
            )
        )
    memory, before = [], 0
    for at, device, allocated, reserved in one.memory:
        memory.append((at, device, allocated - before, allocated, reserved))
        before = allocated
    return Drawn({
        "work": model.table(model.EVENTS, rows[True]), "host": model.table(model.EVENTS, rows[False]),
        "allocations": model.table(model.ALLOCATIONS, memory),
    })  # fmt: skip


def _call(one: Rank, bar: Bar) -> tuple[object, ...]:
    options = bar.line.options
    return (
        *(one.rank, one.window, _step_of(one, bar), options.get("group", "default"), bar.operation),
        *(int(options["seq"]) if "seq" in options else None, bar.bytes, "Float", "", "", _lane(one, bar)),
        *(bar.start_ns, bar.end_ns, _whole(options, "peer"), None, options.get("match", "order"), ""),
        *(_whole(options, "size"), "", bar.is_work, None),
    )


def _whole(options: dict[str, str], name: str) -> int | None:
    return int(options[name]) if name in options else None


def _matched(rows: list[tuple[object, ...]]) -> pd.DataFrame:
    """The calls as a table, those that are each rank's n-th of their kind being one call of all ranks in the group."""
    calls = model.table(model.CALLS, rows)
    members = calls.groupby(["window", "group"])["rank"].agg(set)
    turn: Counter[tuple[object, ...]] = Counter()
    found: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for index, call in calls[calls["how"] == "order"].sort_values("start_ns").iterrows():
        kind, ranks = _kind_and_ranks(call, members[call["window"], call["group"]])
        key = (call["window"], call["group"], kind, *sorted(ranks))
        found[(*key, turn[(call["rank"], *key)])].append(index)
        turn[(call["rank"], *key)] += 1
    whole = [indices for key, indices in found.items() if len(indices) == len(key) - 4 > 1]
    number = {index: match for match, indices in enumerate(whole) for index in indices}
    match = pd.array([number.get(index) for index in calls.index], "Int64")
    return calls.assign(match=match, how=calls["how"].where(pd.notna(match), "none"))


def _kind_and_ranks(call: pd.Series, members: set[int]) -> tuple[object, set[int]]:
    """What tells a call apart from others of its members, and these."""
    if call["op"] not in NO_TRANSFER or pd.isna(call["peer"]):
        return call["op"], members
    sender = call["rank"] if call["op"] == "send" else call["peer"]
    return f"from {sender}", {call["rank"], call["peer"]}


# Kineto. The names are those that PyTorch, CUDA, NCCL and gloo write.

NCCL = {
    "all_reduce": ("AllReduce_Sum_f32_RING_LL", "allreduce"),
    "all_gather": ("AllGather_RING_LL", "_allgather_base"),
    "reduce_scatter": ("ReduceScatter_Sum_f32_RING_LL", "_reduce_scatter_base"),
    "broadcast": ("Broadcast_RING_LL", "broadcast"),
    "all_to_all": ("SendRecv", "all_to_allv"),
    "send": ("SendRecv", "send"),
    "recv": ("SendRecv", "recv"),
}
COPIES = {
    "host_to_device": "Memcpy HtoD (Pageable -> Device)",
    "device_to_host": "Memcpy DtoH (Device -> Pageable)",
    "device_to_device": "Memcpy DtoD (Device -> Device)",
    "set": "Memset (Device)",
}
CATEGORY_AND_NAME = {
    model.STREAM_WAIT: ("cuda_sync", "Stream Wait Event"),
    model.LAUNCH: ("cuda_runtime", "cudaLaunchKernel"),
    model.SYNCHRONIZE: ("cuda_runtime", "cudaDeviceSynchronize"),
    model.RUNTIME: ("cuda_runtime", "cudaEventQuery"),
    model.DATA_LOADING: ("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
    model.GARBAGE_COLLECTION: ("user_annotation", "Python GC"),
    model.OPERATOR: ("cpu_op", "aten::mm"),
    model.ANNOTATION: ("user_annotation", "my_annotation"),
    model.PYTHON: ("python_function", "train.py(1): step"),
    model.OVERHEAD: ("overhead", "Activity Buffer Request"),
}


def _nccl(bar: Bar) -> tuple[str, str]:
    """How NCCL names the kernel, and PyTorch the call."""
    return NCCL.get(str(bar.operation), ("SendRecv", str(bar.operation)))


def _category_and_name(one: Rank, bar: Bar) -> tuple[str, str]:
    if bar.is_call:
        on_device = ("kernel", f"ncclDevKernel_{_nccl(bar)[0]}(ncclDevKernelArgsStorage<4096ul>)")
        return ("user_annotation", f"gloo:{bar.operation}") if one.on_cpu else on_device
    if bar.kind == model.MEMORY:
        return ("gpu_memset" if bar.operation == "set" else "gpu_memcpy"), COPIES[str(bar.operation)]
    if bar.kind == model.COMPUTE:
        return ("cpu_op", "aten::mm") if one.on_cpu else ("kernel", "ampere_sgemm_128x64_tn")
    return CATEGORY_AND_NAME[bar.kind]


def _name(one: Rank, bar: Bar) -> str:
    return bar.line.options.get("name") or _category_and_name(one, bar)[1]


def _kineto(one: Rank, world_size: int) -> dict[str, object]:
    main = (HOST_PID, 1)
    events = [_event("user_annotation", f"ProfilerStep#{s}", main, t0, t1, {}) for s, t0, t1, _ in one.steps]
    for bar in one.bars:
        arguments = _arguments(bar, world_size)
        category = _category_and_name(one, bar)[0]
        events.append(_event(category, _name(one, bar), one.lane(bar.line), bar.start_ns, bar.end_ns, arguments))
    for at, device, allocated, reserved in one.memory:
        kind, _, number = device.partition(":")
        arguments = {
            "Device Type": 1 if kind == "cuda" else 0, "Device Id": int(number or -1), "Bytes": 0,
            "Total Allocated": allocated, "Total Reserved": reserved,
        }  # fmt: skip
        event = _event("cpu_instant_event", "[memory]", main, at, at, arguments)
        events.append({**event, "ph": "i", "s": "t"})
    backend = "gloo" if one.on_cpu else "nccl"
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "totalGlobalMem": one.capacity}] if one.capacity else [],
        "distributedInfo": {"backend": backend, "rank": one.rank, "world_size": world_size},
        "traceEvents": events,
    }


def _event(
    category: str, name: str, lane: tuple[int, int], start_ns: int, end_ns: int, arguments: dict[str, object]
) -> dict[str, object]:
    times = {"ts": start_ns / US, "dur": (end_ns - start_ns) / US}
    return {"ph": "X", "cat": category, "name": name, "pid": lane[0], "tid": lane[1], **times, "args": arguments}


def _arguments(bar: Bar, world_size: int) -> dict[str, object]:
    arguments: dict[str, object] = {"correlation": bar.correlation} if bar.correlation else {}
    if bar.line.on_device:
        arguments |= {"device": 0, "stream": int(bar.line.label)}
    if bar.kind == model.MEMORY and bar.bytes is not None:
        arguments |= {"bytes": bar.bytes}
    if bar.is_call and bar.line.on_device:
        arguments |= {
            "Collective name": _nccl(bar)[1],
            "Process Group Name": bar.line.options.get("group", "default"),
            "Process Group Ranks": str(list(range(world_size))), "Group size": world_size, "dtype": "Float",
        }  # fmt: skip
        if bar.bytes is not None:
            arguments |= {"In msg nelems": bar.bytes // 4, "Out msg nelems": bar.bytes // 4}
        if "seq" in bar.line.options:
            arguments |= {"Seq": int(bar.line.options["seq"])}
    return arguments
