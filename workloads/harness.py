"""One rank of a run: meet the others, train under the profiler, write the trace and what it was.

A workload gives `layout` (how ranks are arranged, sizes checked) and `build` (the model split that way, and one
optimizer step); everything else is here, the same for all.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.profiler import profile, schedule, supported_activities

from . import devices, record, samples
from .errors import WorkloadError
from .layout import Layout
from .samples import Batch
from .transformer import Shape

PATIENCE = timedelta(minutes=5)


@dataclass(frozen=True)
class Job:
    """What a workload builds from: the options, who this rank is, and where it computes."""

    options: argparse.Namespace
    rank: int
    world_size: int
    device: torch.device
    backend: str
    layout: Layout

    @property
    def shape(self) -> Shape:
        """Sizes of the model."""
        given = self.options
        return Shape(given.layers, given.width, given.heads, given.vocabulary, given.sequence)


@dataclass(frozen=True)
class Training:
    """What a workload gives back: its model and optimizer on this rank, and one optimizer step.

    `step` takes the micro-batches of the step and returns their mean loss, detached, or None on a rank that has none.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    step: Callable[[list[Batch]], Tensor | None]
    details: dict[str, Any] = field(default_factory=dict)


class Workload(Protocol):
    """A workload's module."""

    __name__: str
    __doc__: str | None

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the options that only this workload has."""

    def layout(self, options: argparse.Namespace, ranks: int) -> Layout:
        """How the ranks are arranged; WrongUse, with both numbers, where sizes do not divide."""

    def build(self, job: Job) -> Training:
        """The model split over the ranks, and its training step."""


def run(workload: Workload, options: argparse.Namespace, command: str) -> None:
    """Run this rank of the workload; rank and meeting place come from the environment, as torchrun sets it."""
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    layout = workload.layout(options, ranks)
    layout.check(ranks)
    local_rank = int(os.environ.get("LOCAL_RANK", rank))
    local_ranks = int(os.environ.get("LOCAL_WORLD_SIZE", ranks))
    device, backend = devices.choose(options.device, local_rank, local_ranks, None)
    if device.type == "cpu":
        torch.set_num_threads(1)
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    with _meeting(backend) as store:
        job = Job(options, rank, ranks, device, backend, layout)
        training = workload.build(job)
        profiler, losses, seconds = _train(job, training)
        facts = record.of_rank(job, training, losses, seconds)
        record.share(store, rank, facts)
        if rank == 0:
            record.write(
                out / "run.json", record.of_run(workload, job, training, command, record.collect(store, ranks))
            )
    profiler.export_chrome_trace(str(out / f"rank{rank}.json.gz"))


@contextlib.contextmanager
def _meeting(backend: str) -> Iterator[dist.Store]:
    try:
        store, rank, ranks = next(dist.rendezvous("env://", timeout=PATIENCE))
    except dist.DistNetworkError as error:
        raise WorkloadError(f"port {os.environ['MASTER_PORT']} is taken: {error}") from error
    dist.init_process_group(backend, store=store, rank=rank, world_size=ranks, timeout=PATIENCE)
    try:
        yield store
    finally:
        dist.destroy_process_group()


def _train(job: Job, training: Training) -> tuple[profile, list[float | None], list[float]]:
    """Train through the profiler's whole schedule; the profiler, and loss and seconds of each step.

    The trace is written by the caller, after the last step: no rank waits in a step for another's file.
    """
    given = job.options
    batches = _batches(job)
    losses: list[Tensor | None] = []
    seconds = []
    with _profiler(given) as profiler:
        for _ in range(given.wait + given.warmup + given.active):
            began = time.perf_counter()
            losses.append(training.step([next(batches).to(job.device) for _ in range(given.accumulation)]))
            profiler.step()
            seconds.append(time.perf_counter() - began)
    devices.synchronize(job.device)
    return profiler, [None if loss is None else loss.item() for loss in losses], seconds


def _profiler(given: argparse.Namespace) -> profile:
    return profile(
        activities=supported_activities(),
        schedule=schedule(wait=given.wait, warmup=given.warmup, active=given.active, repeat=1),
        record_shapes=True,
        profile_memory=True,
    )


def _batches(job: Job) -> Iterator[Batch]:
    given = job.options
    dataset = samples.Sentences(given.vocabulary, given.sequence, given.seed)
    order = samples.indices(given.batch, job.layout.shards(), job.layout.shard(job.rank))
    return iter(samples.loader(dataset, order, given.batch))
