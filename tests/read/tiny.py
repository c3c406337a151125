"""Tiny traces by hand, with times in microseconds, so that every answer is counted by eye."""

from __future__ import annotations

import io
import json
from pathlib import Path

from tracekit.intervals import Spans, union
from tracekit.model import Run
from tracekit.read import names
from tracekit.read.kineto import RawTrace, read_kineto
from tracekit.read.tables import RankPart, rank_parts

MAIN, OTHER_THREAD = (100, 1), (100, 2)
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
GEMM = "ampere_sgemm_128x64_tn"


def span(name, start, end, cat="kernel", lane=(0, 7), **args):
    """An X event."""
    times = {"ts": start, "dur": end - start}
    return {"ph": "X", "cat": cat, "name": name, "pid": lane[0], "tid": lane[1], **times, "args": args}


def kernel(start, end, name=GEMM, stream=7, **args):
    return span(name, start, end, lane=(0, stream), stream=stream, device=0, **args)


def step(number, start, end, lane=MAIN, cat="user_annotation"):
    return span(f"ProfilerStep#{number}", start, end, cat, lane)


def launch(correlation, at, lane=MAIN, name="cudaLaunchKernel", cat="cuda_runtime"):
    """A launching call of one microsecond."""
    return span(name, at, at + 1, cat, lane, correlation=correlation)


def op(start, end, name="aten::mm", lane=MAIN, cat="cpu_op", **args):
    return span(name, start, end, cat, lane, **args)


def text(events, **metadata) -> str:
    return json.dumps({"schemaVersion": 1, **metadata, "traceEvents": events})


def write(folder: Path, events, name="rank0.json", **metadata) -> Path:
    """A trace file in the folder."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text(events, **metadata))
    return file


def raw(content: str | bytes) -> RawTrace:
    """What the format's reader makes of a text."""
    return read_kineto(io.BytesIO(content if isinstance(content, bytes) else content.encode()))


def parts(events, basename="rank0.json", **metadata) -> list[RankPart]:
    return rank_parts(raw(text(events, **metadata)), basename, names.communication())


def part(events, **metadata) -> RankPart:
    """The tables of the only rank in a trace."""
    [only] = parts(events, **metadata)
    return only


def rows(frame, *columns) -> list[tuple]:
    """The columns' values, row by row, with `_ns` told in microseconds."""
    values = [frame[name] / 1000 if name.endswith("_ns") else frame[name].astype(object) for name in columns]
    return list(zip(*(column.tolist() for column in values), strict=True))


def codes(run: Run) -> dict[str, int]:
    """How often each note's code counts in a run."""
    return run.notes.groupby("code")["count"].sum().to_dict()


def noted(one: RankPart) -> dict[str, int]:
    """The same of one part."""
    return {note.code: note.count for note in one.notes}


def busy(one: RankPart, kind: str) -> Spans:
    """The time in which work of a kind runs."""
    of_kind = one.work[one.work["kind"] == kind]
    return union(of_kind["start_ns"], of_kind["end_ns"])
