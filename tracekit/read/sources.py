"""Which files a run is made of, and their bytes, decompressed.

Paths, globs, folders, archives and URLs all go through fsspec, so `s3://`, `gs://` and `http://` need only their fsspec
package.
"""

from __future__ import annotations

import struct
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import cast

import fsspec

from tracekit.errors import Unreadable
from tracekit.read import decompression, limits
from tracekit.read.decompression import ByteFile, Decompressed
from tracekit.read.stores import reached, stored, told_as, version
from tracekit.read.text import Stream

TRACE_SUFFIXES = (".json", ".json.gz", ".json.zst", ".pt.trace.json", ".pt.trace.json.gz")
ARCHIVE_SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tar.xz")
_BROKEN = (*decompression.BROKEN, tarfile.TarError, zipfile.BadZipFile)
_NOT_OPENED = (*_BROKEN, KeyError, ImportError, RuntimeError, struct.error)  # zip tells of passwords by RuntimeError


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
    if about.get("type") == "other":  # a pipe would be waited for, a device never ends
        return []
    whole = TraceFile(_url(system, name), "", version(about), int(about.get("size") or 0))
    if not name.lower().endswith(ARCHIVE_SUFFIXES):
        return [whole]
    with stored(whole.url) as archive:
        members = sorted(islice(_members(name, archive), limits.MEMBERS + 1))
    if len(members) > limits.MEMBERS:
        raise Unreadable(f"{name}: holds more than {limits.MEMBERS:,} traces")
    return [replace(whole, member=member, size=size) for member, size in members]


def _members(name: str, archive: ByteFile) -> Iterator[tuple[str, int]]:
    """Names and sizes of the traces in an archive; only plain files count, and nothing is ever unpacked to disk."""
    if name.lower().endswith(".zip"):
        with zipfile.ZipFile(cast("str", archive)) as zipped:
            yield from ((one.filename, one.file_size) for one in zipped.infolist() if _is_trace_name(one.filename))
    else:
        with _tar(archive) as tar:
            yield from ((one.name, one.size) for one in _until_cut(tar) if _is_plain(one) and _is_trace_name(one.name))


def _until_cut(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The archive's members; of one that is cut off, those that are there."""
    count = 0
    try:
        for count, one in enumerate(tar, 1):  # noqa: B007
            yield one
    except tarfile.TarError:
        if not count:
            raise


def _is_plain(one: tarfile.TarInfo) -> bool:
    """Whether a member is a file with all its bytes; a sparse one's holes would be terabytes of nothing."""
    return one.isfile() and not one.issparse()


@contextmanager
def _tar(archive: ByteFile) -> Iterator[tarfile.TarFile]:
    with (
        closing(Decompressed(archive, _BROKEN)) as plain,
        tarfile.open(fileobj=cast("tarfile._Fileobj", plain), mode="r|") as tar,
    ):
        yield tar


@contextmanager
def opened(file: TraceFile) -> Iterator[Stream]:
    """The trace's decompressed bytes as a stream; Unreadable where it cannot be opened."""
    with ExitStack() as stack:
        try:
            stream = stack.enter_context(closing(Decompressed(_raw(file, stack), _BROKEN)))
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
        about = zipped.getinfo(file.member)
        decompression.check(about.file_size, about.compress_size)
        return cast("ByteFile", stack.enter_context(zipped.open(file.member)))
    return _member(stack.enter_context(_tar(raw)), file.member)


def _member(tar: tarfile.TarFile, name: str) -> ByteFile:
    for one in tar:
        if one.name == name and _is_plain(one) and (inner := tar.extractfile(one)):
            return inner
    raise KeyError(f"the archive no longer holds {name}")
