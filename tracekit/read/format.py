"""The trace format, as far as it is read: structs that msgspec decodes events to.

https://github.com/pytorch/kineto writes it, after Chrome's Trace Event Format (`ph` X: a span; B, E: its begin and end;
i: an instant; s, t, f: flow arrows; M: names of processes). Any value may be of any type: other tools rewrite traces.
"""

from __future__ import annotations

from typing import Any, Union

import msgspec

from tracekit.read.columns import NO_ID

NOTHING = msgspec.Raw(b"null")


class Args(msgspec.Struct, gc=False):
    """What the `args` of spans say: of device work, the calls that launch it, and collectives.

    `rank` is what a tool that fuses files adds to all of them. Shapes stay text until somebody asks for them.
    """

    correlation: Any = NO_ID
    bytes: Any = None
    size: Any = None
    direction: Any = None
    rank: Any = None
    collective: Any = msgspec.field(name="Collective name", default=None)
    elements_in: Any = msgspec.field(name="In msg nelems", default=None)
    elements_out: Any = msgspec.field(name="Out msg nelems", default=None)
    group_size: Any = msgspec.field(name="Group size", default=None)
    dtype: Any = None
    group: Any = msgspec.field(name="Process Group Name", default=None)
    group_description: Any = msgspec.field(name="Process Group Description", default=None)
    group_ranks: Any = msgspec.field(name="Process Group Ranks", default=None)
    sequence: Any = msgspec.field(name="Seq", default=None)
    source: Any = msgspec.field(name="Src Rank", default=None)
    destination: Any = msgspec.field(name="Dst Rank", default=None)
    call_id: Any = msgspec.field(name="Comms Id", default=None)
    dimensions: msgspec.Raw = msgspec.field(name="Input Dims", default=NOTHING)
    types: msgspec.Raw = msgspec.field(name="Input type", default=NOTHING)
    grid: msgspec.Raw = NOTHING
    block: msgspec.Raw = NOTHING


class AllocationArgs(msgspec.Struct, gc=False):
    """The `args` of a `[memory]` instant."""

    bytes: Any = msgspec.field(name="Bytes", default=None)
    allocated: Any = msgspec.field(name="Total Allocated", default=None)
    reserved: Any = msgspec.field(name="Total Reserved", default=None)
    device_type: Any = msgspec.field(name="Device Type", default=None)
    device_index: Any = msgspec.field(name="Device Id", default=None)
    rank: Any = None


class Span(msgspec.Struct, gc=False, tag_field="ph", tag="X"):
    """Something with a start and a duration."""

    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    args: Args | str | int | float | bool | list[Any] | None = None


class Begin(Span, gc=False, tag_field="ph", tag="B"):
    """The first half of a span."""


class End(Span, gc=False, tag_field="ph", tag="E"):
    """The second half of the last span that began on the same thread."""


class Instant(msgspec.Struct, gc=False, tag_field="ph", tag="i"):
    """Something with a time only; allocations are such."""

    name: Any = None
    pid: Any = None
    ts: Any = None
    args: AllocationArgs | str | int | float | bool | list[Any] | None = None


class OldInstant(Instant, gc=False, tag_field="ph", tag="I"):
    """The same in an older spelling."""


class Names(msgspec.Struct, gc=False):
    """The `args` of metadata on processes."""

    name: Any = None
    labels: Any = None


class Named(msgspec.Struct, gc=False, tag_field="ph", tag="M"):
    """What a process is called, in a file that a tool fused perhaps after its rank; or other metadata."""

    name: Any = None
    pid: Any = None
    args: Names | str | int | float | bool | list[Any] | None = None


_WITH_SPANS = (Span, Begin, End, Instant, OldInstant)
_PASSED_OVER = tuple(
    msgspec.defstruct(f"Phase{ord(phase)}", [], gc=False, tag_field="ph", tag=phase)
    for phase in "stfCcNODPbnepRVvSTFrw(),"
)
"""Phases that are counted and say nothing about where time goes: flow arrows, counters, async and objects."""


def _with_raw_times(struct: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """The same struct with its times left as text, for absolute times that a float64 cannot hold."""
    times = [(time, msgspec.Raw, NOTHING) for time in ("ts", "dur") if time in struct.__struct_fields__]
    tag = struct.__struct_config__.tag
    return msgspec.defstruct(f"Exact{struct.__name__}", times, bases=(struct,), gc=False, tag_field="ph", tag=tag)


_EXACT_STRUCTS = tuple(_with_raw_times(struct) for struct in _WITH_SPANS)


class EventDecoder:
    """Decodes text of events to structs; of an event that is no such struct, nothing but that it was there is kept."""

    def __init__(self, structs: tuple[type[msgspec.Struct], ...]) -> None:
        event: Any = Union[(*structs, Named, *_PASSED_OVER)]
        self._list = msgspec.json.Decoder(list[event])
        self._raw = msgspec.json.Decoder(list[msgspec.Raw])
        self._one = msgspec.json.Decoder(event)

    def decode(self, text: bytes) -> tuple[list[Any], int]:
        """The events, and how many more there were that could not be understood."""
        try:
            return self._list.decode(text), 0
        except msgspec.ValidationError:
            return self._one_by_one(self._raw.decode(text))

    def _one_by_one(self, texts: list[msgspec.Raw]) -> tuple[list[Any], int]:
        events, strange = [], 0
        for text in texts:
            try:
                events.append(self._one.decode(text))
            except msgspec.ValidationError:
                strange += 1
        return events, strange


FAST, EXACT = EventDecoder(_WITH_SPANS), EventDecoder(_EXACT_STRUCTS)

EXACT_SPAN = _EXACT_STRUCTS[0]
OTHER_EVENTS: frozenset[type] = frozenset((*_WITH_SPANS[1:], *_EXACT_STRUCTS[1:], Named))
"""Events beside whole spans that say something: halves of spans, instants, and names of processes."""
