"""The text of a trace as batches of events, in bounded memory, whatever its layout and however broken.

A trace is an object whose `traceEvents` is a list of objects, or that bare list. The text is read in blocks. A block is
cut where one object ends and the next begins; whether such a place really lies between two events, and not inside a
string or a nested list, is decided by the decoder itself: text that starts at an event and decodes as a whole list up
to the cut can only have been cut between events.

Where the text is broken, the decoder's error tells the place. What stands before it is kept; the event around it is
mended if it suffers from a known illness (see `mended`) and left out if not; reading goes on at the next event.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Generic, Protocol, TypeVar

import msgspec

from tracekit.errors import TooLarge, Unreadable
from tracekit.read import limits

BLOCK_BYTES = 1 << 18
"""Text decoded at once: so much that the cost per call vanishes, so little that its objects stay in the CPU's cache."""

_TRIES = 100_000
"""Ends of objects in a row none of which is followed by another one: more than any event has."""

_MANY_MENDED = 100
"""With more, the file's writer is ill, not one of its events."""

Batch = TypeVar("Batch")

_MARK = b"\xef\xbb\xbf"
_PHASE = re.compile(rb'"ph"\s*:')
_BOUNDARY = re.compile(rb'\}\s*(,)\s*\{\s*"')
_BETWEEN = re.compile(rb"\}\s*(,)\s*\{")
_EVENT_END = re.compile(rb"\}\s*,?\s*(?:(\[)\s*\{|\{)")
_OPENING = re.compile(rb"(?:\[\s*+(?:\]\s*+,?\s*+)?+)++")  # possessive: else it remembers each of a million turns
_CLOSERS = re.compile(rb"[\]\s]*+")
_EVENT_OR_CLOSE = re.compile(rb"\{|(?<!\[)\]")
_EVENT_BEGIN = re.compile(rb'\{\s*"')
_CLOSE = re.compile(rb'\]\s*(?:,\s*"|\}\s*$)|\}\s*\]\s*$')
_AFTER_CLOSE = re.compile(rb'\s*(?:,\s*(?:"|$)|\}|$)')
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_ERROR_BYTE = re.compile(r"\(byte (\d+)\)")
_METADATA_KEYS = (
    "distributedInfo", "baseTimeNanoseconds", "deviceProperties", "displayTimeUnit", "host_name", "hostname",
)  # fmt: skip

_WITHOUT_CONTROL_BYTES = b" " * 32 + bytes(range(32, 256))
_NO_NUMBER = re.compile(rb"([:\[,]\s*)(?:-?(?:Infinity|inf|INF)|[Nn]a[Nn]|NAN|None|undefined)(?=\s*[,}\]])")
_EMPTY_VALUE = re.compile(rb":(\s*)(?=[,}])")
_HIGH, _LOW = rb"u[dD][89abAB][0-9a-fA-F]{2}", rb"u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = re.compile(
    rb'((?:\\\\)++|\\(?:["/bfnrt]|%b\\%b|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}))|\\(%b|%b)|\\' % (_HIGH, _LOW, _HIGH, _LOW)
)
"""Good escapes; half of a pair that makes one character; or a backslash that escapes nothing."""
_DOUBLE_COMMA = re.compile(rb",(?:\s*+,)++")
_MISSING_COMMA = re.compile(rb"\}(\s*)\{")


class Stream(Protocol):
    """Decompressed bytes, in order."""

    def read(self, size: int, /) -> bytes: ...


