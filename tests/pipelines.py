"""Pipelines drawn as text: one character is one microsecond, a digit a forward, a letter a backward.

    0    0011....aaaabbbb      rank 0: forwards of micro-batches 0 and 1, backwards of 0 (a) and 1 (b)
    1    ..0011aaaabbbb..      rank 1
    1:3  ....................  the same rank's stage 3, if it holds several (else the rank's number is its stage)
    0>1  ..ss                  rank 0 sends to rank 1; each run of a letter is one transfer, on a stream of its own
    1<0  ..rr                  rank 1 receives from rank 0
    0=all_reduce .N  group=tp ranks=0,1     a collective
    step 00001111              windows of steps, for all ranks; else all is step 0

Capital letters are backwards down to the input only (A), `n` to `z` the gradients of the weights (`n` of 0). Work is
launched at its start, inside an annotation as long as itself, which `span` spells.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

from tests.read.tiny import MAIN, kernel, launch, span, step
from tracekit import load
from tracekit.model import Run

BASE_NS = 1_700_000_000_000_000_000
SENDRECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
COLLECTIVE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"

Spelling = Callable[[int, str, int], str]


def torch_runtime(stage: int, kind: str, microbatch: int) -> str:
    return f"PP:{stage}{kind}{microbatch}"


def torch_gpipe(stage: int, kind: str, microbatch: int) -> str:
    return f"{'Forward' if kind == 'F' else 'Backward'} {microbatch}"


def pipeline(drawing: str, folder: Path, spelled: Spelling | None = torch_runtime) -> Run:
    """The run that the drawing shows, read from Kineto files in `folder`; without `spelled` nothing is annotated."""
    lines = [text.split(maxsplit=2) for text in drawing.splitlines() if text.strip()]
    ranks = sorted({rank for label, *_ in lines if (rank := _rank(label)) is not None})
    longest = max(len(cells) for _, cells, *_ in lines)
    rulers = [cells for label, cells, *_ in lines if label == "step"] or ["0" * longest]
    steps = [step(int(letter), begin, end) for letter, begin, end in _runs(rulers[0])]
    for rank in ranks:
        mine = [(label, cells, (rest or [""])[0]) for label, cells, *rest in lines if _rank(label) == rank]
        events = [event for nth, line in enumerate(mine) for event in _events(line, 100 * nth + 1, spelled)]
        trace = {
            "baseTimeNanoseconds": BASE_NS,
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": len(ranks)},
            "traceEvents": [*steps, *events],
        }
        (folder / f"rank{rank}.json").write_text(json.dumps(trace))
    return load(folder, cache=False)


def _rank(label: str) -> int | None:
    digits = "".join(letter if letter.isdigit() else " " for letter in label).split()
    return int(digits[0]) if digits else None


def _runs(cells: str) -> Iterator[tuple[str, int, int]]:
    at = 0
    for letter, run in groupby(cells):
        long = len(list(run))
        if letter != ".":
            yield letter, at, at + long
        at += long


def _events(line: tuple[str, str, str], correlation: int, spelled: Spelling | None) -> Iterator[dict]:
    label, cells, options = line
    for nth, (letter, begin, end) in enumerate(_runs(cells)):
        told = {"correlation": correlation + nth}
        yield launch(correlation + nth, begin)
        if label.isdigit() or ":" in label:
            yield kernel(begin, end, **told)
            if spelled:
                yield span(spelled(_stage(label), *_action(letter)), begin, end, "user_annotation", MAIN)
        else:
            yield kernel(begin, end, stream=20 + correlation // 100, **told, **_call(label, options, nth))


def _stage(label: str) -> int:
    return int(label.split(":")[-1])


def _action(letter: str) -> tuple[str, int]:
    """Kind and micro-batch of a cell's letter."""
    if letter.isdigit():
        return "F", int(letter)
    if letter.isupper():
        return "I", ord(letter) - ord("A")
    return ("W", ord(letter) - ord("n")) if letter >= "n" else ("B", ord(letter) - ord("a"))


def _call(label: str, options: str, nth: int) -> dict[str, object]:
    """Name and arguments of the kernel of a send, a receive or a collective."""
    told = dict(option.split("=") for option in options.split())
    if "=" in label:
        members = [int(rank) for rank in told["ranks"].split(",")]
        name, what = COLLECTIVE, {"Collective name": label.split("=")[1].replace("_", "")}
    else:
        one, other = (int(rank) for rank in label.replace("<", ">").split(">"))
        members = sorted((one, other)) if "ranks" not in told else [int(rank) for rank in told["ranks"].split(",")]
        ends = (one, other) if ">" in label else (other, one)
        name, what = SENDRECV, {"Collective name": "send" if ">" in label else "recv"}
        what |= {"Src Rank": ends[0], "Dst Rank": ends[1]}
    group = {"Process Group Description": told["group"]} if "group" in told else {}
    return {
        "name": name, **what, **group, "Process Group Name": told.get("group", str(members)),
        "Process Group Ranks": str(members), "Group size": len(members), "Seq": nth, "dtype": "Float",
        "In msg nelems": 1000, "Out msg nelems": 1000,
    }  # fmt: skip
