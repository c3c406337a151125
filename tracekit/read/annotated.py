"""gloo's calls told by annotations around their issue.

gloo's own spans carry no group, number or size. An annotation such as

    comm:all_reduce group=1 seq=12 bytes=658944 dtype=float32 threads=3438,3440
    comm:send group=0 seq=3 bytes=65536 dtype=float32 src=0 dst=1

(the reference workloads write one around each call) tells them. It joins to the call's span so: a send or receive
begins inside its annotation, on the same thread; a collective runs later on one of the group's threads, and of the
calls of one group, operation and size the next by number is the next by start.

gloo's span of a send or receive lasts as long as its handle, not as the program waits for it. That an annotation of the
same text around the wait tells (`wait:recv group=0 ...`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from tracekit.read import names
from tracekit.read.kineto import COLLECTIVE_FIELDS


@dataclass(frozen=True)
class ProcessGroup:
    """A process group as the file's `pg_config` has it."""

    description: str | None
    members: tuple[int, ...]


def told_by_annotations(
    spans: pd.DataFrame, host: pd.DataFrame, collectives: pd.DataFrame, groups: Mapping[str, ProcessGroup]
) -> pd.DataFrame:
    """What annotations tell of gloo's spans: the columns of `RawTrace.collectives`, null where none tells anything."""
    annotations = _annotations(host)
    waits: dict[int, names.AnnotatedCall] = {}
    for label, name in zip(spans.index.tolist(), spans["name"].tolist(), strict=True):
        if call := names.awaited_transfer(name):
            waits[label] = call
    ran = spans[~spans.index.isin(list(waits))]
    joined = {**_transfers(ran, annotations), **_collectives(ran, annotations, collectives, groups), **waits}
    rows = [
        _row(joined[label], groups) if label in joined else (None,) * len(COLLECTIVE_FIELDS) for label in spans.index
    ]
    return pd.DataFrame(rows, index=spans.index, columns=list(COLLECTIVE_FIELDS), dtype=object)


@dataclass(frozen=True)
class Awaited:
    """Waits for sends and receives, by the labels of their spans.

    `arrivals_ns` says when the call was issued that is waited for; `handles` are gloo's spans of these calls. Of the
    calls of `untold` waits the file shows no issue, or an earlier wait.
    """

    arrivals_ns: Mapping[int, int]
    handles: frozenset[int]
    untold: frozenset[int]


def awaited(spans: pd.DataFrame, told: pd.DataFrame, host: pd.DataFrame) -> Awaited:
    """Which of gloo's sends and receives the program waits for when, by what is told about each span.

    A call is issued when its annotation begins: gloo's span may begin after the other end has what was sent.
    """
    issued_ns = {_key(one.call): one.start_ns for one in reversed(_annotations(host))}
    handles: dict[tuple[object, ...], int] = {}
    arrivals_ns: dict[int, int] = {}
    untold: set[int] = set()
    keys = told[["collective", "group", "sequence", "source", "destination"]].itertuples(index=False, name=None)
    for label, name, start_ns, key in zip(spans.index.tolist(), spans["name"], spans["start_ns"], keys, strict=True):
        if names.awaited_transfer(str(name)) is None:
            handles.setdefault(key, label)
        elif issued_ns.get(key, start_ns) < start_ns:
            arrivals_ns[label] = issued_ns.pop(key)
        else:
            untold.add(label)
    waits = told.loc[list(arrivals_ns), ["collective", "group", "sequence", "source", "destination"]]
    waited = frozenset(handles[key] for key in waits.itertuples(index=False, name=None) if key in handles)
    return Awaited(arrivals_ns, waited, frozenset(untold))


def _key(call: names.AnnotatedCall) -> tuple[object, ...]:
    return call.op, call.group, call.seq, call.source, call.destination


@dataclass(frozen=True)
class _Annotation:
    call: names.AnnotatedCall
    lane: str
    start_ns: int
    end_ns: int


def _annotations(host: pd.DataFrame) -> list[_Annotation]:
    """All annotations of calls, in order of start."""
    calls = {code: names.annotated_call(name) for code, name in enumerate(host["name"].cat.categories)}
    told = host[host["name"].cat.codes.map({code: call is not None for code, call in calls.items()}).to_numpy(bool)]
    return [
        _Annotation(call, lane, start_ns, end_ns)
        for code, lane, start_ns, end_ns in zip(
            told["name"].cat.codes, told["lane"], told["start_ns"], told["end_ns"], strict=True
        )
        if (call := calls[code]) is not None
    ]


def _transfers(spans: pd.DataFrame, annotations: list[_Annotation]) -> dict[int, names.AnnotatedCall]:
    """Sends and receives: the span that begins inside the annotation, on its thread."""
    found = {}
    for one in annotations:
        if not one.call.threads:
            inside = spans[(spans["lane"] == one.lane) & spans["start_ns"].between(one.start_ns, one.end_ns)]
            found.update(dict.fromkeys(inside.index[:1], one.call))
    return found


def _collectives(
    spans: pd.DataFrame,
    annotations: list[_Annotation],
    collectives: pd.DataFrame,
    groups: Mapping[str, ProcessGroup],
) -> dict[int, names.AnnotatedCall]:
    """Collectives: of one group, operation and size the next span that starts after the next annotation."""
    waiting: dict[tuple[tuple[str, ...], str, int | None], list[tuple[int, int]]] = defaultdict(list)
    sizes = collectives["array_bytes"].reindex(spans.index)
    threads = {thread: one.call.threads for one in annotations for thread in one.call.threads}
    for label, lane, name, start_ns in zip(spans.index, spans["lane"], spans["name"], spans["start_ns"], strict=True):
        where = threads.get(lane.split("/", 1)[-1])
        if where:
            size = sizes[label] if isinstance(sizes[label], int) else None
            waiting[where, names.operation(name), size].append((start_ns, label))
    found = {}
    for one in sorted((one for one in annotations if one.call.threads), key=lambda one: one.call.seq):
        for key in _keys(one.call, groups):
            queue = waiting.get(key, [])
            later = next((place for place, (start_ns, _) in enumerate(queue) if start_ns >= one.start_ns), None)
            if later is not None:
                found[queue.pop(later)[1]] = one.call
                break
    return found


def _keys(
    call: names.AnnotatedCall, groups: Mapping[str, ProcessGroup]
) -> Iterator[tuple[tuple[str, ...], str, int | None]]:
    """How gloo's span of the call may look: its operation and size there; the size may be missing."""
    shown = "all_reduce" if call.op == "reduce_scatter" else call.op
    group = groups.get(call.group)
    part = call.bytes // len(group.members) if group and call.op == "all_gather" else call.bytes
    yield call.threads, shown, part
    yield call.threads, shown, call.bytes
    yield call.threads, shown, None


def _row(call: names.AnnotatedCall, groups: Mapping[str, ProcessGroup]) -> tuple[object, ...]:
    group = groups.get(call.group)
    told = {
        "collective": call.op,
        "array_bytes": call.bytes,
        "dtype": call.dtype,
        "group": call.group,
        "group_description": group.description if group else None,
        "group_ranks": str(list(group.members)) if group else None,
        "group_size": len(group.members) if group else None,
        "sequence": call.seq,
        "source": call.source,
        "destination": call.destination,
    }
    return tuple(told.get(name) for name in COLLECTIVE_FIELDS)