class TraceText(Generic[Batch]):
    """Reads one trace's text; `decode` makes a batch of the text of a list of events, or raises as msgspec does.

    After `batches` is exhausted: `metadata` holds what stands beside `traceEvents`; `lost` and `mended` the offsets, in
    the decompressed text, of events that were left out or mended; `truncated` tells that the text ends too early.
    """

    def __init__(self, stream: Stream, decode: Callable[[bytes], Batch]) -> None:
        self.metadata: dict[str, object] = {}
        self.lost: list[int] = []
        self.mended: list[int] = []
        self.truncated = False
        self._stream = stream
        self._decode = decode
        self._offset = 0
        self._ended = False
        self._closed = False
        self._breaks = 0
        self._unmendable_to = 0
        self._lost_until = -1
        self._lost_phases = 0  # of events that count as lost already

    def batches(self) -> Iterator[Batch]:
        """The events, a batch for about every `BLOCK_BYTES` of text; Unreadable where the text is no trace."""
        text = self._start()
        while not self._closed and not (self._ended and not text.strip()):
            block = self._read(max(BLOCK_BYTES, len(text)))
            text += block
            while text and not self._closed:
                batch, used = self._next(text)
                if batch is not None:
                    yield batch
                if not used:
                    break
                text = self._past(text, used)
        self.truncated = self.truncated or not self._closed
        if self._closed:
            self._finish(text)

    def _read(self, size: int) -> bytes:
        """More text, less only at the end; a stream that fails half-way ends there."""
        parts: list[bytes] = []
        while size > 0 and not self._ended:
            try:
                part = self._stream.read(size)
            except (EOFError, OSError, ValueError) as broken:
                if isinstance(broken, FileNotFoundError | PermissionError):
                    raise
                part, self.truncated = b"", True
            self._ended = not part
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _past(self, text: bytes, used: int) -> bytes:
        self._offset += used
        return text[used:]

    def _start(self) -> bytes:
        """Reads up to the first event and keeps the metadata before it."""
        text = self._read(max(BLOCK_BYTES, len(_MARK))).removeprefix(_MARK)
        while not text.strip() and not self._ended:
            text = self._past(text, len(text)) + self._read(max(BLOCK_BYTES, 1))
        if text.lstrip()[:1] == b"[":
            return self._past(text, text.index(b"[") + 1)
        while not (key := _EVENTS_KEY.search(text)) and not self._ended and len(text) < limits.METADATA_BYTES:
            text += self._read(max(len(text), BLOCK_BYTES))
        if key is None:
            raise Unreadable("it holds no traceEvents, so it is no Kineto trace")
        while (after := _EVENTS_KEY.search(text, key.end())) and not _decodes(_head(text, key)):
            key = after
        self.metadata.update(_metadata(_head(text, key)))
        return self._past(text, key.end())

    def _finish(self, text: bytes) -> None:
        """Keeps the metadata that stands behind the events."""
        while not self._ended and len(text) < limits.METADATA_BYTES:
            text += self._read(max(len(text), BLOCK_BYTES))
        text = text.strip().removeprefix(b",").strip()
        if text and text != b"}":
            self.metadata.update(_metadata(b"{" + text))

    def _next(self, text: bytes) -> tuple[Batch | None, int]:
        """A batch from the start of the text and the bytes that it took; none and 0 where more text is needed."""
        oversize = len(text) > limits.EVENT_BYTES
        cut = len(text.rstrip().removesuffix(b",")) if self._ended else _boundary_before(text, len(text))
        if cut < 0 and not oversize:
            return None, 0
        cut = len(text) if cut < 0 else cut
        try:
            return self._decode(b"".join((b"[", memoryview(text)[:cut], b"]"))), len(text) if self._ended else cut + 1
        except msgspec.DecodeError as error:
            reason, at = str(error), _place(error, text[:cut])
        except RecursionError:
            reason, at, oversize = "truncated", cut, True
        if "UTF-8" in reason:
            return self._broken(text, at)
        if "trailing characters" in reason:
            return self._close(text, at)
        if (stray := _stray_bracket(text)) >= 0:
            return self._without_brackets(text, stray)
        if "truncated" in reason or at >= cut:
            return self._incomplete(text, cut, oversize)
        return self._broken(text, at)

    def _close(self, text: bytes, at: int) -> tuple[Batch | None, int]:
        """The list of events ends here, unless what follows shows that its bracket was a stray one."""
        end = text.rfind(b"]", 0, at + 1)
        while end >= 0 and not _decodes(b"[" + text[: end + 1]):
            end = text.rfind(b"]", 0, end)
        if end < 0:
            return self._broken(text, at)
        try:
            batch = self._decode(b"[" + text[: end + 1])
        except (msgspec.DecodeError, RecursionError) as error:
            return self._broken(text, _place(error, text))
        if _AFTER_CLOSE.match(text, end + 1):
            self._closed = True
            return batch, end + 1
        self._note_mended(end)
        return batch, _after_stray_close(text, end)

    def _without_brackets(self, text: bytes, at: int) -> tuple[Batch | None, int]:
        """The events before brackets that open lists where an event should begin; the brackets are passed over."""
        try:
            batch = self._decode(b"[" + text[:at].rstrip().removesuffix(b",") + b"]")
        except (msgspec.DecodeError, RecursionError) as error:
            return self._broken(text, _place(error, text))
        self._note_mended(at)
        return batch, _OPENING.match(text, at).end()  # type: ignore[union-attr]

    def _incomplete(self, text: bytes, cut: int, oversize: bool) -> tuple[Batch | None, int]:
        """The cut was not between two events: an earlier one is, or more text is needed, or the text ends too early."""
        batch, used = self._good_before(text, cut)
        if batch is not None:
            return batch, used
        if oversize:
            return None, self._lose(text, 0, _first_event(text))
        if not self._ended:
            return None, 0
        self.truncated = True
        return (None, self._lose(text, 0, _first_event(text))) if _BOUNDARY.search(text) else (None, len(text))

    def _good_before(self, text: bytes, end: int) -> tuple[Batch | None, int]:
        """The longest run of whole events at the start of the text that ends before `end`, as far as tries go."""
        tries = 0
        while (end := _boundary_before(text, end)) >= 0:
            try:
                return self._decode(b"[" + text[:end] + b"]"), end + 1
            except (msgspec.DecodeError, RecursionError):
                tries += 1
            end = end if tries < 8 else end - (end >> 3)
        return None, 0

    def _whole_before(self, text: bytes, at: int) -> tuple[Batch | None, int]:
        """The whole events that end right before a broken place that begins like none."""
        end = text.rfind(b"}", 0, at) + 1
        try:
            batch = self._decode(b"[" + text[:end] + b"]") if end else None
        except (msgspec.DecodeError, RecursionError):
            return None, 0
        return batch, end + (text[end : end + 1] == b",")

    def _broken(self, text: bytes, at: int) -> tuple[Batch | None, int]:
        """Takes the good events before a broken place; if there are none, mends or loses the event around it."""
        if len(self.mended) > _MANY_MENDED and self._offset >= self._unmendable_to:
            batch, used = self._all_mended(text, at)
            if batch is not None:
                return batch, used
        batch, used = self._good_before(text, at)
        if batch is None:
            batch, used = self._whole_before(text, at)
        if batch is not None:
            return batch, used
        boundary = _BOUNDARY.search(text, at)
        end = boundary.start(1) if boundary else -1
        if self._ended and (close := self._close_after(text, at, end if end >= 0 else len(text))) >= 0:
            end = close
        if end < 0 and not self._ended and len(text) <= limits.EVENT_BYTES:
            return None, 0
        if end < 0:
            end = len(text)
            self.metadata.update(_known_keys(text))
        return self._mend(text, at, end)

    @staticmethod
    def _close_after(text: bytes, at: int, before: int) -> int:
        """The bracket that closes the list of events, told by whole metadata behind it; -1 where there is none."""
        for close in _CLOSE.finditer(text, max(text.rfind(b"}", 0, at), 0), before):
            end = text.index(b"]", close.start())
            rest = text[end + 1 :].strip().removeprefix(b",")
            if not rest or _decodes(b"{" + rest):
                return end
        return -1

    def _mend(self, text: bytes, at: int, end: int) -> tuple[Batch | None, int]:
        """The event or events in `text[:end]`, mended; or those behind the broken one, which counts as lost."""
        used = end + (text[end : end + 1] == b",")
        try:
            batch = self._decode(b"[" + mended(text[:end]) + b"]")
        except (msgspec.DecodeError, RecursionError):
            start = _whole_event_before(text, end)
            return None, self._lose(text, at, used if start < 0 else start)
        self._note_mended(at)
        return batch, used

    def _all_mended(self, text: bytes, at: int) -> tuple[Batch | None, int]:
        """All whole events of the text, mended at once, which is quicker where most of them are ill."""
        cut = _boundary_before(text, len(text))
        try:
            batch = self._decode(b"[" + mended(text[: max(cut, 0)]) + b"]")
        except (msgspec.DecodeError, RecursionError):
            self._unmendable_to = self._offset + cut
            return None, 0
        if cut < 0:
            return None, 0
        self._note_mended(at)
        return batch, cut + 1

    def _note_mended(self, at: int) -> None:
        self.mended.append(self._offset + at)
        self._check()

    def _check(self) -> None:
        self._breaks += 1
        if self._breaks > limits.BROKEN_PLACES:
            raise TooLarge(f"its text is broken in more than {limits.BROKEN_PLACES:,} places")

    def _lose(self, text: bytes, at: int, used: int) -> int:
        """Gives up that much text, broken at a place, and counts the events in it; not again one known to be lost.

        An event that is broken into pieces has its `ph` in one of them.
        """
        known = self._lost_phases if self._lost_until == self._offset else 0
        phases = len(_PHASE.findall(text, 0, used))
        events = max(phases - known, 0 if self._lost_until == self._offset else 1)
        self.lost += [self._offset + at] * events
        self._check()
        self._lost_phases = max(known - phases, 0) + max(events - phases, 0)
        self._lost_until = self._offset + used
        return used


