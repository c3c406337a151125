"""Changes to traces by their structure, drawn at random: events, their fields, lanes, groups, steps, ranks, metadata.

A change takes dice and the files of a run, and changes these in place. What it makes is mostly valid JSON that no
profiler would write, or that one writes on a bad day.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from random import Random
from typing import Any

from benchmarks.fuzz_values import TEXTS, Again, Events, File, is_number, value

FIELDS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args")
TIMES_US = (0, 0.001, 1, -1, 1e3, -1e6, 1e9, -1e12, 1e13, 9.2e15, -9.2e15, 1e17, 1e300)
PHASES = ("B", "E", "i", "I", "M", "C", "s", "f", "X", "Z", "", "x", "XX", None, 5)
MOST_CHANGES = 8
LARGEST_COPY = 20_000
"""Events that a change makes at most: the cases are to be many, not large."""


Change = Callable[[Random, list[File]], None]


def changed(files: Sequence[File], dice: Random) -> list[File]:
    """A copy of the files with a few changes."""
    copies = deepcopy(list(files))
    for _ in range(dice.choice([1, 1, 1, 2, 3, 5, MOST_CHANGES])):
        dice.choice(CHANGES)(dice, copies)
    return copies


def _each(dice: Random, files: list[File]) -> list[File]:
    """One file or all of them."""
    return files if dice.random() < 0.4 else [dice.choice(files)]


def _chosen(dice: Random, file: File) -> list[dict[Any, Any]]:
    """Some of a file's events: one, all of a category or of a name, one in ten, or some in a row."""
    spans = file.spans
    if not spans:
        return []
    one, how = dice.choice(spans), dice.randrange(5)
    if how == 0:
        return [one]
    if how < 3:
        key = ("cat", "name")[how - 1]
        return [span for span in spans if _same(span.get(key), one.get(key))]
    if how == 3:
        return [span for span in spans if dice.random() < 0.1]
    at = dice.randrange(len(spans))
    return spans[at : at + dice.choice([2, 10, 100])]


