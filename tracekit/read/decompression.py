"""Compressed files as they decompress, in pieces of bounded size whatever they hold.

What a file is compressed with is told by its first bytes, never by its name.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Protocol, cast

import zstandard
from isal import isal_zlib

from tracekit.errors import TooLarge
from tracekit.read import limits

COMPRESSED_BYTES, PIECE_BYTES, PIECES_AHEAD = 1 << 18, 1 << 22, 3
STEP_BYTES = 1 << 12
BROKEN = (
    *(cast("type[Exception]", isal_zlib.error), zlib.error, lzma.LZMAError, zstandard.ZstdError),
    *(EOFError, ValueError, OSError),
)
"""What a file that breaks off, or a store that fails, is told by."""
_GZIP = b"\x1f\x8b"


class ByteFile(Protocol):
    """A file opened for reading bytes."""

    def read(self, size: int = -1, /) -> bytes: ...
    def seek(self, offset: int, /) -> int: ...


class Decompressed:
    """Decompresses gzip (also in several members), zstd, bz2 and xz while it is read; other bytes pass as they are.

    A stream that breaks off, or whose checksum is missing or wrong, gives all bytes up to there and then ends, with
    `broken` told. A thread is some pieces ahead, so that decompression, and waiting for the file, cost no time of the
    reader's where there is a second core. TooLarge where the text is beyond the limits.
    """

    def __init__(self, raw: ByteFile, broken: tuple[type[Exception], ...] = BROKEN) -> None:
        self.broken = False
        self._raw = raw
        self._is_broken = broken
        self._taken = 0
        self._made = 0
        self._ready = b""
        self._given = 0
        self._pieces = self._decompressed(self._more())
        self._thread = ThreadPoolExecutor(1, "decompression")
        self._ahead = deque(self._thread.submit(next, self._pieces, None) for _ in range(PIECES_AHEAD))

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes, none only at the end."""
        while self._given >= len(self._ready):
            piece = self._ahead[0].result()
            if piece is None:
                return b""
            self._ready, self._given = piece, 0
            self._ahead.popleft()
            self._ahead.append(self._thread.submit(next, self._pieces, None))
        part = self._ready[self._given : self._given + size]
        self._given += len(part)
        return part

    def close(self) -> None:
        """Waits until the thread no longer reads the file."""
        self._thread.shutdown(cancel_futures=True)

    def _decompressed(self, head: bytes) -> Iterator[bytes]:
        """The text, piece by piece; of a gzip that breaks, to the byte."""
        decompress = next((one for magic, one in _FORMATS.items() if head.startswith(magic)), _as_it_is)
        try:
            for piece in decompress(self._compressed(head)):
                self._made += len(piece)
                check(self._made, self._taken)
                yield piece
        except self._is_broken:
            self.broken = True
            if head.startswith(_GZIP):
                yield from self._up_to_the_break()

    def _compressed(self, head: bytes) -> Iterator[bytes]:
        while head:
            self._taken += len(head)
            yield head
            head = self._more()

    def _more(self) -> bytes:
        """More of the file, none at its end or where it breaks off."""
        try:
            return self._raw.read(COMPRESSED_BYTES)
        except self._is_broken:
            self.broken = True
            return b""

    def _up_to_the_break(self) -> Iterator[bytes]:
        """What a broken gzip holds beyond what was given: read again from its start, in small steps."""
        place, given = 0, self._made
        ends: tuple[type[Exception], ...] = (*self._is_broken, AttributeError)  # the latter: it cannot be read again
        try:
            self._raw.seek(0)
            for part in _in_small_steps(self._raw):
                place += len(part)
                if place > given:
                    yield part[max(len(part) - (place - given), 0) :]
        except ends:
            return


def check(made: int, taken: int) -> None:
    """TooLarge where so much text out of so many compressed bytes is beyond the limits."""
    if made > limits.TEXT_BYTES:
        raise TooLarge(f"its text is longer than {limits.TEXT_BYTES >> 30} GiB, so it is not read")
    if made > limits.PACKED_FROM_BYTES and made > limits.PACKED * taken:
        raise TooLarge(f"its text is over {limits.PACKED} times as long as the compressed file: no trace's is")


def _as_it_is(compressed: Iterator[bytes]) -> Iterator[bytes]:
    yield from compressed


def _gzip(compressed: Iterator[bytes]) -> Iterator[bytes]:
    engine = isal_zlib.decompressobj(wbits=31)
    for more in compressed:
        piece = b""
        while more or len(piece) == PIECE_BYTES:  # a full piece may have left something behind
            if engine.eof:
                engine = isal_zlib.decompressobj(wbits=31)
            piece = engine.decompress(more, PIECE_BYTES)
            yield piece
            more = engine.unused_data.lstrip(b"\0") if engine.eof else engine.unconsumed_tail


def _zstd(compressed: Iterator[bytes]) -> Iterator[bytes]:
    source = cast("IO[bytes]", _Source(compressed))
    with zstandard.ZstdDecompressor().stream_reader(source, read_across_frames=True) as reader:
        while piece := reader.read(PIECE_BYTES):
            yield piece


class _Source:
    """Pieces as a file, for a library that wants to read one."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = b""

    def read(self, size: int, /) -> bytes:
        part = self._left or next(self._pieces, b"")
        self._left = part[size:]
        return part[:size]


def _buffering(new: Callable[[], bz2.BZ2Decompressor | lzma.LZMADecompressor]) -> Callable[..., Iterator[bytes]]:
    """Decompression by an engine that keeps what it was given until it needs more."""

    def pieces(compressed: Iterator[bytes]) -> Iterator[bytes]:
        engine = new()
        for more in compressed:
            while more or not (engine.needs_input or engine.eof):
                if engine.eof:
                    engine = new()
                yield engine.decompress(more, PIECE_BYTES)
                more = engine.unused_data.lstrip(b"\0") if engine.eof else b""

    return pieces


_FORMATS: dict[bytes, Callable[[Iterator[bytes]], Iterator[bytes]]] = {
    _GZIP: _gzip,
    b"\x28\xb5\x2f\xfd": _zstd,
    b"BZh": _buffering(bz2.BZ2Decompressor),
    b"\xfd7zXZ": _buffering(lzma.LZMADecompressor),
}


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
