"""One file's raw events to the tables of each rank that it holds: usually one, several where a tool fused them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from tracekit.errors import TooLarge
from tracekit.model import ALLOCATIONS, ANNOTATION, COMM, EVENTS, NO_STEP, OPERATOR, Note
from tracekit.read import limits, names, steps
from tracekit.read.annotated import ProcessGroup
from tracekit.read.calls import ALL_RANKS, calls_of
from tracekit.read.columns import NO_RANK, whole
from tracekit.read.kineto import RawTrace
from tracekit.read.work import Sorted, copy_columns, is_kind, sort_out

SHOWN_PLACES = 5
LARGEST_WORLD = 10**6
"""No job has more ranks: a file that says so is wrong, and as many ranks would be looked for."""
CPU = "cpu"
_WORKER_FILE = re.compile(r"^(?P<host>(?!.*(?:rank|worker)).+)_\d+\.\d{13,}\.pt\.trace\.json")
"""Files of PyTorch's `tensorboard_trace_handler` are named by host and process."""


@dataclass(frozen=True)
class Identity:
    """Whose trace a part is, as far as its file says; None where it does not."""

    rank: int | None
    world_size: int | None
    backend: str | None
    host: str | None
    device: str
    start_ns: int
    end_ns: int
    events: int
    dropped: int
    device_memory_bytes: int | None = None


@dataclass(frozen=True)
class RankPart:
    """All that one file tells of one rank: who it is, its tables (see `tracekit.model`) and what had to be noted.

    `steps` and `calls` stay without rank and window, which only all files together tell.
    """

    identity: Identity
    work: pd.DataFrame
    host: pd.DataFrame
    allocations: pd.DataFrame
    steps: pd.DataFrame
    calls: pd.DataFrame
    notes: tuple[Note, ...]


def rank_parts(raw: RawTrace, basename: str, communicates: names.Communicates) -> list[RankPart]:
    """The parts of a file, one for each rank in it."""
    told = raw.spans["rank"].to_numpy()
    several = np.unique(told[told != NO_RANK]).tolist()
    if len(several) > limits.RANKS:
        raise TooLarge(f"it claims to hold {len(several):,} ranks: too many for one file, so it is not read")
    if len(several) < 2:
        claimed = several[0] if several else None
        return [_part(raw, claimed, basename, communicates, tuple(_text_notes(raw)))]
    owner, strays = _owners(raw.spans)
    notes = [*_text_notes(raw), *_problem_notes(raw)]
    if strays:
        message = f"left out events that do not say to which of the file's {len(several)} ranks they belong"
        notes.append(Note("no-rank-told", "warning", message, None, strays))
    return [
        _part(_only(raw, owner, rank), rank, basename, communicates, tuple(notes) if rank == several[0] else ())
        for rank in several
    ]


def _only(raw: RawTrace, owner: pd.Series, rank: int) -> RawTrace:
    """The part of a fused file that is one rank's; what was wrong with the file counts for none of them."""
    spans = raw.spans[owner == rank]
    allocations = raw.allocations[raw.allocations["rank"] == rank]
    return replace(raw, spans=spans, allocations=allocations, events=len(spans), problems={}, lost_at=[])


def _owners(spans: pd.DataFrame) -> tuple[pd.Series, int]:
    """The rank of each span of a fused file: its own word, else that of its process; and how many have neither."""
    process = spans["lane"].astype(str).str.split("/", n=1).str[0]
    claims = spans["rank"].where(spans["rank"] != NO_RANK)
    by_process = claims.groupby(process).agg(lambda ranks: ranks.min() if ranks.nunique() == 1 else np.nan)
    owner = claims.fillna(process.map(by_process)).fillna(NO_RANK).astype("int64")
    works = spans["category"].astype(str).str.lower() != names.OF_THE_PROFILER
    return owner, int(((owner == NO_RANK) & works).sum())


def _part(
    raw: RawTrace, claimed: int | None, basename: str, communicates: names.Communicates, file_notes: tuple[Note, ...]
) -> RankPart:
    found = sort_out(raw.spans, communicates)
    marked = steps.host_steps(found.host)
    if len(marked) > limits.STEPS:
        raise TooLarge(f"it marks {len(marked):,} steps: too many for one file, so it is not read")
    windows, work_steps = _windows(found, marked)
    host_steps = steps.step_of(found.host["start_ns"].to_numpy(), marked if len(marked) else windows)
    calls = calls_of(found, raw.collectives, _process_groups(raw.metadata))
    step_of_row = np.full(int(raw.spans.index.max()) + 1 if len(raw.spans) else 0, NO_STEP)
    step_of_row[found.work.index], step_of_row[found.host.index] = work_steps, host_steps
    calls["step"] = step_of_row[calls.index]
    operation, size = copy_columns(found.work, raw.copies)
    operation[(found.work["kind"] == COMM).to_numpy()] = calls.loc[calls["device_work"], "op"]
    launch_ns = np.minimum(found.work["launch_ns"].to_numpy(), found.work["start_ns"].to_numpy())
    untold = pd.arrays.IntegerArray(np.zeros(len(found.host), np.int64), np.ones(len(found.host), bool))
    return RankPart(
        identity=_identity(raw, claimed, basename, found),
        work=_events(found.work, step=work_steps, operation=operation, bytes=size, launch_ns=launch_ns),
        host=_events(found.host, step=host_steps, operation=_pipeline_actions(found.host), bytes=untold),
        allocations=_allocations(raw.allocations),
        steps=windows,
        calls=calls.reset_index(drop=True),
        notes=(
            *file_notes,
            *_identity_notes(raw),
            *_work_notes(raw, found),
            *_step_notes(windows, marked),
            *_fused_notes(found.host),
            *_call_notes(calls),
        ),
    )


