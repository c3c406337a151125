"""The tables that everything is made of, and the run that holds them.

All tables are long (rank and step are rows) and have fixed columns and dtypes, listed here. Time is int64 nanoseconds;
spans are half-open. A time that is unknown is `NO_TIME`, a step that is none is `NO_STEP`; neither ever reaches a
result: measures leave such rows out or name what they do not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.types import union_categoricals

from tracekit.errors import WrongUse
from tracekit.intervals import Nanoseconds, Spans, length_within, union

NO_TIME = int(np.iinfo(np.int64).min)
NO_STEP = -1

COMPUTE, COMM, MEMORY = "compute", "comm", "memory"
WORK_KINDS = (COMPUTE, COMM, MEMORY)
LAUNCH, SYNCHRONIZE, RUNTIME = "launch", "synchronize", "runtime"
OPERATOR, ANNOTATION, PYTHON = "operator", "annotation", "python"
DATA_LOADING, GARBAGE_COLLECTION = "data_loading", "garbage_collection"
STREAM_WAIT, DEVICE_SYNC, DEVICE_ANNOTATION = "stream_wait", "device_sync", "device_annotation"
OVERHEAD, OTHER = "overhead", "other"
HOST_KINDS = (
    *(LAUNCH, SYNCHRONIZE, RUNTIME, OPERATOR, ANNOTATION, PYTHON, DATA_LOADING, GARBAGE_COLLECTION),
    *(STREAM_WAIT, DEVICE_SYNC, DEVICE_ANNOTATION, OVERHEAD, OTHER),
)

RANKS = {
    "rank": "int64", "window": "int64", "file": "str", "host": "str", "device": "str", "backend": "str",
    "world_size": "Int64", "clock_offset_ns": "Int64", "clock_error_ns": "Int64", "clock_drift_ppb": "Int64",
    "events": "int64", "dropped": "int64", "device_memory_bytes": "Int64",
}  # fmt: skip
"""`device_memory_bytes` is the capacity of the device that did the rank's work; null where its file does not tell."""
STEPS = {
    "rank": "int64", "window": "int64", "step": "int64", "start_ns": "int64", "end_ns": "int64", "complete": "bool",
}  # fmt: skip
EVENTS = {
    "kind": "category", "name": "category", "lane": "category", "step": "int64", "start_ns": "int64",
    "end_ns": "int64", "launch_ns": "int64", "correlation": "uint64", "operation": "category", "bytes": "Int64",
    "shape": "category",
}  # fmt: skip
"""One rank's spans. `lane` is `pid/tid` as in the file (device/stream for device work). `step` is the step that
launched device work, or in which host work began. `launch_ns` is the start of the host call that launched it.
`operation` is the collective's or the copy's (`all_reduce`, `host_to_device`); `bytes` a copy's size; `shape` a
kernel's grid and block (`grid 132x8 block 256`), which change with the size of its problem."""
CALLS = {
    "rank": "int64", "window": "int64", "step": "int64", "group": "str", "op": "str", "seq": "Int64", "bytes": "Int64",
    "dtype": "str", "algorithm": "str", "protocol": "str", "lane": "str", "start_ns": "int64", "end_ns": "int64",
    "peer": "Int64", "match": "Int64", "how": "str", "comms_id": "str", "group_size": "Int64", "group_ranks": "str",
    "device_work": "bool", "arrival_ns": "Int64",
}  # fmt: skip
"""Communication calls. `match` is null and `how` is "none" until calls are joined across ranks. `device_work` is false
for spans that only last as long as a handle (gloo's send and recv) and so are no measure of communication. Where an
annotation tells how long the program waits for such a call, the call's span is that wait, and `arrival_ns` is when the
call was issued; else it is null, and a rank arrives when its call starts."""
ALLOCATIONS = {
    "time_ns": "int64", "device": "str", "bytes": "int64", "allocated_bytes": "int64", "reserved_bytes": "int64",
}  # fmt: skip
"""One rank's allocator events: what one allocation (or, negative, free) left allocated and reserved on its device."""
NOTES = {"code": "str", "severity": "str", "rank": "Int64", "count": "int64", "message": "str"}

OPERATIONS = (
    *("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "gather", "scatter"),
    *("barrier", "send", "recv", "sendrecv", "unknown"),
)

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True)
class Note:
    """Something that the reader left out, guessed or mended, told so that nobody has to guess."""

    code: str
    severity: Severity
    message: str
    rank: int | None = None
    count: int = 1