def _first_event(text: bytes) -> int:
    """How many bytes the first of several broken events takes, as far as can be told."""
    boundary = _BOUNDARY.search(text)
    return boundary.end(1) if boundary else len(text)


def mended(text: bytes) -> bytes:
    """Text of events with the known illnesses healed.

    These are: bytes that are not UTF-8; control bytes inside strings; a backslash that escapes nothing, or half a
    character; a value that is empty, NaN or infinite (all become null); two commas, or none, between events.
    """
    text = text.decode("utf-8", "replace").encode().translate(_WITHOUT_CONTROL_BYTES)
    text = _ESCAPE.sub(lambda found: found[0] if found[1] else rb"\ufffd" if found[2] else rb"\\", text)
    text = _NO_NUMBER.sub(rb"\1null", text)
    text = _EMPTY_VALUE.sub(rb":\1null", text)
    return _MISSING_COMMA.sub(rb"},\1{", _DOUBLE_COMMA.sub(b",", text)).strip().strip(b",")


def _head(text: bytes, key: re.Match[bytes]) -> bytes:
    """What stands before the events, as a whole object; only then is the key no part of some text."""
    return text[: key.start()] + b'"traceEvents":0}'


def _boundary_before(text: bytes, end: int) -> int:
    """The last comma between two objects that lies before `end`; -1 where there is none, or none is near."""
    close = end
    for _ in range(_TRIES):
        close = text.rfind(b"}", 0, close)
        if close < 0:
            break
        if found := _BETWEEN.match(text, close, end):
            return found.start(1)
    return -1


