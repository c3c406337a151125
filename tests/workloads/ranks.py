"""Ranks that run a function of a test, profiled, with gloo between them and annotations on."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

from tests.workloads.traces import Event
from workloads import communication, launch


def run(folder: Path, step: Callable[[int], None], groups: Callable[[], None], ranks: int = 2) -> list[list[Event]]:
    """`groups()` once on every rank, then `step(rank)` profiled; the complete events of each rank by start."""
    port = launch._free_port()
    context = launch._context("ddp")
    started = [context.Process(target=_rank, args=(folder, step, groups, rank, ranks, port)) for rank in range(ranks)]
    for process in started:
        process.start()
    for process in started:
        process.join(60)
    assert [process.exitcode for process in started] == [0] * ranks
    return [_events(folder / f"rank{rank}.json.gz") for rank in range(ranks)]


def _rank(folder, step, groups, rank, ranks, port):
    os.environ.update(launch._environment(rank, ranks, port))
    torch.set_num_threads(1)
    annotations = communication.annotate(communication.Directly())
    dist.init_process_group("gloo")
    groups()
    step(rank)
    dist.barrier()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        step(rank)
    dist.destroy_process_group()
    profiler.export_chrome_trace(str(folder / f"rank{rank}.json.gz"))
    del annotations


def _events(file: Path) -> list[Event]:
    with gzip.open(file, "rt") as text:
        events = json.load(text)["traceEvents"]
    return sorted((event for event in events if event.get("ph") == "X"), key=lambda event: event["ts"])
