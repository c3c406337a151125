"""One Kineto file to raw tables, streaming: what stands in the file, and nothing yet of what it means."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.errors import TooLarge
from tracekit.model import ALLOCATIONS, NO_TIME, table
from tracekit.read import format, limits, names
from tracekit.read.columns import (
    MANY,
    NO_ID,
    NO_RANK,
    Codes,
    Texts,
    as_text,
    categorical,
    count,
    ids,
    ranks,
    whole,
    wholes,
)
from tracekit.read.format import AllocationArgs, Args, Begin, Instant, Named, Span
from tracekit.read.processes import Processes
from tracekit.read.text import Stream, TraceText
from tracekit.read.times import InexactTimes, nanoseconds

Column = npt.NDArray[Any]
Flags = npt.NDArray[np.bool_]


class _Spans(NamedTuple):
    """The fields of some spans, field by field."""

    cat: Sequence[Any] = ()
    name: Sequence[Any] = ()
    pid: Sequence[Any] = ()
    tid: Sequence[Any] = ()
    ts: Sequence[Any] = ()
    dur: Sequence[Any] = ()
    args: Sequence[Any] = ()

    @staticmethod
    def of(spans: Iterable[Any]) -> _Spans:
        return _Spans(*zip(*map(msgspec.structs.astuple, spans), strict=True))


@dataclass(frozen=True)
class _Batch:
    events: int
    strange: int
    spans: _Spans
    start_ns: npt.NDArray[np.int64]
    duration_ns: npt.NDArray[np.int64]
    halves: list[tuple[int, Span]]
    instants: list[Instant]
    instant_ns: npt.NDArray[np.int64]
    named: list[Named]


@dataclass(frozen=True)
class RawTrace:
    """One file's events as they stand there, with times on its own clock.

    `spans` has category, name, lane, start_ns, end_ns, correlation, shape (null where it is not told) and rank
    (`NO_RANK` where the event does not say whose it is, as in all files but those that a tool fused). `collectives` and
    `copies` tell more about some rows of `spans` (`row`). `allocations` is ALLOCATIONS with `rank`. `problems` counts
    what was left out, by code.
    """

    metadata: dict[str, object]
    spans: pd.DataFrame
    collectives: pd.DataFrame
    copies: pd.DataFrame
    allocations: pd.DataFrame
    events: int
    problems: dict[str, int]
    lost_at: list[int]
    mended_at: list[int]
    truncated: bool


_TELLING_CATEGORIES = names.KERNEL_CATEGORIES | names.COPY_CATEGORIES | names.RUNTIME_CATEGORIES | {"cuda_sync"}
COLLECTIVE_FIELDS = (
    "collective", "elements_in", "elements_out", "group_size", "dtype", "group", "group_description", "group_ranks",
    "sequence", "source", "destination", "call_id", "array_bytes",
)  # fmt: skip


def read_kineto(stream: Stream) -> RawTrace:
    """Reads a whole trace; Unreadable where it is none."""
    columns = _Columns()
    text = TraceText(stream, columns.decode)
    for batch in text.batches():
        columns.add(batch)
    return columns.finish(text)


class _Columns:
    """Gathers batches into columns, so that no event's objects outlive its batch."""

    def __init__(self) -> None:
        self._decoder = format.FAST
        self._codes = {name: Codes() for name in ("category", "name", "process", "thread", "shape")}
        self._parts: dict[str, list[Column]] = defaultdict(list)
        self._collectives: list[tuple[Any, ...]] = []
        self._copies: list[tuple[Any, ...]] = []
        self._devices = Codes()
        self._texts = Texts()
        self._allocated: dict[str, list[Column]] = defaultdict(list)
        self._halves: list[tuple[int, Span]] = []
        self._processes = Processes()
        self._wanted: dict[tuple[str, Callable[[str], bool]], Flags] = defaultdict(lambda: np.empty(0, bool))
        self._rows = 0
        self._events = 0
        self._problems: dict[str, int] = defaultdict(int)

    def decode(self, text: bytes) -> _Batch:
        """A batch of the text of events; keeps nothing, since the text may prove to be cut at a wrong place."""
        try:
            return self._decoded(text)
        except InexactTimes:
            self._decoder = format.EXACT
            return self._decoded(text)

    def _decoded(self, text: bytes) -> _Batch:
        events, strange = self._decoder.decode(text)
        span = format.EXACT_SPAN if self._decoder is format.EXACT else Span
        spans = _Spans.of(event for event in events if event.__class__ is span)
        rest = [event for event in events if event.__class__ in format.OTHER_EVENTS]
        halves = [event for event in rest if isinstance(event, Span)]
        instants = [event for event in rest if isinstance(event, Instant) and event.name == "[memory]"]
        return _Batch(
            len(events) + strange,
            strange,
            spans,
            nanoseconds(spans.ts),
            nanoseconds(spans.dur),
            list(zip(nanoseconds([half.ts for half in halves]).tolist(), halves, strict=True)),
            instants,
            nanoseconds([instant.ts for instant in instants]),
            [event for event in rest if event.__class__ is Named],
        )

    def add(self, batch: _Batch) -> None:
        """Takes a batch over."""
        self._events += batch.events
        self._problems["strange-event"] += batch.strange
        self._add_spans(batch.spans, batch.start_ns, batch.duration_ns)
        self._halves += batch.halves
        if self._events > limits.EVENTS or len(self._halves) > limits.HALVES:
            raise TooLarge(f"it holds {self._events:,} events and more: too many for one file, so it is not read")
        self._processes.add(batch.named)
        if batch.instants:
            self._add_allocations(batch.instants, batch.instant_ns)

    def _add_spans(self, spans: _Spans, start_ns: npt.ArrayLike, duration_ns: npt.ArrayLike) -> None:
        categories = self._codes["category"].of(spans.cat)
        self._add("category", categories)
        labels = self._codes["name"].of(spans.name)
        self._add("name", labels)
        self._add("process", self._codes["process"].of(spans.pid))
        self._add("thread", self._codes["thread"].of(spans.tid))
        self._add("start_ns", np.asarray(start_ns, np.int64))
        self._add("duration_ns", np.asarray(duration_ns, np.int64))
        self._add("correlation", self._correlations(spans.args, categories))
        self._add("rank", self._owners(spans.args))
        kernels = self._of("category", _is_kernel)[categories]
        self._add("shape", self._shapes(spans.args, np.flatnonzero(kernels)))
        calls = kernels | self._of("name", names.tells_a_call)[labels]
        self._add_collectives(spans.args, np.flatnonzero(calls).tolist())
        self._add_copies(spans.args, np.flatnonzero(self._of("category", _is_sized)[categories]).tolist())
        self._rows += len(spans.args)

    @staticmethod
    def _owners(args: Sequence[Any]) -> npt.NDArray[np.int64]:
        """Whose each span is, in a file that a tool fused; such tools mark all events, so a few tell if it was."""
        if all(one.__class__ is not Args or one.rank is None for one in args[:: max(len(args) // 16, 1)]):
            return np.full(len(args), NO_RANK)
        return ranks([one.rank if one.__class__ is Args else None for one in args])

    def _add_collectives(self, args: Sequence[Any], places: Sequence[int]) -> None:
        """What the arguments at some places tell of calls; most kernels' tell nothing."""
        for place in places:
            one = args[place]
            if one.__class__ is Args and (one.collective is not None or one.types is not format.NOTHING):
                size = _array_bytes(one.dimensions, one.types)
                if one.collective is not None or size is not None:
                    told = (self._plain(getattr(one, name)) for name in COLLECTIVE_FIELDS[:-1])
                    self._collectives.append((self._rows + place, *told, size))

    def _shapes(self, args: Sequence[Any], places: npt.NDArray[np.intp]) -> npt.NDArray[np.int32]:
        """The code of each kernel's shape, of all other spans that of none."""
        shapes = np.full(len(args), self._codes["shape"][b""], np.int32)
        told = [args[place] for place in places.tolist()]
        shapes[places] = self._codes["shape"].of([_grid_and_block(one) for one in told])
        return shapes

    def _add_copies(self, args: Sequence[Any], places: Sequence[int]) -> None:
        """What the arguments of copies tell."""
        for place in places:
            one = args[place] if args[place].__class__ is Args else _SILENT
            size, direction = count(one.size if one.bytes is None else one.bytes), self._plain(one.direction)
            self._copies.append((self._rows + place, size, direction))

    def _plain(self, value: Any) -> Any:
        """A number as it is, all else as text."""
        if value is None or isinstance(value, int | float):
            return value
        return self._texts[value if isinstance(value, str) else str(value)]

    def _add(self, name: str, values: Column) -> None:
        self._parts[name].append(values)

    def _correlations(self, args: Sequence[Any], categories: npt.NDArray[np.int32]) -> npt.NDArray[np.uint64]:
        """The correlation of each span of a category that has some."""
        told = ids([one.correlation if one.__class__ is Args else NO_ID for one in args])
        told[~self._of("category", _tells_correlation)[categories]] = NO_ID
        return told

    def _of(self, column: str, wanted: Callable[[str], bool]) -> Flags:
        """Which of the values seen so far in a column are wanted ones."""
        known, codes = self._wanted[column, wanted], self._codes[column]
        if len(known) < len(codes):
            new = [wanted(str(value)) for value in codes.in_order[len(known) :]]
            known = self._wanted[column, wanted] = np.append(known, new)
        return known

    def _add_allocations(self, instants: list[Instant], times_ns: npt.NDArray[np.int64]) -> None:
        args = [one.args if isinstance(one.args, AllocationArgs) else _UNTOLD for one in instants]
        known = times_ns != NO_TIME
        for name in ("bytes", "allocated", "reserved"):
            sizes, told = wholes([getattr(one, name) for one in args])
            self._allocated[name].append(sizes)
            known &= told & (sizes < MANY) & (sizes >= (-MANY if name == "bytes" else 0))
        self._allocated["time_ns"].append(times_ns)
        self._allocated["device"].append(self._devices.of([(one.device_type, one.device_index) for one in args]))
        self._allocated["rank"].append(ranks([one.rank for one in args]))
        self._allocated["process"].append(self._codes["process"].of([one.pid for one in instants]))
        self._allocated["known"].append(known)

    def _allocations(self, offset_ns: int) -> pd.DataFrame:
        """The allocations that tell their time, and sizes that can be."""
        if not self._allocated:
            return table({**ALLOCATIONS, "rank": "int64"})
        parts = {name: np.concatenate(arrays) for name, arrays in self._allocated.items()}
        labels = np.array([_device(*device) for device in self._devices], dtype=object)
        rows = pd.DataFrame(
            {
                "time_ns": parts["time_ns"] + offset_ns,
                "device": labels[parts["device"]],
                "bytes": parts["bytes"],
                "allocated_bytes": parts["allocated"],
                "reserved_bytes": parts["reserved"],
                "rank": self._whose(parts["rank"], parts["process"]),
            }
        )
        return rows[parts["known"]]

    def _whose(self, claimed: npt.NDArray[np.int64], processes: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """The ranks that events claim, else those of their processes."""
        of_process = self._processes.ranks(self._codes["process"])
        told = np.array([of_process.get(process, NO_RANK) for process in self._codes["process"]], np.int64)
        return np.where(claimed == NO_RANK, told[processes], claimed) if of_process else claimed

    def _join_halves(self) -> None:
        """Makes a span of each begin and the end that closes it on its lane, and counts those without the other."""
        opened: dict[object, list[tuple[int, Span]]] = defaultdict(list)
        whole_spans: list[Span] = []
        times: list[tuple[int, int]] = []
        for time_ns, half in sorted(self._halves, key=lambda one: one[0]):  # as in the file where times are the same
            lane = (as_text(half.pid), as_text(half.tid))
            if time_ns == NO_TIME:
                self._problems["half-span"] += 1
            elif isinstance(half, Begin):
                opened[lane].append((time_ns, half))
            elif opened[lane]:
                start_ns, begin = opened[lane].pop()
                whole_spans.append(begin)
                times.append((start_ns, time_ns - start_ns))
            else:
                self._problems["half-span"] += 1
        self._problems["half-span"] += sum(map(len, opened.values()))
        starts_ns, durations_ns = np.array(times, np.int64).reshape(-1, 2).T
        self._add_spans(_Spans.of(whole_spans), starts_ns, durations_ns)

    def finish(self, text: TraceText[_Batch]) -> RawTrace:
        """The tables of all batches."""
        self._join_halves()
        columns = {name: np.concatenate(parts) for name, parts in self._parts.items()}
        self._parts.clear()
        offset_ns = _base_ns(text.metadata)
        columns["rank"] = self._whose(columns["rank"], columns["process"])
        columns, rows, impossible = _on_absolute_time(columns, offset_ns)
        codes, process, thread = self._codes, columns.pop("process"), columns.pop("thread")
        named = {name: codes[name].column([columns[name]]) for name in ("category", "name")}
        named["shape"] = categorical(columns["shape"], [_shape(told) for told in codes["shape"]])
        lane = Codes.joined(codes["process"], process, codes["thread"], thread)
        spans = pd.DataFrame({**columns, **named, "lane": lane}, index=rows, copy=False)
        return RawTrace(
            metadata=text.metadata,
            spans=spans,
            collectives=_frame(self._collectives, COLLECTIVE_FIELDS),
            copies=_frame(self._copies, ("bytes", "direction")),
            allocations=self._allocations(offset_ns),
            events=self._events + len(text.lost),
            problems={**self._problems, "impossible-time": impossible},
            lost_at=text.lost,
            mended_at=text.mended,
            truncated=text.truncated,
        )


_LONGEST_NS, _LATEST_NS = 2**60, 2**62
_SILENT, _UNTOLD = Args(), AllocationArgs()


def _frame(rows: list[tuple[Any, ...]], fields: Sequence[str]) -> pd.DataFrame:
    """Objects as they are (whole numbers of 64 bits stay exact), indexed by the row of `spans` that they tell about."""
    index = pd.Index([row[0] for row in rows], dtype="int64")
    return pd.DataFrame([row[1:] for row in rows], index=index, columns=list(fields), dtype=object)


def _is_kernel(category: str) -> bool:
    return category.lower() in names.KERNEL_CATEGORIES


_SIDES = r"\[(\s*\d{1,19}\s*(?:,\s*\d{1,19}\s*){0,2})\]"
_LONGEST_SHAPE = 256
_GRID_AND_BLOCK = re.compile(rf"{_SIDES} {_SIDES}")


def _grid_and_block(one: Any) -> bytes:
    """The text of a kernel's grid and block; none where it cannot be such."""
    told = b"%b %b" % (one.grid, one.block) if one.__class__ is Args else b""
    return told if len(told) < _LONGEST_SHAPE else b""


def _shape(told: bytes) -> str | None:
    """Grid and block as a person writes them, without sides of 1 at their ends; None where they are not told."""
    found = _GRID_AND_BLOCK.fullmatch(told.decode("ascii", "replace"))
    if not found:
        return None
    grid, block = (re.sub(r"(?:,1)+$", "", re.sub(r"\s", "", sides)).replace(",", "x") for sides in found.groups())
    return f"grid {grid} block {block}"


def _is_sized(category: str) -> bool:
    return category.lower() in names.SIZED_CATEGORIES


def _tells_correlation(category: str) -> bool:
    return category.lower() in _TELLING_CATEGORIES


def _array_bytes(dimensions_text: msgspec.Raw, types_text: msgspec.Raw) -> int | None:
    """Bytes of the first input, by its dimensions and type as `record_shapes` writes them; None where untold."""
    dimensions, types = msgspec.json.decode(dimensions_text), msgspec.json.decode(types_text)
    if not isinstance(dimensions, list) or not isinstance(types, list) or not dimensions or not types:
        return None
    width, shape = names.DTYPE_BYTES.get(str(types[0]).removeprefix("c10::").replace(" ", "").lower()), dimensions[0]
    if not width or not isinstance(shape, list) or not shape or not all(isinstance(side, int) for side in shape):
        return None
    return count(math.prod(shape) * width)


def _device(kind: Any, index: Any) -> str:
    """The device of an allocation as a person calls it; PyTorch's device type 0 is the host."""
    return "cpu" if kind in (0, "0") else f"device {whole(index) or 0}"


def _base_ns(metadata: dict[str, object]) -> int:
    """What is added to all times of the file; 0 where it gives none, or none that can be."""
    base_ns = whole(metadata.get("baseTimeNanoseconds"))
    return base_ns if base_ns is not None and abs(base_ns) < 2**61 else 0


def _on_absolute_time(columns: dict[str, Column], offset_ns: int) -> tuple[dict[str, Column], pd.Index, int]:
    """Spans with a start and an end on absolute time, without those that cannot be; their rows; how many were left out.

    Impossible: a start or duration that is missing, negative or beyond any clock, and the pair 0 and 0, which profilers
    write for work that they lost. Rows keep their labels, by which other tables tell more about them.
    """
    start_ns, duration_ns = columns["start_ns"], columns["duration_ns"]
    possible = (start_ns > -_LATEST_NS) & (start_ns < _LATEST_NS) & (duration_ns >= 0) & (duration_ns < _LONGEST_NS)
    possible &= (start_ns != 0) | (duration_ns != 0)
    rows: pd.Index = pd.RangeIndex(len(possible))
    if not possible.all():
        columns = {name: values[possible] for name, values in columns.items()}
        rows = rows[possible]
    told = {name: values for name, values in columns.items() if name != "duration_ns"}
    start_ns = columns["start_ns"] + offset_ns
    told |= {"start_ns": start_ns, "end_ns": start_ns + columns["duration_ns"]}
    return told, rows, int((~possible).sum())
