"""The Trace Event Format, as a schema and as rules between events, and what Perfetto's reader demands beyond it.

The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU. Perfetto's importer of it
(`json_trace_parser`) drops slices that cross, binds a flow to the slice around it, and gives process 0 a meaning.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from operator import itemgetter
from typing import Any

from jsonschema import Draft202012Validator

Event = dict[str, Any]
Track = tuple[int, int]

NUMBER = {"type": "integer", "minimum": 1, "maximum": 2**31 - 1}
TIME = {"type": "number", "minimum": 0}
FIELDS = {
    "name": {"type": "string"}, "cat": {"type": "string", "minLength": 1}, "pid": NUMBER, "tid": NUMBER, "ts": TIME,
    "dur": TIME, "id": {"type": ["integer", "string"]}, "bp": {"const": "e"}, "s": {"enum": ["g", "p", "t"]},
    "args": {"type": "object"},
}  # fmt: skip
DEMANDED = {
    "X": "name cat ts dur pid tid", "B": "name ts pid tid", "E": "ts pid tid", "i": "name ts pid tid s",
    "C": "name ts pid args",
    "b": "name cat id ts pid", "n": "name cat id ts pid", "e": "name cat id ts pid",
    "s": "name cat id ts pid tid", "t": "name cat id ts pid tid", "f": "name cat id ts pid tid bp",
}  # fmt: skip
COUNTED = {"type": "object", "minProperties": 1, "additionalProperties": {"type": "number"}}
TEXT, ORDER = {"type": "string"}, {"type": "integer"}
TOLD = {
    "process_name": {"name": TEXT}, "process_labels": {"labels": TEXT}, "process_sort_index": {"sort_index": ORDER},
    "thread_name": {"name": TEXT}, "thread_sort_index": {"sort_index": ORDER},
}  # fmt: skip
"""Metadata events (`M`) and their arguments."""


def _event(phase: str, demanded: str, **special: object) -> dict[str, Any]:
    fields = {**FIELDS, "ph": {"const": phase}, **special}
    return {"required": ["ph", *demanded.split()], "properties": fields, "additionalProperties": False}


def _metadata(name: str, args: dict[str, Any]) -> dict[str, Any]:
    exact = {"type": "object", "properties": args, "required": list(args), "additionalProperties": False}
    where = {"tid": NUMBER if name.startswith("thread") else False}
    demanded = "name pid args tid" if name.startswith("thread") else "name pid args"
    return _event("M", demanded, name={"const": name}, args=exact, **where)


TRACE = Draft202012Validator(
    {
        "type": "object",
        "required": ["traceEvents"],
        "properties": {
            "traceEvents": {"type": "array", "items": {"type": "object"}},
            "displayTimeUnit": {"enum": ["ms", "ns"]},
            "baseTimeNanoseconds": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
        },
    }
)
EVENTS = {
    phase: Draft202012Validator(_event(phase, demanded, **({"args": COUNTED} if phase == "C" else {})))
    for phase, demanded in DEMANDED.items()
}
UNKNOWN = Draft202012Validator(False)
METADATA = {name: Draft202012Validator(_metadata(name, args)) for name, args in TOLD.items()}


def strictly(text: bytes) -> Any:
    """The JSON that UTF-8 text is by the letter of RFC 8259, decimals exact; ValueError for whatever is not."""
    value = json.loads(text.decode(), parse_constant=_no_number, parse_float=Decimal, object_pairs_hook=_each_once)
    json.dumps(value, ensure_ascii=False, default=str).encode()  # no half of a surrogate pair
    return value


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError(f"a key twice: {pairs}")
    return dict(pairs)


def faults(trace: Any) -> list[str]:
    """What in a trace breaks the rules, as `strictly` read it; nothing for a good one."""
    found = [error.message for error in TRACE.iter_errors(trace)]
    if found:
        return found
    events = trace["traceEvents"]
    found = [f"{error.message}: {str(event)[:300]}" for event in events for error in _of_schema(event)]
    return found or [fault for rule in RULES for fault in rule(events)]


def _of_schema(event: Any) -> Iterator[Any]:
    phase = event.get("ph")
    validator = METADATA.get(event.get("name")) if phase == "M" else EVENTS.get(phase)
    return (validator or UNKNOWN).iter_errors(event)


def _named_once(events: list[Event]) -> Iterator[str]:
    """Each process and thread is told its name once, and all that hold slices are."""
    told = [(event["name"], event["pid"], event.get("tid")) for event in events if event["ph"] == "M"]
    yield from (f"told twice: {one}" for one in set(told) if told.count(one) > 1)
    for pid, tid in _by_track(events, "XB"):
        if ("process_name", pid, None) not in told or ("thread_name", pid, tid) not in told:
            yield f"no name of process {pid}, thread {tid}"


def _nested(events: list[Event]) -> Iterator[str]:
    """Of a thread, slices hold one another or are apart."""
    for track, slices in _by_track(events, "X").items():
        for one in _crossing(slices):
            yield f"crosses another on {track}: {one}"


def _crossing(slices: list[Event]) -> Iterator[Event]:
    open_until: list[Decimal] = []
    for one in sorted(slices, key=lambda one: one["ts"]):  # as in the file where times are the same
        while open_until and open_until[-1] <= one["ts"]:
            open_until.pop()
        if open_until and _end(one) > open_until[-1]:
            yield one
        open_until.append(_end(one))


def _balanced(events: list[Event]) -> Iterator[str]:
    """Each begin has its end, in a nest: `B` and `E` of a thread, `b` and `e` of an id."""
    opened: dict[object, list[Event]] = defaultdict(list)
    for event in sorted(events, key=lambda one: one.get("ts", 0)):
        key = (event["pid"], event.get("tid")) if event["ph"] in "BE" else (event.get("cat"), event.get("id"))
        if event["ph"] in "Bb":
            opened[key].append(event)
        elif event["ph"] in "Ee" and not opened[key]:
            yield f"ends nothing: {event}"
        elif event["ph"] in "Ee" and event.get("name", opened[key][-1]["name"]) != opened[key].pop()["name"]:
            yield f"ends another: {event}"
    yield from (f"never ends: {one}" for left in opened.values() for one in left)


def _flows(events: list[Event]) -> Iterator[str]:
    """A flow begins once, ends once, goes on in between, and is in a slice wherever it is told."""
    slices = {track: _Nest(of_track) for track, of_track in _by_track(events, "X").items()}
    for number, ends in arrows(events).items():
        if [end["ph"] for end in ends] != ["s", *["t"] * (len(ends) - 2), "f"]:
            yield f"flow {number} is not begun, led on and ended: {ends}"
        yield from (f"flow {number} goes back: {late}" for early, late in pairwise(ends) if late["ts"] < early["ts"])
        yield from (f"in no slice: {end}" for end in ends if not slices.get(_track(end), _Nest([])).holds(end["ts"]))


def arrows(events: list[Event]) -> dict[object, list[Event]]:
    """The flows by their id, each in order of time."""
    found: dict[object, list[Event]] = defaultdict(list)
    for event in events:
        if event["ph"] in "stf":
            found[event["id"]].append(event)
    return {number: sorted(ends, key=lambda end: (end["ts"], "stf".index(end["ph"]))) for number, ends in found.items()}


class _Nest:
    """The times in which some slice of a thread is open; one of no length is open for a nanosecond."""

    def __init__(self, slices: list[Event]) -> None:
        self._spans: list[tuple[Decimal, Decimal]] = []
        for one in sorted(slices, key=lambda one: one["ts"]):
            start, end = one["ts"], max(_end(one), one["ts"] + Decimal("0.001"))
            if self._spans and start <= self._spans[-1][1]:
                start, end = self._spans[-1][0], max(end, self._spans.pop()[1])
            self._spans.append((start, end))

    def holds(self, at: Decimal) -> bool:
        place = bisect_right(self._spans, at, key=itemgetter(0)) - 1
        return place >= 0 and at < self._spans[place][1]


def _counters(events: list[Event]) -> Iterator[str]:
    """Counters' times do not go back, and what is counted is not less than nothing."""
    last: dict[tuple[int, str], Decimal] = {}
    for event in events:
        if event["ph"] == "C":
            key = (event["pid"], event["name"])
            if event["ts"] < last.get(key, 0) or min(event["args"].values()) < 0:
                yield f"a counter that cannot be: {event}"
            last[key] = event["ts"]


RULES = (_named_once, _nested, _balanced, _flows, _counters)


def _by_track(events: list[Event], phases: str) -> dict[Track, list[Event]]:
    found: dict[Track, list[Event]] = defaultdict(list)
    for event in events:
        if event["ph"] in phases:
            found[_track(event)].append(event)
    return found


def _track(event: Event) -> Track:
    return event["pid"], event["tid"]


def _end(one: Event) -> Decimal:
    return Decimal(one["ts"]) + Decimal(one["dur"])