def _pipeline_actions(host: pd.DataFrame) -> pd.Categorical:
    """What each of the program's own spans tells of a pipeline; null for all others."""
    told = [names.pipeline_actions(name) for name in host["name"].cat.categories]
    actions = sorted({action for action in told if action})
    code_of = {action: code for code, action in enumerate(actions)}
    codes = np.array([code_of[action] if action else -1 for action in told], np.int32)[host["name"].cat.codes]
    own = is_kind(host, ANNOTATION, OPERATOR)
    return pd.Categorical.from_codes(np.where(own, codes, -1), categories=pd.Index(actions, dtype=object))


def _windows(found: Sorted, marked: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """The rank's step windows (step, start_ns, end_ns, complete) and the step of each row of work."""
    starts_ns, ends_ns = found.work["start_ns"].to_numpy(), found.work["end_ns"].to_numpy()
    launches_ns = starts_ns if found.on_cpu else steps.launch_times(found.work)
    if not len(marked):
        windows = steps.whole_span(starts_ns, ends_ns)
        work_steps = np.full(len(starts_ns), 0)
    else:
        work_steps = steps.step_of(launches_ns, marked)
        windows = marked if found.on_cpu or not len(starts_ns) else steps.device_windows(marked, launches_ns, ends_ns)
    return windows.assign(complete=steps.complete(windows, work_steps)), work_steps


def _events(rows: pd.DataFrame, **more: Any) -> pd.DataFrame:
    """Rows with the columns and dtypes of `EVENTS`, some given beside them, without names that none of them has."""
    columns = {name: more[name] if name in more else rows[name].array for name in EVENTS}
    held = {
        name: _held(pd.Categorical(column)) if EVENTS[name] == "category" else pd.array(column, EVENTS[name])
        for name, column in columns.items()
    }
    return pd.DataFrame(held, copy=False)


def _held(column: pd.Categorical) -> pd.Categorical:
    """The column without categories that no row has, as text."""
    codes, categories = column.codes, column.categories
    used = np.bincount(codes[codes >= 0], minlength=len(categories)) > 0
    recoded = np.append(np.cumsum(used) - 1, -1)[codes]
    return pd.Categorical.from_codes(recoded, categories=categories[used].astype("str"), validate=False)


def _allocations(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with the columns of `ALLOCATIONS`, in order of time."""
    return rows[list(ALLOCATIONS)].astype(ALLOCATIONS).sort_values("time_ns", kind="stable", ignore_index=True)


def _process_groups(metadata: dict[str, object]) -> dict[str, ProcessGroup]:
    """The process groups that the file's metadata lists with their members, by their names in this file."""
    info = metadata.get("distributedInfo")
    listed = info.get("pg_config") if isinstance(info, dict) else None
    groups = {}
    for one in listed if isinstance(listed, list) else []:
        members = one.get("ranks") if isinstance(one, dict) else None
        if isinstance(members, list) and members and all(isinstance(rank, int) for rank in members):
            description = one.get("pg_desc")
            groups[str(one.get("pg_name"))] = ProcessGroup(str(description) if description else None, tuple(members))
    return groups


def _identity(raw: RawTrace, claimed: int | None, basename: str, found: Sorted) -> Identity:
    """Who the part says it is; what each event says outweighs the file's metadata, which a tool may have copied."""
    info = raw.metadata.get("distributedInfo")
    distributed = info if isinstance(info, dict) else {}
    host = raw.metadata.get("host_name") or raw.metadata.get("hostname")
    worker = _WORKER_FILE.match(basename)
    backend = distributed.get("backend")
    rows = found.work if len(found.work) else found.host
    device = {} if found.on_cpu else _device(raw.metadata, found.work)
    return Identity(
        rank=whole(distributed.get("rank")) if claimed is None else claimed,
        world_size=_world_size(distributed),
        backend=str(backend) if backend and backend != "undefined" else None,
        host=str(host) if host else worker["host"] if worker else None,
        device=CPU if found.on_cpu else str(device.get("name") or "device"),
        start_ns=int(rows["start_ns"].min()) if len(rows) else 0,
        end_ns=int(rows["end_ns"].max()) if len(rows) else 0,
        events=raw.events,
        dropped=sum(raw.problems.values()) + len(raw.lost_at) + found.before_launch,
        device_memory_bytes=_capacity(device),
    )


def _world_size(distributed: dict[str, object]) -> int | None:
    told = whole(distributed.get("world_size"))
    return told if told and 0 < told <= LARGEST_WORLD else None


def _device(metadata: dict[str, object], work: pd.DataFrame) -> dict[str, object]:
    """What the file tells of the device that did most of the work; nothing where it tells of none."""
    used = Counter(str(lane).split("/", 1)[0] for lane in work["lane"].head(1000)).most_common(1)[0][0]
    known = metadata.get("deviceProperties")
    devices = [device for device in known if isinstance(device, dict)] if isinstance(known, list) else []
    return next((device for device in devices if str(device.get("id")) == used), devices[0] if devices else {})


def _capacity(device: dict[str, object]) -> int | None:
    told = whole(device.get("totalGlobalMem"))
    return told if told and told > 0 else None


def _text_notes(raw: RawTrace) -> Iterator[Note]:
    if raw.lost_at:
        message = f"lost events whose text is broken, at byte {_places(raw.lost_at)} of the decompressed text"
        yield Note("lost-event", "warning", message, None, len(raw.lost_at))
    if raw.mended_at:
        message = f"mended broken text, at byte {_places(raw.mended_at)} of the decompressed text"
        yield Note("mended-event", "info", message, None, len(raw.mended_at))
    if raw.truncated:
        yield Note("truncated", "warning", "truncated: the file ends before its events do; the rest is missing")


def _places(offsets: list[int]) -> str:
    more = f" and {len(offsets) - SHOWN_PLACES} more places" if len(offsets) > SHOWN_PLACES else ""
    return ", ".join(map(str, offsets[:SHOWN_PLACES])) + more


def _problem_notes(raw: RawTrace) -> Iterator[Note]:
    sentences = {
        "strange-event": "left out events of a form that is not the trace format's",
        "half-span": "left out begins without an end, or ends without a begin",
        "impossible-time": "left out events whose start or duration is missing, negative or nought of both",
    }
    for code, sentence in sentences.items():
        if count := raw.problems.get(code):
            yield Note(code, "warning", sentence, None, count)


def _identity_notes(raw: RawTrace) -> Iterator[Note]:
    info = raw.metadata.get("distributedInfo")
    told = whole(info.get("world_size")) if isinstance(info, dict) else None
    if told and _world_size({"world_size": told}) is None:
        yield Note("world-size", "warning", f"tells a world size of {told}, which cannot be: it is taken as not told")


def _work_notes(raw: RawTrace, found: Sorted) -> Iterator[Note]:
    yield from _problem_notes(raw)
    if found.before_launch:
        yield Note(
            "before-launch", "warning", "left out work that ends before its launch began", None, found.before_launch
        )
    if found.clock_behind:
        message = "the device's clock is some microseconds behind the host's: work seems to end before its launch"
        yield Note("device-clock", "info", message, None, found.clock_behind)
    if found.lost:
        message = "kernels were launched that the file does not hold: the profiler lost events"
        yield Note("lost-work", "warning", message, None, found.lost)
    if found.cut:
        message = "cut durations that overrun the next start on their own lane by more than can be"
        yield Note("overrun", "warning", message, None, found.cut)
    if raw.metadata.get("emulated_device"):
        yield Note("emulated-device", "info", "the device is emulated: compute takes a stated time, asleep")
    if not len(found.work):
        yield Note("no-work", "warning", "the file shows no work: no device rows, no operators, no gloo spans")


def _step_notes(windows: pd.DataFrame, marked: pd.DataFrame) -> Iterator[Note]:
    if not len(marked) and len(windows):
        yield Note("no-steps", "info", "no ProfilerStep annotation: all work is taken as one step")
    for step in windows.loc[~windows["complete"], "step"]:
        message = f"step {step} holds far less work than the others, so it is left out of averages"
        yield Note("incomplete-step", "info", message)


def _fused_notes(host: pd.DataFrame) -> Iterator[Note]:
    processes = steps.marking_processes(host)
    if processes > 1:
        message = (
            f"{processes} processes mark the same step, as if {processes} ranks' files had been put together without "
            "telling which is which: all are taken as one rank, so give the ranks' own files"
        )
        yield Note("several-processes", "warning", message, None, processes)


def _call_notes(calls: pd.DataFrame) -> Iterator[Note]:
    unnamed = int((calls["group"] == ALL_RANKS).sum())
    if unnamed:
        message = "no process group is told for communication calls: one group of all ranks is assumed"
        yield Note("no-group", "info", message, None, unnamed)
    outside = int((calls["step"] == NO_STEP).sum())
    if outside:
        yield Note("call-outside-steps", "info", "communication calls launched outside all steps", None, outside)
