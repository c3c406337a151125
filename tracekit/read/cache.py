"""Parsed files as Parquet, so that a run that was read once opens at once.

An entry is a folder named by what it was made of: the file's address and version (mtime, size or ETag; a hash of its
content where there are none), the version of this reader and its settings. It is written beside its place and moved
there whole, so that readers in other processes see all of it or nothing.
"""

from __future__ import annotations

import gc
import hashlib
import io
import os
import platform
import shutil
import tempfile
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from uuid import uuid4

import msgspec
import pandas as pd
import platformdirs
import pyarrow as pa
import pyarrow.parquet as pq
from isal import isal_zlib

from tracekit.errors import LostFile, Unreadable
from tracekit.model import NO_TIME, Note
from tracekit.read import names
from tracekit.read.kineto import read_kineto
from tracekit.read.sources import TraceFile, opened
from tracekit.read.stores import has_changed
from tracekit.read.tables import Identity, RankPart, rank_parts

READER_VERSION = 11
"""Counts up whenever the same file would be read to other tables."""
DEFAULT_LIMIT_BYTES = 20 * 10**9
YOUNG_SECONDS = 3600
"""An entry used so recently is never removed: somebody may be reading it."""
ENTRY, WRITERS = "entry.json", 2
_NAMELESS, _UNTYPED = (pd.CategoricalDtype(pd.Index([], dtype=kind)) for kind in ("str", object))
"""A column of names that has none is text too, which Parquet does not tell."""
_COUNTING = (pa.int64(), pa.uint64())
"""Times and ids, whose differences are small: kept as such they need no compression, which is slower to read."""
LARGE = ("work", "host", "allocations")
_TABLES = (*LARGE, "steps", "calls")
_WRITING = f"writing-{platform.node()}"
CHANGED = Note("changed-file", "warning", "it changed while it was read: this may be neither its old nor its new state")


@dataclass(frozen=True)
class Settings:
    """Where parsed tables are kept and how files are read. `spare` takes what the cache's folder cannot."""

    folder: str
    spare: str
    comm_patterns: tuple[str, ...] = ()


@dataclass(frozen=True)
class StoredPart:
    """One rank's part of a file, its large tables stored."""

    identity: Identity
    notes: tuple[Note, ...]
    steps: pd.DataFrame
    calls: pd.DataFrame
    source: ParquetTables


@dataclass(frozen=True)
class Parsed:
    """A file as it was read, or why it was not."""

    file: TraceFile
    parts: tuple[StoredPart, ...] = ()
    error: str | None = None
    lost: bool = False
    """Whether it may well hold a trace, but could not be read to its end."""


@dataclass(frozen=True)
class ParquetTables:
    """One rank's large tables in a cache entry; an entry that is gone or broken is made again from the file."""

    file: TraceFile
    settings: Settings
    folder: str
    part: int
    clock_offset_ns: int = 0

    def open(self, name: Literal["work", "host", "allocations"]) -> pd.DataFrame:
        """One table on the run's clock; Unreadable where it is gone and the file cannot be read again."""
        rows = self._on_own_clock(name)
        if not self.clock_offset_ns:
            return rows
        times = [column for column in ("start_ns", "end_ns", "launch_ns", "time_ns") if column in rows]
        shifted = {time: rows[time].where(rows[time] == NO_TIME, rows[time] - self.clock_offset_ns) for time in times}
        return rows.assign(**shifted)

    def _on_own_clock(self, name: str) -> pd.DataFrame:
        try:
            return HELD.table(Path(self.folder), self.part, name)
        except (OSError, msgspec.MsgspecError, pa.ArrowException, KeyError, ValueError):
            shutil.rmtree(self.folder, ignore_errors=True)
            again = parsed(self.file, self.settings)
            if again.error or self.part >= len(again.parts):
                raise Unreadable(again.error or f"{self.file.name}: changed while it was analysed") from None
            return HELD.table(Path(again.parts[self.part].source.folder), self.part, name)


class Held:
    """The tables that were written or read last in this process, up to so many rows, so that small runs open once.

    What is held counts only as long as its file is as it was then.
    """

    def __init__(self, rows: int) -> None:
        self._limit = rows
        self._tables: OrderedDict[tuple[Path, int, int], pd.DataFrame] = OrderedDict()

    def table(self, folder: Path, part: int, name: str) -> pd.DataFrame:
        """A large table of an entry; errors as of `_read_table`."""
        key = self._key(folder, part, name)
        rows = self._tables.get(key)
        if rows is None:
            rows = _read_table(folder, part, name, _entry(folder))
            self.hold(folder, part, name, rows)
        return rows.copy(deep=False)

    def hold(self, folder: Path, part: int, name: str, rows: pd.DataFrame) -> None:
        """Keeps a table that is in an entry, and lets go of those kept longest where there are too many rows."""
        self._tables[self._key(folder, part, name)] = rows
        held = sum(map(len, self._tables.values()))
        while held > self._limit:
            held -= len(self._tables.popitem(last=False)[1])

    @staticmethod
    def _key(folder: Path, part: int, name: str) -> tuple[Path, int, int]:
        path = folder / f"{part}-{name}.parquet"
        version = path.stat()
        return path, version.st_mtime_ns, version.st_size


