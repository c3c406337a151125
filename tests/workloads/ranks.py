"""Ranks that run a function of a test, profiled, with gloo between them and annotations on."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

from tests.workloads.traces import Event
from workloads import communication, launch


def run(folder: Path, step: Callable[[int], None], groups: Callable[[], None], ranks: int = 2) -> list[list[Event]]:
    """`groups()` once on every rank, then `step(rank)` profiled; the complete events of each rank by start."""
    start(partial(_profiled, folder, step, groups), ranks)
    return [_events(folder / f"rank{rank}.json.gz") for rank in range(ranks)]


def start(work: Callable[[int], None], ranks: int = 2) -> None:
    """`work(rank)` on every rank, each in a process of its own, until all have ended."""
    port = launch._free_port()
    context = launch._context("ddp")
    started = [context.Process(target=_rank, args=(work, rank, ranks, port)) for rank in range(ranks)]
    for process in started:
        process.start()
    for process in started:
        process.join(60)
    assert [process.exitcode for process in started] == [0] * ranks


def _rank(work, rank, ranks, port):
    os.environ.update(launch._environment(rank, ranks, port))
    torch.set_num_threads(1)
    work(rank)


def _profiled(folder, step, groups, rank):
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
