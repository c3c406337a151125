"""Which files a run is made of, and their bytes, decompressed.

Paths, globs, folders, archives and URLs all go through fsspec, so `s3://`, `gs://` and `http://` need only their fsspec
package. What a file is compressed with is told by its first bytes, never by its name.
"""

from __future__ import annotations

import bz2
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from typing import Protocol, cast

import fsspec
import zstandard
from isal import isal_zlib

from tracekit.errors import Unreadable
from tracekit.read.stores import reached, stored, told_as, version
from tracekit.read.text import Stream

TRACE_SUFFIXES = (".json", ".json.gz", ".json.zst", ".pt.trace.json", ".pt.trace.json.gz")
ARCHIVE_SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tar.xz")
COMPRESSED_BYTES, PIECES_AHEAD = 1 << 18, 3
STEP_BYTES = 1 << 12
_GZIP = b"\x1f\x8b"
_BROKEN = (
    *(cast("type[Exception]", isal_zlib.error), zlib.error, lzma.LZMAError, zstandard.ZstdError, EOFError, ValueError),
    *(tarfile.TarError, zipfile.BadZipFile, OSError),
)
_NOT_OPENED = (*_BROKEN, KeyError, ImportError, RuntimeError, struct.error)  # zip tells of passwords by RuntimeError


class ByteFile(Protocol):
    """A file opened for reading bytes."""

    def read(self, size: int = -1, /) -> bytes: ...
    def seek(self, offset: int, /) -> int: ...


@dataclass(frozen=True)
class TraceFile:
    """One trace: a file, or a member of an archive. `version` changes when the content does (mtime, ETag, size)."""

    url: str
    member: str = ""
    version: str = ""
    size: int = 0

    @property
    def name(self) -> str:
        """How a person finds it again."""
        name = f"{self.url}!{self.member}" if self.member else self.url
        return name.encode("utf-8", "backslashreplace").decode()

    @property
    def basename(self) -> str:
        """The last part of its path, which often names the rank."""
        return self.name.replace("\\", "/").replace("!", "/").rsplit("/", 1)[-1]


def trace_files(paths: Sequence[str]) -> list[TraceFile]:
    """All traces that the paths mean, each once, in order; Unreadable where a path means nothing."""
    found = [file for path in paths for file in _of_path(str(path))]
    return list({file.name: file for file in found}.values())


def _of_path(path: str) -> list[TraceFile]:
    with told_as(path):
        system, inner = reached(path)
        if system.isdir(inner):
            names = sorted(name for name in system.find(inner) if _is_trace_name(name))
        else:
            names = sorted(system.glob(inner)) if any(mark in inner for mark in "*?[") else []
            names = names or ([inner] if system.exists(inner) else [])
        find = _of_file if len(names) == 1 else _of_one_of_many
        files = [file for name in names for file in find(system, name)]
    if not files:
        raise Unreadable(f"{path}: no such file, and no folder or pattern with traces (*.json, *.json.gz, *.json.zst)")
    return files


def _is_trace_name(name: str) -> bool:
    return name.lower().endswith(TRACE_SUFFIXES) or ".pt.trace.json" in name.lower()


def _of_one_of_many(system: fsspec.AbstractFileSystem, name: str) -> list[TraceFile]:
    """As `_of_file`; of a file that went away or is broken, itself, so that reading it tells why, beside the others."""
    try:
        return _of_file(system, name)
    except Exception:  # of any class, as in `stores`
        return [TraceFile(_url(system, name))]


def _url(system: fsspec.AbstractFileSystem, name: str) -> str:
    return str(system.unstrip_protocol(name)).removeprefix("file://")


def _of_file(system: fsspec.AbstractFileSystem, name: str) -> list[TraceFile]:
    about = system.info(name)
    whole = TraceFile(_url(system, name), "", version(about), int(about.get("size") or 0))
    if not name.lower().endswith(ARCHIVE_SUFFIXES):
        return [whole]
    with stored(whole.url) as archive:
        return [replace(whole, member=member, size=size) for member, size in sorted(_members(name, archive))]


def _members(name: str, archive: ByteFile) -> Iterator[tuple[str, int]]:
    """Names and sizes of the traces in an archive; only plain files count, and nothing is ever unpacked to disk."""
    if name.lower().endswith(".zip"):
        with zipfile.ZipFile(cast("str", archive)) as zipped:
            yield from ((one.filename, one.file_size) for one in zipped.infolist() if _is_trace_name(one.filename))
    else:
        with _tar(archive) as tar:
            yield from ((one.name, one.size) for one in _until_cut(tar) if one.isfile() and _is_trace_name(one.name))