def _after_stray_close(text: bytes, at: int) -> int:
    """Where reading goes on after a bracket that closes nothing: the bracket that does, or the next event."""
    run = _CLOSERS.match(text, at).end()  # type: ignore[union-attr]
    last = text.rfind(b"]", at + 1, run)
    if last >= 0 and _AFTER_CLOSE.match(text, last + 1):
        return last
    goes_on = _EVENT_OR_CLOSE.search(text, run)
    return goes_on.start() if goes_on else len(text)


def _stray_bracket(text: bytes) -> int:
    """Where a list begins between the first events, which would make one of all the rest; -1 where none does."""
    if text.lstrip().startswith(b"["):
        return text.index(b"[")
    for end in islice(_EVENT_END.finditer(text), 16):
        if end[1] and _decodes(b"[" + text[: end.start() + 1] + b"]"):
            return end.start(1)
    return -1


def _whole_event_before(text: bytes, end: int) -> int:
    """Where, in text that begins with a broken event, a whole one begins that reaches to `end`; -1 if none does.

    An event whose end is missing looks as if it went on to the end of the next one.
    """
    for tries, begin in enumerate(_EVENT_BEGIN.finditer(text, 1, end)):
        event = text[begin.start() : end]
        if tries > 100:
            break
        if b'"ph"' in event and _decodes(event):
            return begin.start()
    return -1


def _place(error: msgspec.DecodeError | RecursionError, text: bytes) -> int:
    """Where in the events' text (which the decoder saw behind one bracket) it broke."""
    found = _ERROR_BYTE.search(str(error))
    if found:
        return max(int(found[1]) - 1, 0)
    try:
        text.decode()
    except UnicodeDecodeError as wrong:
        return wrong.start
    return 0


def _decodes(text: bytes) -> bool:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _metadata(text: bytes) -> dict[str, object]:
    """The text of an object as a dictionary; where it is broken, those of its known keys that can still be read."""
    for attempt in (text, text.decode("utf-8", "replace").encode(), mended(text)):
        try:
            found = msgspec.json.decode(attempt)
        except (msgspec.DecodeError, RecursionError):
            continue
        return found if isinstance(found, dict) else {}
    return dict(_known_keys(text))


def _known_keys(broken: bytes) -> Iterator[tuple[str, object]]:
    text = mended(broken).decode()
    for key in _METADATA_KEYS:
        if found := re.search(rf'"{key}"\s*:\s*', text):
            try:
                yield key, json.JSONDecoder().raw_decode(text, found.end())[0]
            except (ValueError, RecursionError):
                continue
