"""The door: paths to a `Run`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial

import pandas as pd

from tracekit.errors import LostWork, Unreadable
from tracekit.model import CALLS, RANKS, STEPS, Note, PerRank, RankTables, Run, notes_table, table
from tracekit.read import cache as store
from tracekit.read.job import Joined, across_ranks
from tracekit.read.ranks import Claim, Place, assign, rank_in_name
from tracekit.read.sources import TraceFile, trace_files
from tracekit.read.stores import IN_THIS_PROCESS
from tracekit.read.workers import Workers

HEAVY_BYTES = 64 * 2**20
"""Text from which on several files are worth the start of a process pool,"""
HEAVY_EVENTS = 2_000_000
"""and events from which on measuring several ranks is."""
PACKED = 15
"""How many times larger a compressed trace's text is, about."""

Progress = Callable[[int, int, str], None]


def load(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    cache: bool = True,
    executor: Executor | None = None,
    progress: Progress | None = None,
    comm_patterns: Sequence[str] = (),
) -> Run:
    """The run that the traces at a path, folder, glob, archive, URL, or list of such are.

    `executor` is any `concurrent.futures.Executor`; without one, large runs use a pool of local processes. `progress`
    is called with files read, files in all, and the last one's name. `comm_patterns` are regular expressions of kernels
    that count as communication beside those known. Raises Unreadable where no trace could be read, AmbiguousRanks where
    two files are the same rank at the same time.
    """
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    files = trace_files([os.fspath(one) for one in paths])
    spare = store.Spare()
    folder = store.default_folder() if cache else ""
    keeps = bool(folder) and store.usable(folder)
    notes = []
    if folder and not keeps:
        notes.append(Note("no-cache", "info", f"the cache folder {folder} cannot be written: nothing more is kept"))
    settings = store.Settings(folder, spare.folder, tuple(comm_patterns))
    workers = Workers(executor, spare)
    try:
        read = _read_all(files, settings, workers, progress)
    finally:
        if keeps:
            store.sweep(folder)
    if keeps:
        store.trim(folder, store.limit_bytes(), time.time())
    told = ", ".join(os.fspath(one) for one in paths).encode("utf-8", "backslashreplace").decode()
    return _run(told, read, notes, workers)


def _read_all(
    files: list[TraceFile], settings: store.Settings, workers: Workers, progress: Progress | None
) -> list[store.Parsed]:
    """All files, those that have to be parsed perhaps in other processes."""
    new = sum(file.size * (1 if file.basename.endswith(".json") else PACKED) for file in files)
    heavy = new > HEAVY_BYTES and not all(store.is_kept(file, settings) for file in files)
    if any(file.url.startswith(IN_THIS_PROCESS) for file in files):
        workers, heavy = Workers(), False
    read = []
    for one in workers.map(partial(_parsed, settings), files, heavy=heavy, lost=_fatal):
        read.append(one)
        if progress:
            progress(len(read), len(files), one.file.name)
    return read


def _parsed(settings: store.Settings, file: TraceFile) -> store.Parsed:
    return store.parsed(file, settings)


def _fatal(file: TraceFile) -> store.Parsed:
    told = "reading it ended the process that did, twice: it is left out. Is there too little memory?"
    return store.Parsed(file, (), f"{file.name}: {told}", lost=True)


def _unread(one: store.Parsed) -> Note:
    """Why a file gave nothing."""
    if one.lost:
        return Note("unread-file", "warning", one.error or "", rank_in_name(one.file.name))
    return Note("not-a-trace", "info", one.error or "")


@dataclass(frozen=True)
class _Mapper:
    """Maps a measure over ranks, in other processes where there is much to do."""

    workers: Workers
    events: int

    def __call__(self, work: PerRank, ranks: Sequence[RankTables]) -> list[pd.DataFrame]:
        return list(self.workers.map(work, ranks, heavy=self.events > HEAVY_EVENTS, lost=_unmeasured))


def _unmeasured(rank: RankTables) -> pd.DataFrame:
    raise LostWork(
        f"rank {rank.rank}: measuring it ended the process that did, twice. Is there too little memory? "
        "Without its file the others can be analysed"
    )


def _run(path: str, read: list[store.Parsed], notes: list[Note], workers: Workers) -> Run:
    notes += [_unread(one) for one in read if one.error]
    parts = [(one.file, part) for one in read for part in one.parts]
    if not parts:
        raise Unreadable("; ".join(note.message for note in notes) or f"{path}: no trace")
    places, told = assign([Claim(file.name, part.identity) for file, part in parts])
    notes += told
    landed = sorted(
        ((place, *parts[index]) for index, place in places.items()), key=lambda one: (one[0].rank, one[0].window)
    )
    for place, file, part in landed:
        notes += [replace(note, rank=place.rank, message=f"{file.basename}: {note.message}") for note in part.notes]
    joined = across_ranks(
        _placed(CALLS, [(place, part.calls) for place, _, part in landed]),
        {(place.rank, place.window): part.identity for place, _, part in landed},
    )
    steps = _placed(STEPS, [(place, part.steps) for place, _, part in landed])
    return Run(
        path=path,
        ranks=table(RANKS, [_rank_row(place, file, part, joined) for place, file, part in landed]),
        steps=_on_one_clock(steps, joined),
        calls=joined.calls,
        notes=notes_table([*notes, *joined.notes]),
        sources={
            (place.rank, place.window): replace(part.source, clock_offset_ns=joined.offset_ns(place.rank, place.window))
            for place, _, part in landed
        },
        mapper=_Mapper(workers, sum(part.identity.events for _, _, part in landed)),
    )


def _on_one_clock(steps: pd.DataFrame, joined: Joined) -> pd.DataFrame:
    places = zip(steps["rank"].tolist(), steps["window"].tolist(), strict=True)
    offset = pd.Series([joined.offset_ns(*place) for place in places], index=steps.index, dtype="int64")
    return steps.assign(start_ns=steps["start_ns"] - offset, end_ns=steps["end_ns"] - offset)


def _rank_row(place: Place, file: TraceFile, part: store.StoredPart, joined: Joined) -> tuple[object, ...]:
    who, clock = part.identity, joined.clocks[place.rank, place.window]
    return (
        *(place.rank, place.window, file.name, who.host, who.device, who.backend, who.world_size),
        *(clock.offset_ns, clock.error_ns, clock.drift_ppb, who.events, who.dropped),
        who.device_memory_bytes,
    )


def _placed(schema: dict[str, str], parts: list[tuple[Place, pd.DataFrame]]) -> pd.DataFrame:
    """The ranks' tables below one another, with rank and window."""
    rows = [part.assign(rank=place.rank, window=place.window) for place, part in parts if len(part)]
    return pd.concat(rows, ignore_index=True)[list(schema)] if rows else table(schema)
