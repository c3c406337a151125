"""Runs that the app's tests look at, and the script that shows one page of one."""

from __future__ import annotations

from functools import cache

from tests import hostile, lanes
from tracekit.analysis import Analysis
from tracekit.plan import hardware
from tracekit.plan.layout import Layout
from tracekit.plan.transformer import Transformer
from tracekit.read.load import load
from tracekit.simulate import Job, simulate
from tracekit.simulate.faults import Fault

MODEL = Transformer(layers=4, hidden=256, heads=4, sequence=128, vocabulary=512)


def job(**layout):
    """A small job; with a pipeline its last rank is slow."""
    split = Layout(**layout)
    faults = (Fault("slow_device", split.ranks - 1, 1.5),) if split.ranks > 1 else ()
    return Job(MODEL, split, hardware.preset("h100-80gb", split.ranks), steps=2, faults=faults)


def folder_of(kind, folder):
    """The traces of a kind of run, written into a folder: simulated, single, or empty of work."""
    if kind == "empty":
        lanes.kineto("step 0000\n0/main aaaa", folder)
    else:
        simulate(job(data=2, pipeline=2, microbatches=4) if kind == "simulated" else job(), folder)
    return folder


@cache
def analysis_at(path):
    """The run at a path, read once for all pages."""
    return Analysis(load(path, cache=False))


def hostile_traces(folder, names=hostile.NAMES, first="rank0.json"):
    """Two ranks whose kernels, groups and threads have hostile names."""
    import json

    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(2):
        events = [
            {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1, "ts": 0,
             "dur": 100 * len(names) + 100},
        ]  # fmt: skip
        for nth, name in enumerate(names):
            start = 100 * nth
            events += [
                _kernel(name, 7, start, 40, nth),
                _kernel(f"ncclDevKernel_AllReduce_Sum_{name}", 20, start + 40 + 10 * rank, 40 - 10 * rank, 100 + nth,
                        **{"Process Group Name": name, "Collective name": "allreduce", "In msg nelems": 512,
                           "dtype": "Float", "Group size": 2, "Seq": nth, "Process Group Ranks": "[0, 1]"}),
            ]  # fmt: skip
        told = {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2}, "deviceProperties": [],
                "traceEvents": events}  # fmt: skip
        (folder / (first if rank == 0 else f"rank{rank}.json")).write_text(json.dumps(told))
    return folder


def _kernel(name, stream, start, length, correlation, **args):
    told = {"stream": stream, "correlation": correlation, "device": 0, **args}
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": start, "dur": length, "args": told}