@dataclass(frozen=True)
class Finding:
    """What is wrong with the job, what it costs, how one knows, and what to do.

    `cost_ns` is what a step would be shorter by without it; None where it costs nothing that could be told, as where
    something cannot be told at all. `ranks` and `steps` are those that it concerns; none are all. `evidence` are
    sentences with the numbers that the verdict rests on, the weightiest first.
    """

    code: str
    severity: Severity
    title: str
    ranks: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    cost_ns: int | None = None
    evidence: tuple[str, ...] = ()
    advice: str = ""


@dataclass(frozen=True)
class Column:
    """What a measure's column holds: its unit ("ns", "bytes", "1", "GB/s", "" for a key) and which way is better."""

    unit: str = ""
    better: Literal["up", "down", ""] = ""


def table(schema: dict[str, str], rows: Iterable[Sequence[object]] = ()) -> pd.DataFrame:
    """A frame with the schema's columns and dtypes, from rows in the schema's order."""
    held = list(rows)
    columns = zip(*held, strict=True) if held else [()] * len(schema)
    return pd.DataFrame({name: _array(values, schema[name]) for name, values in zip(schema, columns, strict=True)})


def _array(values: Sequence[Any], kind: Any) -> Any:
    if kind == "category":  # of text, also where there are none
        return pd.Categorical(_array(values, "str"))
    return pd.array(list(values), dtype=kind)


def notes_table(notes: Iterable[Note]) -> pd.DataFrame:
    """The notes as a table, the gravest first."""
    gravity = ("error", "warning", "info")
    rows = [(note.code, note.severity, note.rank, note.count, note.message) for note in notes]
    rows.sort(key=lambda row: (gravity.index(row[1]), row[0], -1 if row[2] is None else row[2], row[4]))
    return table(NOTES, rows)


class TableSource(Protocol):
    """Where one rank's large tables are kept; picklable, so that a worker process can open them."""

    def open(self, name: Literal["work", "host", "allocations"]) -> pd.DataFrame: ...


@dataclass(frozen=True)
class RankTables:
    """One rank in one window: its steps and, opened when asked for, its large tables."""

    rank: int
    window: int
    device: str
    steps: pd.DataFrame
    calls: pd.DataFrame
    source: TableSource

    @property
    def on_cpu(self) -> bool:
        """Whether the trace has no device rows, so that host spans stand in for device work."""
        return self.device == "cpu"

    @cached_property
    def work(self) -> pd.DataFrame:
        """Rows of `EVENTS` that are compute, communication or memory work, in order of start."""
        return self.source.open("work")

    @cached_property
    def host(self) -> pd.DataFrame:
        """All other rows of `EVENTS`, in order of start."""
        return self.source.open("host")

    @cached_property
    def allocations(self) -> pd.DataFrame:
        """`ALLOCATIONS`, in order of time; empty where memory was not profiled."""
        return self.source.open("allocations")

    @property
    def events(self) -> pd.DataFrame:
        """All rows of `EVENTS`, in order of start."""
        work, host = self.work, self.host
        named = [name for name, kind in EVENTS.items() if kind == "category"]
        both = {name: union_categoricals([work[name], host[name]]) for name in named}
        joined = pd.concat([work.drop(columns=list(both)), host.drop(columns=list(both))], ignore_index=True)
        return joined.assign(**both)[list(EVENTS)].sort_values("start_ns", kind="stable", ignore_index=True)

    def busy(self, kind: str) -> Spans:
        """The set of time in which work of this kind runs, on any lane."""
        rows = self.work[self.work["kind"] == kind]
        return union(rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy())

    def per_step(self, spans: Spans) -> Nanoseconds:
        """Nanoseconds of the set in the window of each step, in the order of `steps`."""
        return length_within(spans, self.steps["start_ns"].to_numpy(), self.steps["end_ns"].to_numpy())

    def nth_step(self, times: Nanoseconds) -> npt.NDArray[np.intp]:
        """For each time the position in `steps` of the window that it lies in, -1 where it lies in none."""
        starts, ends = self.steps["start_ns"].to_numpy(), self.steps["end_ns"].to_numpy()
        nth = np.searchsorted(starts, times, side="right") - 1
        inside = nth >= 0
        inside[inside] = times[inside] < ends[nth[inside]]
        return np.where(inside, nth, -1)


PerRank = Callable[[RankTables], pd.DataFrame]
Mapper = Callable[[PerRank, Sequence[RankTables]], Iterable[pd.DataFrame]]