HELD = Held(1_000_000)


class _Entry(msgspec.Struct):
    """What stands beside the tables of an entry: the rest of each part, and the checksums of the tables."""

    parts: list[tuple[Identity, list[Note]]]
    checks: dict[str, int]


def _entry(folder: Path) -> _Entry:
    """An entry's head; ValueError where it is not as it was written."""
    check, _, text = (folder / ENTRY).read_bytes().partition(b"\n")
    if check != b"%08x" % isal_zlib.crc32(text):
        raise ValueError("the entry is broken")
    return msgspec.json.decode(text, type=_Entry)


def parsed(file: TraceFile, settings: Settings) -> Parsed:
    """The file from the cache, else read and then kept; never raises for what is wrong with the file."""
    try:
        key = _key(file, settings)
        return _kept(file, settings, key) or _read(file, settings, key)
    except Unreadable as error:
        message = str(error)
        told = message if message.startswith((file.name, file.url)) else f"{file.name}: {message}"
        return Parsed(file, (), told, isinstance(error, LostFile))
    except MemoryError:
        return Parsed(file, (), f"{file.name}: to read it takes more memory than there is", lost=True)


def is_kept(file: TraceFile, settings: Settings) -> bool:
    """Whether the file's tables are in the cache, so that opening it is quick."""
    return bool(file.version) and any((folder / ENTRY).exists() for folder in _folders(settings, _key(file, settings)))


def _key(file: TraceFile, settings: Settings) -> str:
    made_of = [file.name, file.version, str(READER_VERSION), *settings.comm_patterns]
    digest = hashlib.sha256("\0".join(made_of).encode())
    if not file.version:
        with opened(file) as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:40]


def _folders(settings: Settings, key: str) -> list[Path]:
    return [Path(root) / key for root in (settings.folder, settings.spare) if root]


def _kept(file: TraceFile, settings: Settings, key: str) -> Parsed | None:
    """The entry, if there is one that can be read whole."""
    for folder in _folders(settings, key):
        try:
            entry = _entry(folder)
            parts = tuple(
                StoredPart(
                    identity, tuple(notes),
                    _read_table(folder, part, "steps", entry), _read_table(folder, part, "calls", entry),
                    ParquetTables(file, settings, str(folder), part),
                )
                for part, (identity, notes) in enumerate(entry.parts)
            )  # fmt: skip
        except (OSError, msgspec.MsgspecError, pa.ArrowException, KeyError, ValueError):
            _distrust(folder)
            continue
        _mark_used(folder)
        return Parsed(file, parts)
    return None


def _distrust(folder: Path) -> None:
    """An entry that is not as it was written counts no more, so that it is made again."""
    with suppress(OSError):
        (folder / ENTRY).unlink()


def _mark_used(folder: Path) -> None:
    with suppress(OSError):  # a cache that is only readable serves as well
        os.utime(folder / ENTRY)


def _read(file: TraceFile, settings: Settings, key: str) -> Parsed:
    with _without_collector():
        with opened(file) as stream:
            raw = read_kineto(stream)
        if raw.events == raw.problems.get("strange-event", 0) + len(raw.lost_at):
            raise Unreadable("it holds no events of a trace")
        parts = rank_parts(raw, file.basename, names.communication(settings.comm_patterns))
    if has_changed(file.url, file.version):
        parts = [replace(part, notes=(*part.notes, CHANGED)) for part in parts]
        settings = replace(settings, folder="")
    for folder in _folders(settings, key):
        try:
            _write(folder, parts)
        except (OSError, pa.ArrowException):
            continue
        sources = [ParquetTables(file, settings, str(folder), number) for number in range(len(parts))]
        for number, part in enumerate(parts):
            for name in LARGE:
                HELD.hold(folder, number, name, getattr(part, name))
        stored = [
            StoredPart(part.identity, part.notes, part.steps, part.calls, source)
            for part, source in zip(parts, sources, strict=True)
        ]
        return Parsed(file, tuple(stored))
    raise Unreadable("its tables can be written neither to the cache nor to the temporary folder: is the disk full?")


