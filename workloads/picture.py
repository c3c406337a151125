"""One step of a run drawn as text: what each rank computes and communicates, left to right.

    rank 0   FFFFFFFBBBBBBBBBBBBBwwww
             .........R..R....RRRRRRR

F forward, B backward, I input gradient, W weight gradient, f a forward computed again, o the rest of compute, w a wait,
. nothing. Below it R all-reduce (gloo's reduce-scatter is one), G all-gather, A all-to-all, C broadcast, > send and
< receive, from issue to end. Drawn from the traces of runs on a CPU or the emulated device. Imports no torch.
"""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

from .errors import WrongUse

COLUMNS = 100
LETTERS = {
    "all_reduce": "R",
    "all_gather": "G",
    "all_to_all": "A",
    "broadcast": "C",
    "send": ">",
    "recv": "<",
}
# What an operator is part of, the inner before the outer; a letter, or the pattern's group that is it.
PARTS = (
    (re.compile("activation checkpoint: recompute"), "f"),
    (re.compile(r"PP:\d+([FBIW])\d+"), None),
    (re.compile("forward "), "F"),
    (re.compile("backward "), "B"),
)

Event = dict[str, Any]
Drawn = list[tuple[Event, str]]


def draw(folder: Path) -> str:
    """The first recorded step of every rank; WrongUse where the folder has no traces."""
    files = sorted(folder.glob("rank*.json.gz"), key=lambda file: int(re.sub(r"\D", "", file.name)))
    if not files:
        raise WrongUse(f"no rank0.json.gz in {folder}")
    steps = [_first_step(_events(file)) for file in files]
    start, end = min(start for start, _, _ in steps), max(end for _, end, _ in steps)
    width = (end - start) / COLUMNS
    lines = [f"one character is {width / 1000:.1f} ms"]
    for number, (_, _, events) in enumerate(steps):
        waits = [(event, "w") for event in events if event["name"].startswith("wait:")]
        lines.append(f"rank {number:<3} {_lane([*waits, *_computed(events)], start, width)}")
        lines.append(f"{'':<8} {_lane(_transfers(events), start, width)}")
    return "\n".join(lines)


def _events(file: Path) -> list[Event]:
    """Complete events, with absolute microseconds."""
    with gzip.open(file, "rt", encoding="utf-8") as text:
        trace = json.load(text)
    base = trace.get("baseTimeNanoseconds", 0) / 1000
    return [{**event, "ts": event["ts"] + base} for event in trace["traceEvents"] if event.get("ph") == "X"]


def _first_step(events: list[Event]) -> tuple[float, float, list[Event]]:
    step = min((event for event in events if event["name"].startswith("ProfilerStep#")), key=lambda event: event["ts"])
    start, end = step["ts"], step["ts"] + step["dur"]
    return start, end, [event for event in events if start <= event["ts"] < end]


def _computed(events: list[Event]) -> Drawn:
    operators = [event for event in events if event.get("cat") == "cpu_op" and event["name"].startswith("aten::")]
    parts = [
        (event, letter or found[1])
        for pattern, letter in PARTS
        for event in events
        if (found := pattern.match(event["name"]))
    ]
    return [(operator, _letter(operator, parts)) for operator in operators]


def _letter(operator: Event, parts: Drawn) -> str:
    inside = (letter for part, letter in parts if part["ts"] <= operator["ts"] < part["ts"] + part["dur"])
    return next(inside, "o")


def _transfers(events: list[Event]) -> Drawn:
    named = [(event, LETTERS.get(event["name"].removeprefix("gloo:"))) for event in events]
    return [(event, letter) for event, letter in named if letter and event["name"].startswith("gloo:")]


def _lane(spans: Drawn, start: float, width: float) -> str:
    """Later spans over earlier ones; one shorter than a character still shows if nothing else does."""
    lane = ["."] * COLUMNS
    for event, letter in spans:
        first = int((event["ts"] - start) / width)
        last = int((event["ts"] + event["dur"] - start) / width)
        for column in range(first, min(max(last, first + (lane[min(first, COLUMNS - 1)] == ".")), COLUMNS)):
            lane[column] = letter
    return "".join(lane)
