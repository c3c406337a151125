"""What fsspec reaches: disks, object stores, web servers. Whatever such a store fails with becomes a LostFile.

Each store raises errors of classes of its own, of which fsspec knows as little as we do; so here, and only around calls
into it, any error counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import fsspec

from tracekit.errors import LostFile, TracekitError

PIECE_BYTES = 1 << 23
"""So much is fetched at once from where each request costs time."""
IN_THIS_PROCESS = "memory://"
_CHANGES = ("ETag", "etag", "mtime", "LastModified", "last_modified", "Last-Modified", "created")


@contextmanager
def told_as(name: str) -> Iterator[None]:
    """LostFile, with the name and one line of reason, for whatever the store inside fails with."""
    try:
        yield
    except TracekitError:
        raise
    except Exception as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise LostFile(f"{name}: {' '.join(str(reason).split())}") from error


def reached(path: str) -> tuple[Any, str]:
    """The path's file system, which forgets what it listed before, and the path in it."""
    system, inner = fsspec.core.url_to_fs(path)
    system.invalidate_cache()
    return system, inner


def version(about: Mapping[str, Any]) -> str:
    """What changes when a file's content does, from what its store tells; empty where that is too little."""
    changed = next((about[key] for key in _CHANGES if about.get(key)), "")
    return f"{changed}/{about.get('size') or 0}" if changed else ""


def has_changed(url: str, since: str) -> bool:
    """Whether a file is no longer of a version; not where there is none to compare with."""
    try:
        system, inner = reached(url)
        now = version(system.info(inner))
    except Exception:  # what is gone, or out of reach by now, was whole when it was read
        return False
    return bool(now and since) and now != since


@contextmanager
def stored(url: str) -> Iterator[StoredFile]:
    """A file's bytes as they are stored."""
    with told_as(url):
        file = StoredFile(url)
    try:
        yield file
    finally:
        file.close()


class StoredFile:
    """A file of a store. It is fetched piece by piece where its server allows, else as one stream."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._system, self._inner = fsspec.core.url_to_fs(url)
        self._file = self._opened(PIECE_BYTES)

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes, none only at the end."""
        with told_as(self._url):
            try:
                return bytes(self._file.read(size))
            except ValueError:  # a web server that cannot send a part
                if not self._url.startswith("http"):
                    raise
                self._as_stream()
                return bytes(self._file.read(size))

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """The new place; ValueError where it can only be read onwards."""
        self._file.seek(offset, whence)
        return self.tell()

    def tell(self) -> int:
        """How many bytes lie before what is read next."""
        return int(self._file.tell())

    def seekable(self) -> bool:
        """Whether `seek` is worth a try."""
        return True

    def close(self) -> None:
        """Lets go of it."""
        self._file.close()

    def _opened(self, piece: int) -> Any:
        return self._system.open(self._inner, "rb", block_size=piece)

    def _as_stream(self) -> None:
        """Opened anew without parts, and read up to the place where it is."""
        left = self._file.tell()
        self._file.close()
        self._file = self._opened(0)
        while left and (passed := self._file.read(min(left, PIECE_BYTES))):
            left -= len(passed)
