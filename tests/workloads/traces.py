"""Runs of workloads for tests, and plain code on the JSON that they write."""

from __future__ import annotations

import gzip
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as distributed_checkpoint
from torch import Tensor
from torch.distributed.checkpoint import FileSystemReader

from workloads import launch

Event = dict[str, Any]
SMALL = ("--layers", "1", "--width", "64", "--sequence", "32", "--vocabulary", "64", "--batch", "4")
# One operation of the small model's attention takes 5 ms, a step some 0.2 s.
EMULATED = (*SMALL, "--device", "emulated", "--emulated-flops", "2e8")
# Forward, in the smallest product's time: queries, keys, values, attention, out, four for each of the MLP's two, and
# the head. Backward is twice that, but attention's two and a half times, as its forward is computed again.
EMULATED_PRODUCT_MS = 2 * 128 * 64 * 64 / 2e8 * 1e3
EMULATED_STEP_MS = (3 * 14 + 0.5) * EMULATED_PRODUCT_MS
EMULATED_ROWS = 4 * 32  # tokens of a micro-batch: the rows of a product
SHOWN_AS = {"reduce_scatter": "all_reduce"}
MS = 1000.0


class Written:
    """What a run wrote: `facts` is run.json, `events(rank)` the complete events of a rank by start."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def facts(self) -> dict[str, Any]:
        return json.loads((self.folder / "run.json").read_text())

    def trace(self, rank: int) -> dict[str, Any]:
        with gzip.open(self.folder / f"rank{rank}.json.gz", "rt") as file:
            return json.load(file)

    def events(self, rank: int) -> list[Event]:
        complete = [event for event in self.trace(rank)["traceEvents"] if event.get("ph") == "X"]
        return sorted(complete, key=lambda event: event["ts"])

    def parameters(self) -> dict[str, Tensor]:
        """The whole model's parameters out of the fault-tolerance checkpoint."""
        reader = FileSystemReader(self.folder / "checkpoint")
        held = reader.read_metadata().state_dict_metadata
        state = {name: torch.empty(held[name].size) for name in held if name.startswith("model.")}
        distributed_checkpoint.load(state, storage_reader=reader, no_dist=True)
        return state


def run(folder: Path, *arguments: str) -> Written:
    """Run a workload in its own ranks and give what it wrote."""
    assert launch.main([*arguments, "--out", str(folder)]) == 0
    return Written(folder)


def same(one: Written, other: Written, tolerance: float = 1e-5) -> None:
    """Assert that two runs gave the same losses and the same whole model.

    AdamW divides each gradient by its own size: of a gradient near nought it leaves the rounding, which depends on the
    CPU. So one parameter in a thousand may be further off, by a part of a step.
    """
    torch.testing.assert_close(one.facts["losses"], other.facts["losses"], atol=tolerance, rtol=0)
    mine, theirs = one.parameters(), other.parameters()
    assert mine.keys() == theirs.keys()
    for name in mine:
        torch.testing.assert_close(mine[name], theirs[name], atol=2e-4, rtol=0)
        off = (mine[name] - theirs[name]).abs() > tolerance
        assert int(off.sum()) <= max(off.numel() // 1000, 1), name


def end(event: Event) -> float:
    return event["ts"] + event["dur"]


def named(events: Iterable[Event], *beginnings: str) -> list[Event]:
    return [event for event in events if event["name"].startswith(beginnings)]


def total(events: Iterable[Event]) -> float:
    """Sum of durations, in microseconds."""
    return sum(event["dur"] for event in events)


def steps(events: list[Event]) -> list[list[Event]]:
    """The events that begin in each step."""
    spans = named(events, "ProfilerStep#")
    return [[event for event in events if span["ts"] <= event["ts"] < end(span)] for span in spans]


def products(events: Iterable[Event]) -> list[Event]:
    """The matrix products and attention: what takes time on the emulated device."""
    operators = ("aten::mm", "aten::addmm", "aten::bmm", "aten::_scaled_dot_product_flash_attention_for_cpu")
    return [event for event in events if event["name"].removesuffix("_backward") in operators]


def overlap(event: Event, others: Iterable[Event]) -> float:
    """Microseconds of the event in which others, which do not overlap each other, run too."""
    return sum(max(0.0, min(end(event), end(other)) - max(event["ts"], other["ts"])) for other in others)


def calls(events: list[Event]) -> list[tuple[dict[str, Any], Event]]:
    """The annotated calls with their annotation, in the order of issue."""
    return [(_fields(event["name"]), event) for event in named(events, "comm:")]


def _fields(name: str) -> dict[str, Any]:
    op, *pairs = name.removeprefix("comm:").split(" ")
    fields = dict(pair.split("=") for pair in pairs)
    whole = {key: int(fields[key]) for key in ("seq", "bytes", "src", "dst") if key in fields}
    threads = [int(thread) for thread in fields.get("threads", "").split(",") if thread]
    return {"op": op, **fields, **whole, "threads": threads}


def collectives(events: list[Event]) -> list[tuple[dict[str, Any], Event]]:
    """Each annotated collective with its gloo span, joined as `workloads.communication` says."""
    annotated = defaultdict(list)
    for call, _ in calls(events):
        if "src" not in call:
            annotated[call["group"], SHOWN_AS.get(call["op"], call["op"]), tuple(call["threads"])].append(call)
    return [pair for (_, op, threads), of_one in annotated.items() for pair in _joined(of_one, events, op, threads)]


def _joined(of_one: list[dict[str, Any]], events: list[Event], op: str, threads: tuple[int, ...]):
    spans = [event for event in events if event["name"] == f"gloo:{op}" and event["tid"] in threads]
    # Stable sorts by size: within a size the order of issue, and of start.
    of_one = sorted(of_one, key=lambda call: call["bytes"])
    return zip(of_one, sorted(spans, key=size), strict=True)


def size(span: Event) -> int:
    """Elements of the array that a gloo span shows; 0 where it shows none."""
    dimensions = span.get("args", {}).get("Input Dims") or [[]]
    return math.prod(dimensions[0]) if dimensions[0] else 0


def numbers(name: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", name)]