@contextmanager
def _without_collector() -> Iterator[None]:
    """Switches the garbage collector off: it would look at a million decoded objects, none of them in a cycle."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _write(folder: Path, parts: list[RankPart]) -> None:
    """Makes an entry beside its place and moves it there, unless another process was faster."""
    beside = folder.with_name(f"{_WRITING}-{os.getpid()}-{uuid4().hex}")
    beside.mkdir(parents=True)
    try:
        tables = [(number, name, getattr(part, name)) for number, part in enumerate(parts) for name in _TABLES]
        with ThreadPoolExecutor(WRITERS) as threads:
            found = threads.map(lambda one: _write_table(beside, *one), tables)
        checks = {f"{number}-{name}": check for (number, name, _), check in zip(tables, found, strict=True)}
        text = msgspec.json.encode(_Entry([(part.identity, list(part.notes)) for part in parts], checks))
        (beside / ENTRY).write_bytes(b"%08x\n" % isal_zlib.crc32(text) + text)
        if not (folder / ENTRY).exists():
            shutil.rmtree(folder, ignore_errors=True)
            beside.rename(folder)
    except OSError:
        if not (folder / ENTRY).exists():
            raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _write_table(folder: Path, part: int, name: str, rows: pd.DataFrame) -> int:
    """Writes a table and gives its checksum."""
    table, written = pa.Table.from_pandas(rows, preserve_index=False), io.BytesIO()
    kinds = {field.name: field.type for field in table.schema}
    coded = [name for name, kind in kinds.items() if pa.types.is_dictionary(kind)]
    pq.write_table(
        table, written, compression="none", write_statistics=False, use_dictionary=coded,
        column_encoding={name: "DELTA_BINARY_PACKED" for name, kind in kinds.items() if kind in _COUNTING},
    )  # fmt: skip
    (folder / f"{part}-{name}.parquet").write_bytes(written.getbuffer())
    return int(isal_zlib.crc32(written.getbuffer()))


def _read_table(folder: Path, part: int, name: str, entry: _Entry) -> pd.DataFrame:
    """A table of an entry; ValueError where it is not as it was written."""
    written = (folder / f"{part}-{name}.parquet").read_bytes()
    if isal_zlib.crc32(written) != entry.checks[f"{part}-{name}"]:
        raise ValueError(f"the table {name} is broken")
    with pq.ParquetFile(pa.BufferReader(written)) as file:
        table = file.read()
    rows: pd.DataFrame = table.to_pandas(split_blocks=True)
    nameless = {column: _NAMELESS for column, kind in rows.dtypes.items() if kind == _UNTYPED}
    return rows.astype(nameless) if nameless else rows


def default_folder() -> str:
    """The user's cache folder for parsed traces; `TRACEKIT_CACHE` names another."""
    return os.environ.get("TRACEKIT_CACHE") or str(Path(platformdirs.user_cache_dir("tracekit")) / "parsed")


class Spare:
    """A temporary folder that lives as long as somebody holds this object."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="tracekit-")
        weakref.finalize(self, shutil.rmtree, self.folder, True)


def usable(folder: str) -> bool:
    """Whether entries can be written to the folder; makes it if need be."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def sweep(folder: str) -> None:
    """Removes what processes of this machine were writing when they were ended."""
    for beside in Path(folder).glob(f"{_WRITING}-*-*"):
        if not _runs(int(beside.name.rsplit("-", 2)[1])):
            shutil.rmtree(beside, ignore_errors=True)


def _runs(process: int) -> bool:
    if os.name != "posix":
        return True  # signal 0 is not harmless there
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's
        return True
    return True


def limit_bytes() -> int:
    """How large the cache may grow; `TRACEKIT_CACHE_BYTES` sets it."""
    told = os.environ.get("TRACEKIT_CACHE_BYTES", "")
    return int(told) if told.isdecimal() else DEFAULT_LIMIT_BYTES


def trim(folder: str, limit: int, now_s: float) -> int:
    """Removes the entries that were used longest ago until the cache is within its limit; how many it removed."""
    entries = []
    for entry in Path(folder).iterdir():
        try:
            size = sum(one.stat().st_size for one in entry.iterdir())
            mark = entry / ENTRY
            entries.append(((mark if mark.exists() else entry).stat().st_mtime, size, entry))
        except OSError:  # another process was faster
            continue
    total, removed = sum(size for _, size, _ in entries), 0
    for used_s, size, entry in sorted(entries):
        if total <= limit or now_s - used_s < YOUNG_SECONDS:
            break
        shutil.rmtree(entry, ignore_errors=True)
        total, removed = total - size, removed + 1
    return removed