def _alone(work: PerRank, one: RankTables) -> pd.DataFrame:
    """The work on tables that are let go afterwards, so that one rank's at a time are held."""
    return work(replace(one))


def one_after_another(work: PerRank, ranks: Sequence[RankTables]) -> Iterator[pd.DataFrame]:
    """The mapper for small runs: no other process."""
    return map(work, ranks)


@dataclass(frozen=True, eq=False)
class Run:
    """A job's traces: the small tables of all ranks, and the way to each rank's large ones. Equal to itself only.

    `ranks`, `steps`, `calls` and `notes` have the columns of `RANKS`, `STEPS`, `CALLS` and `NOTES`.
    """

    path: str
    ranks: pd.DataFrame
    steps: pd.DataFrame
    calls: pd.DataFrame
    notes: pd.DataFrame
    sources: dict[tuple[int, int], TableSource] = field(repr=False)
    mapper: Mapper = field(default=one_after_another, repr=False)

    @property
    def several_windows(self) -> bool:
        """Whether some rank was profiled more than once, so that tables carry `window` beside `rank`."""
        return bool(self.ranks["rank"].duplicated().any())

    @property
    def world_size(self) -> int | None:
        """How many ranks the job has, as its files tell it, the largest where they differ; None where none does."""
        told = self.ranks["world_size"].dropna()
        return int(told.max()) if len(told) else None

    def rank(self, rank: int, window: int = 0) -> RankTables:
        """One rank's tables; WrongUse where the run has no such rank or window."""
        if (rank, window) not in self.sources:
            held = listed(self.ranks["rank"])
            raise WrongUse(f"the run has no rank {rank} with window {window}; it has ranks {held}")
        return RankTables(
            rank, window, self._devices[rank, window], self._steps[rank, window], self._calls[rank, window],
            self.sources[rank, window],
        )  # fmt: skip

    @cached_property
    def _devices(self) -> dict[tuple[int, int], str]:
        keys = zip(self.ranks["rank"].tolist(), self.ranks["window"].tolist(), strict=True)
        return dict(zip(keys, self.ranks["device"].tolist(), strict=True))

    @cached_property
    def _steps(self) -> dict[tuple[int, int], pd.DataFrame]:
        return self._by_rank(self.steps)

    @cached_property
    def _calls(self) -> dict[tuple[int, int], pd.DataFrame]:
        return self._by_rank(self.calls)

    def _by_rank(self, rows: pd.DataFrame) -> dict[tuple[int, int], pd.DataFrame]:
        """The rows of each rank and window, also of those that have none."""
        parts = {key: part.reset_index(drop=True) for key, part in rows.groupby(["rank", "window"], sort=False)}
        return {key: parts.get(key, rows.iloc[:0]) for key in self.sources}

    def events(self, rank: int, window: int = 0) -> pd.DataFrame:
        """One rank's `EVENTS`; WrongUse where the run has no such rank."""
        return self.rank(rank, window).events

    def map(self, work: PerRank) -> pd.DataFrame:
        """The rows that `work` gives for each rank, below one another, led by `rank` (and `window` where needed).

        `work` is a function of a module (it may run in another process) and gives frames of the same columns for all
        ranks, which are empty where a rank has nothing.
        """
        ranks = [self.rank(*key) for key in sorted(self.sources)]
        frames = list(self.mapper(partial(_alone, work), ranks))
        for one, rows in zip(ranks, frames, strict=True):
            rows.insert(0, "rank", one.rank)
            if self.several_windows:
                rows.insert(1, "window", one.window)
        held = [rows for rows in frames if len(rows)] or frames[:1]
        return pd.concat(held, ignore_index=True)

    def only_steps(self, first: int, last: int) -> Run:
        """The run narrowed to steps `first` to `last`, both included; WrongUse where none of them is there."""
        kept = self.steps["step"].between(first, last)
        if not kept.any():
            raise WrongUse(f"no step from {first} to {last} in the run; it has steps {listed(self.steps['step'])}")
        calls = self.calls[self.calls["step"].between(first, last)]
        return replace(self, steps=self.steps[kept].reset_index(drop=True), calls=calls.reset_index(drop=True))


def listed(numbers: Iterable[int]) -> str:
    """Numbers as a person would list them: `0-7, 12`."""
    values = sorted(set(numbers))
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


class Asked(Protocol):
    """What measures and rules are handed: the run, and other measures by name."""

    @property
    def run(self) -> Run: ...

    def __getitem__(self, measure: str) -> pd.DataFrame: ...