def _until_cut(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The archive's members; of one that is cut off, those that are there."""
    count = 0
    try:
        for count, one in enumerate(tar, 1):  # noqa: B007
            yield one
    except tarfile.TarError:
        if not count:
            raise


@contextmanager
def _tar(archive: ByteFile) -> Iterator[tarfile.TarFile]:
    with (
        closing(_Decompressed(archive)) as plain,
        tarfile.open(fileobj=cast("tarfile._Fileobj", plain), mode="r|") as tar,
    ):
        yield tar


@contextmanager
def opened(file: TraceFile) -> Iterator[Stream]:
    """The trace's decompressed bytes as a stream; Unreadable where it cannot be opened."""
    with ExitStack() as stack:
        try:
            stream = stack.enter_context(closing(_Decompressed(_raw(file, stack))))
        except _NOT_OPENED as error:
            raise Unreadable(f"{file.name}: {getattr(error, 'strerror', None) or error}") from error
        yield stream


def _raw(file: TraceFile, stack: ExitStack) -> ByteFile:
    """The trace's bytes as they are stored, open for as long as the stack is."""
    raw: ByteFile = stack.enter_context(stored(file.url))
    if not file.member:
        return raw
    if file.url.lower().endswith(".zip"):
        zipped = stack.enter_context(zipfile.ZipFile(cast("str", raw)))
        return cast("ByteFile", stack.enter_context(zipped.open(file.member)))
    return _member(stack.enter_context(_tar(raw)), file.member)


def _member(tar: tarfile.TarFile, name: str) -> ByteFile:
    for one in tar:
        if one.name == name and one.isfile() and (inner := tar.extractfile(one)):
            return inner
    raise KeyError(f"the archive no longer holds {name}")


class _Decompressed:
    """Decompresses gzip (also in several members), zstd, bz2 and xz while it is read; other bytes pass as they are.

    A stream that breaks off, or whose checksum is missing or wrong, gives all bytes up to there and then ends, with
    `broken` told. A thread is some pieces ahead, so that decompression, and waiting for the file, cost no time of the
    reader's where there is a second core.
    """

    def __init__(self, raw: ByteFile) -> None:
        self.broken = False
        self._raw = raw
        self._head = self._more()
        self._is_gzip = self._head.startswith(_GZIP)
        self._new = _decompressor(self._head)
        self._engine = self._new() if self._new else None
        self._ready = b""
        self._given = 0
        self._made = 0
        self._thread = ThreadPoolExecutor(1, "decompression")
        self._ahead = deque(self._thread.submit(self._piece) for _ in range(PIECES_AHEAD))

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes, none only at the end."""
        while self._given >= len(self._ready):
            piece = self._ahead[0].result()
            if piece is None:
                return b""
            self._ready, self._given = piece, 0
            self._ahead.popleft()
            self._ahead.append(self._thread.submit(self._piece))
        part = self._ready[self._given : self._given + size]
        self._given += len(part)
        return part

    def close(self) -> None:
        """Waits until the thread no longer reads the file."""
        self._thread.shutdown(cancel_futures=True)

    def _piece(self) -> bytes | None:
        """More bytes, perhaps none yet; None at the end."""
        more = b"" if self.broken else self._head or self._more()
        if not more:
            return None
        self._head = b""
        piece = self._decompress(more)
        self._made += len(piece)
        return piece

    def _more(self) -> bytes:
        try:
            return self._raw.read(COMPRESSED_BYTES)
        except _BROKEN:
            self.broken = True
            return b""

    def _decompress(self, more: bytes) -> bytes:
        if self._engine is None or self._new is None:
            return more
        parts = []
        while more:
            if self._engine.eof:
                self._engine = self._new()
            try:
                parts.append(self._engine.decompress(more))
            except _BROKEN:
                self.broken = True
                return self._up_to_the_break() or b"".join(parts)
            more = self._engine.unused_data.lstrip(b"\0") if self._engine.eof else b""
        return b"".join(parts)

    def _up_to_the_break(self) -> bytes:
        """What a broken gzip holds beyond what was given, to the byte: read again from its start, in small steps."""
        if not self._is_gzip:
            return b""
        found, place = [], 0
        try:
            self._raw.seek(0)
            for part in _in_small_steps(self._raw):
                place += len(part)
                if place > self._made:
                    found.append(part[max(len(part) - (place - self._made), 0) :])
        except (*_BROKEN, AttributeError):  # the latter: it cannot be read again
            pass
        return b"".join(found)


def _in_small_steps(raw: ByteFile) -> Iterator[bytes]:
    """Decompresses gzip so that of a broken one a byte at most is lost before the broken place; then raises."""
    engine = zlib.decompressobj(wbits=31)
    while more := raw.read(COMPRESSED_BYTES):
        while more:
            before = engine.copy()
            try:
                part = engine.decompress(more, STEP_BYTES)
            except zlib.error:
                while part := before.decompress(more, 1):
                    more = before.unconsumed_tail
                    yield part
                raise
            yield part
            more = engine.unconsumed_tail
            if engine.eof:
                more, engine = engine.unused_data.lstrip(b"\0"), zlib.decompressobj(wbits=31)


class _Engine(Protocol):
    eof: bool
    unused_data: bytes

    def decompress(self, data: bytes, /) -> bytes: ...


class _NewEngine(Protocol):
    def __call__(self) -> _Engine: ...


def _decompressor(head: bytes) -> _NewEngine | None:
    known: dict[bytes, _NewEngine] = {
        _GZIP: lambda: cast("_Engine", isal_zlib.decompressobj(wbits=31)),
        b"\x28\xb5\x2f\xfd": lambda: cast("_Engine", zstandard.ZstdDecompressor().decompressobj()),
        b"BZh": lambda: cast("_Engine", bz2.BZ2Decompressor()),
        b"\xfd7zXZ": lambda: cast("_Engine", lzma.LZMADecompressor()),
    }
    return next((new for magic, new in known.items() if head.startswith(magic)), None)