def _same(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other


def _with(file: File, *keys: str) -> list[dict[Any, Any]]:
    """The arguments of those events that have one of the keys there."""
    told = [span["args"] for span in file.spans if isinstance(span.get("args"), dict)]
    return [args for args in told if any(key in args for key in keys)]


def _of_category(file: File, *categories: str) -> list[dict[Any, Any]]:
    return [span for span in file.spans if span.get("cat") in categories]


def drop(dice: Random, files: list[File]) -> None:
    for file in _each(dice, files):
        gone = {id(span) for span in _chosen(dice, file)}
        file.events = [event for event in file.events if id(event) not in gone]


def duplicate(dice: Random, files: list[File]) -> None:
    file = dice.choice(files)
    chosen, times = _chosen(dice, file), dice.choice([1, 1, 2, 30])
    copies = [dict(span) for _ in range(times) for span in chosen][:LARGEST_COPY]
    at = dice.randrange(len(file.events) + 1)
    file.events = file.events[:at] + copies + file.events[at:]


def swap(dice: Random, files: list[File]) -> None:
    """Two events exchange a field, or two files all their events."""
    one, other = dice.choice(files), dice.choice(files)
    if dice.random() < 0.3:
        one.events, other.events = other.events, one.events
    elif one.spans and other.spans:
        key = dice.choice(FIELDS)
        for _ in range(dice.choice([1, 20])):
            left, right = dice.choice(one.spans), dice.choice(other.spans)
            left[key], right[key] = right.get(key), left.get(key)


def reorder(dice: Random, files: list[File]) -> None:
    events = dice.choice(files).events
    dice.shuffle(events) if dice.random() < 0.5 else events.reverse()


def shift(dice: Random, files: list[File]) -> None:
    """Events begin at other times."""
    for file in _each(dice, files):
        by = dice.choice(TIMES_US)
        for span in _chosen(dice, file):
            if is_number(span.get("ts")):
                span["ts"] += by


def scatter(dice: Random, files: list[File]) -> None:
    """Events begin anywhere in the trace, so that they overlap and cross."""
    file = dice.choice(files)
    times = [span["ts"] for span in file.spans if is_number(span.get("ts"))]
    for span in _chosen(dice, file):
        span["ts"] = dice.choice(times) if times else 0


def stretch(dice: Random, files: list[File]) -> None:
    """Other durations: none, negative, and longer than the trace."""
    for file in _each(dice, files):
        by = dice.choice(TIMES_US)
        for span in _chosen(dice, file):
            if is_number(span.get("dur")):
                span["dur"] = by if dice.random() < 0.5 else span["dur"] * dice.choice([0, 0.5, 3, 1000, -1])


def at_once(dice: Random, files: list[File]) -> None:
    """Equal times."""
    for file in _each(dice, files):
        chosen = _chosen(dice, file)
        for span in chosen:
            span["ts"] = chosen[0].get("ts")
            if dice.random() < 0.5:
                span["dur"] = chosen[0].get("dur")


def retype(dice: Random, files: list[File]) -> None:
    """A field of another type."""
    for file in _each(dice, files):
        key, new = dice.choice(FIELDS), value(dice)
        for span in _chosen(dice, file):
            span[key] = new


def retype_argument(dice: Random, files: list[File]) -> None:
    for file in _each(dice, files):
        told = _with(file, *dice.choice(ARGUMENTS))
        keys = list(dice.choice(told)) if told else []
        if keys:
            key, new, all_of_them = dice.choice(keys), value(dice), dice.random() < 0.5
            for args in told if all_of_them else dice.choices(told, k=3):
                args[key] = new


ARGUMENTS = (
    ("correlation",), ("Collective name",), ("Process Group Name",), ("Bytes", "Total Allocated"), ("bytes",),
    ("External id",), ("Input Dims", "grid"), ("stream", "device"), ("Src Rank", "Seq", "Comms Id"),
)  # fmt: skip


def forget(dice: Random, files: list[File]) -> None:
    """Missing keys."""
    for file in _each(dice, files):
        key = dice.choice(FIELDS)
        for span in _chosen(dice, file):
            span.pop(key, None)
        told = _with(file, *dice.choice(ARGUMENTS))
        key = dice.choice(list(dice.choice(told))) if told and told[0] else ""
        for args in told if dice.random() < 0.5 else told[:1]:
            args.pop(key, None)


def double_key(dice: Random, files: list[File]) -> None:
    file = dice.choice(files)
    for span in _chosen(dice, file):
        span[Again(dice.choice(FIELDS))] = value(dice)
    if dice.random() < 0.3:
        file.head[Again(dice.choice(["distributedInfo", "baseTimeNanoseconds", "traceEvents"]))] = value(dice)


def rephase(dice: Random, files: list[File]) -> None:
    for file in _each(dice, files):
        phase = dice.choice(PHASES)
        for span in _chosen(dice, file):
            span["ph"] = phase


def halve(dice: Random, files: list[File]) -> None:
    """Spans as a begin and an end, some of which are missing."""
    file, lost = dice.choice(files), dice.choice([0, 0.1, 0.5])
    chosen = {id(span) for span in _chosen(dice, file)}
    events: Events = []
    for event in file.events:
        if id(event) not in chosen or not (is_number(event.get("ts")) and is_number(event.get("dur"))):
            events.append(event)
            continue
        begin, end = {**event, "ph": "B"}, {**event, "ph": "E", "ts": event["ts"] + event["dur"]}
        events += [half for half in (begin, end) if dice.random() >= lost]
    file.events = events


def strange_events(dice: Random, files: list[File]) -> None:
    """Events that are none."""
    events = dice.choice(files).events
    for _ in range(dice.choice([1, 5, 50])):
        events.insert(dice.randrange(len(events) + 1), value(dice))


def collide(dice: Random, files: list[File]) -> None:
    """Correlations that several events share, or that nothing else has."""
    for file in _each(dice, files):
        told, by = _with(file, "correlation"), dice.choice([0, 1, -1, 2, 3, 2**32, 10**20])
        for args in told:
            if dice.random() < 0.7:
                args["correlation"] = args["correlation"] % by if 0 < by < 4 and is_number(args["correlation"]) else by


def other_lanes(dice: Random, files: list[File]) -> None:
    """Streams and threads renamed, merged, or one for each event."""
    for file in _each(dice, files):
        how, key, new = dice.randrange(3), dice.choice(["pid", "tid"]), value(dice)
        for nth, span in enumerate(_chosen(dice, file)):
            span[key] = new if how == 0 else nth if how == 1 else f"stream {nth % 3}"


def other_groups(dice: Random, files: list[File]) -> None:
    """Groups whose name, size and ranks contradict each other."""
    key = dice.choice(["Process Group Name", "Process Group Description", "Process Group Ranks", "Group size"])
    lists = ("[0, 0, 0]", "[5, 6]", "[0, ..., 7]", "[1, 0]", "[]", "[", "[-1, 99999999999999999999]", [0, 1], "[0.5]")
    for file in _each(dice, files):
        new = dice.choice(lists) if key.endswith("Ranks") else value(dice)
        for args in _with(file, "Collective name"):
            if dice.random() < 0.8:
                args[key] = new


def other_calls(dice: Random, files: list[File]) -> None:
    """Calls that a rank lacks, that have other numbers, other partners or another size."""
    file, how = dice.choice(files), dice.randrange(4)
    told = _with(file, "Collective name")
    if how == 0:
        gone = {id(args) for args in told if dice.random() < dice.choice([0.1, 0.5, 1])}
        file.events = [
            event for event in file.events if not (isinstance(event, dict) and id(event.get("args")) in gone)
        ]
    for args in told if how else ():
        if how == 1:
            args[dice.choice(["Seq", "Comms Id"])] = dice.choice([0, 1, -1, 2**64, "3", None])
        elif how == 2:
            ends = [(0, 0), (1, 0), (0, 99), (-1, 2**40), (None, 1), ("0", "x")]
            args["Src Rank"], args["Dst Rank"] = dice.choice(ends)
        else:
            key = dice.choice(["In msg nelems", "Out msg nelems", "dtype", "Collective name"])
            args[key] = dice.choice(["send", "recv", "barrier", 0, -5, 2**62, 10**30, "Float", "complex", value(dice)])


def other_steps(dice: Random, files: list[File]) -> None:
    """Steps that are missing, nested, equal, backwards, far apart, or no steps at all."""
    for file in _each(dice, files):
        steps = [span for span in file.spans if str(span.get("name")).startswith("ProfilerStep")]
        how, number = dice.randrange(5), dice.choice([0, -1, 1, 2**63, 10**25, 2**31])
        for nth, step in enumerate(steps):
            if how == 0:
                step["name"] = dice.choice(
                    ["ProfilerStep#", "ProfilerStep", f"ProfilerStep#{number}", "ProfilerStep#1.5"]
                )
            elif how == 1:
                step["name"] = f"ProfilerStep#{number + nth}"
            elif how == 2 and is_number(step.get("ts")) and is_number(step.get("dur")):
                step["ts"] = step["ts"] - dice.choice([0, 1, 0.5]) * step["dur"]
            elif how == 3:
                step["dur"] = dice.choice([0, -1, 1e12, 1e-3, step.get("dur")])
            elif dice.random() < 0.5:
                step["name"] = "train_step"


def other_actions(dice: Random, files: list[File]) -> None:
    """Annotations that look like those of pipelines, data loaders and optimizers."""
    names = (
        "PP:0F0", "PP:0B99999999999999999999", "PP:1F-1", "forward:0:0", "backward:9:9", "ProfilerStep#0",
        "enumerate(DataLoader)#x.__next__", "Optimizer.step#SGD.step", "nccl:all_reduce", "gloo:send", "Python GC",
    )  # fmt: skip
    for span in _chosen(dice, dice.choice(files)):
        span["cat"], span["name"] = dice.choice(["user_annotation", "gpu_user_annotation"]), dice.choice(names)


def hostile_names(dice: Random, files: list[File]) -> None:
    for file in _each(dice, files):
        name = dice.choice(TEXTS)
        for span in _chosen(dice, file):
            span["name"] = name if dice.random() < 0.9 else dice.choice(TEXTS)
        if dice.random() < 0.3:
            file.head[dice.choice(["hostname", "host_name", "displayTimeUnit"])] = dice.choice(TEXTS)


def double_rank(dice: Random, files: list[File]) -> None:
    """A rank that is there twice, or lacks, or has nothing in it."""
    file, how = dice.choice(files), dice.randrange(3)
    if how == 0 and len(files) < 8:
        files.append(File(f"again_{len(files)}_{file.name}", dict(file.head), list(file.events)))
    elif how == 1 and len(files) > 1:
        files.remove(file)
    else:
        file.events = []


def other_info(dice: Random, files: list[File]) -> None:
    """Contradictions in what a file says about the job, or nothing that can be understood."""
    for file in _each(dice, files):
        info = file.head.get("distributedInfo")
        if not isinstance(info, dict) or dice.random() < 0.2:
            file.head["distributedInfo"] = value(dice)
            continue
        key = dice.choice(["rank", "world_size", "backend", "pg_config", "pg_count", "nccl_version"])
        info[key] = dice.choice(
            [0, 1, 2, -1, 2**40, "1", value(dice), [{"pg_name": value(dice), "ranks": value(dice)}]]
        )
        if dice.random() < 0.2:
            del info[key]


def other_head(dice: Random, files: list[File]) -> None:
    """Metadata of another type, or behind the events, or not there."""
    for file in _each(dice, files):
        how = dice.randrange(4)
        if how == 0:
            file.tail, file.head = {**file.head, **file.tail}, {}
        elif how == 1 and file.head:
            file.head[dice.choice(list(file.head))] = value(dice)
        elif how == 2:
            device = {"id": value(dice), "name": value(dice), "totalGlobalMem": value(dice)}
            file.head["deviceProperties"] = dice.choice([[device], [device, device], device, [value(dice)]])
        else:
            file.bare = dice.random() < 0.5
            file.head["baseTimeNanoseconds"] = dice.choice(
                [0, -1, 10**18, 2**62, 2**63, 10**30, "5", 1e18, value(dice)]
            )


def other_memory(dice: Random, files: list[File]) -> None:
    for args in _with(dice.choice(files), "Total Allocated", "bytes"):
        for key in list(args):
            if dice.random() < 0.3:
                args[key] = dice.choice([0, -1, 2**62, 2**63, 1e30, value(dice)])


def nest(dice: Random, files: list[File]) -> None:
    """Deep lists and objects, where a value may stand."""
    deep: Any = 0
    for _ in range(dice.choice([10, 100, 400])):
        deep = [deep] if dice.random() < 0.5 else {"a": deep}
    file = dice.choice(files)
    if dice.random() < 0.3:
        file.head[dice.choice(["distributedInfo", "deviceProperties", "trace_id"])] = deep
    for span in _chosen(dice, file)[:20]:
        span[dice.choice(FIELDS)] = deep


def cut(dice: Random, files: list[File]) -> None:
    for file in _each(dice, files):
        file.cut_frac = dice.random()


def rename_file(dice: Random, files: list[File]) -> None:
    """A name that tells no rank, or another one."""
    name = dice.choice(
        ["trace", "rank-1", "rank99999999999999999999", "rank0_rank1", "<b>x", "[a](b)", "\u202eevil", "1"]
    )
    file = dice.choice(files)
    taken = {other.name for other in files}
    file.name = next(one for n in range(9) if (one := f"{name}{'_' * n}.json") not in taken)


CHANGES: tuple[Change, ...] = (
    drop, duplicate, swap, reorder, shift, scatter, stretch, at_once, retype, retype_argument, forget, double_key,
    rephase, halve, strange_events, collide, other_lanes, other_groups, other_calls, other_steps, other_actions,
    hostile_names, double_rank, other_info, other_head, other_memory, nest, cut, rename_file,
)  # fmt: skip
