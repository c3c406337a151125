"""One rank of a run: meet the others, train under the profiler, write the trace and what it was.

A workload gives `layout` (how ranks are arranged, sizes checked) and `build` (the model split that way, and one
optimizer step); everything else is here, the same for all. `README.md` shows how to add one.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import profile, schedule, supported_activities

from . import annotations, checkpoint, communication, devices, faults, injection, links, record, samples, traces
from .devices import Device
from .errors import WorkloadError, WrongUse
from .faults import Fault
from .injection import Injection
from .layout import Layout
from .samples import Batch
from .transformer import Shape, Transformer

PATIENCE = timedelta(minutes=5)


@dataclass(frozen=True)
class Job:
    """What a workload builds from: the options, who this rank is, and where it computes."""

    workload: str
    options: argparse.Namespace
    rank: int
    world_size: int
    device: Device
    layout: Layout
    shape: Shape
    injection: Injection

    def transformer(self, layers: Iterable[int] | None = None, first: bool = True, last: bool = True) -> Transformer:
        """The model on this rank's device, or the part of it with these layers, embedding if first, head if last."""
        recompute = self.options.activation_checkpointing
        model = Transformer(self.shape, self.options.seed, layers, first=first, last=last, recompute=recompute)
        return model.to(self.device.place)

    def fault(self, kind: str) -> Fault | None:
        """This fault, if it is in the run, on whatever rank; for the kinds that the workload does itself."""
        return next((fault for fault in self.injection.faults if fault.kind == kind), None)


@dataclass(frozen=True)
class Training:
    """What a workload gives back: its model and optimizer on this rank, and one optimizer step.

    `step` takes the micro-batches of the step and returns their mean loss, detached, or None on a rank that has none.
    `details` and `notes` go to run.json.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    step: Callable[[list[Batch]], Tensor | None]
    details: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Workload(Protocol):
    """A workload's module. `FAULTS` and `REFUSED` (see `faults.refusal`) are optional beside these."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the options that only this workload has."""

    def layout(self, options: argparse.Namespace, ranks: int) -> Layout:
        """How the ranks are arranged; WrongUse, with both numbers, where sizes do not divide."""

    def build(self, job: Job) -> Training:
        """The model split over the ranks, and its training step."""


def run(name: str, workload: Workload, options: argparse.Namespace, command: str) -> None:
    """Run this rank of the workload; rank and meeting place come from the environment, as torchrun sets it."""
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    job = _job(name, workload, options, rank, ranks)
    out = _folder(Path(options.out), emptied=rank == 0)
    with _prepared(job), _meeting(job.device) as store:
        training = workload.build(job)
        profiler, losses, seconds = _train(job, training, out)
        record.share(store, rank, record.of_rank(job, training, losses, seconds))
        if rank == 0:
            facts = record.of_run(workload, job, training, command, record.collect(store, ranks))
            record.write(out / "run.json", facts)
    traces.write_trace(profiler, out / f"rank{rank}.json.gz", partial(injection.into_clock, job.injection))


def _job(name: str, workload: Workload, options: argparse.Namespace, rank: int, ranks: int) -> Job:
    """The job, with everything checked that can be wrong about it."""
    layout = workload.layout(options, ranks)
    layout.check(ranks)
    local_rank, local_ranks = (int(os.environ.get(key, 0)) for key in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    device = devices.choose(options.device, options.backend, local_rank, local_ranks or ranks)
    middle = options.wait + options.warmup + options.active // 2
    asked = [faults.parse(text, ranks, middle) for text in options.fault]
    for fault in asked:
        faults.check(fault, device.column, workload, name, ranks)
    steps = options.wait + options.warmup + options.active
    if options.checkpoint_step is not None and options.checkpoint_step >= steps:
        raise WrongUse(f"--checkpoint-step {options.checkpoint_step}, but the last of {steps} steps is {steps - 1}")
    shape = Shape(options.layers, options.width, options.heads, options.vocabulary, options.sequence)
    return Job(name, options, rank, ranks, device, layout, shape, Injection(asked, rank))


@contextlib.contextmanager
def _prepared(job: Job) -> Iterator[None]:
    """The process made ready: annotations on, faults in place, the emulated device under compute."""
    if job.device.place.type == "cpu":
        torch.set_num_threads(1)
    flop_per_s = job.options.emulated_flops if job.device.name == "emulated" else None
    annotations.garbage_collections()
    injection.into_layers(job.injection, job.device.synchronize)
    libraries = injection.into_compute(job.injection, flop_per_s)
    libraries.append(communication.annotate(links.carrier(job.injection)))
    yield
    libraries.clear()


@contextlib.contextmanager
def _meeting(device: Device) -> Iterator[dist.Store]:
    try:
        store, rank, ranks = next(dist.rendezvous("env://", timeout=PATIENCE))
    except dist.DistNetworkError as error:
        raise WorkloadError(_no_meeting(error)) from error
    place = device.place if device.backend != "gloo" else None
    dist.init_process_group(device.backend, store=store, rank=rank, world_size=ranks, timeout=PATIENCE, device_id=place)
    try:
        yield store
    finally:
        dist.destroy_process_group()


def _no_meeting(error: Exception) -> str:
    where = f"port {os.environ['MASTER_PORT']} of {os.environ['MASTER_ADDR']}"
    if "EADDRINUSE" in str(error):
        return f"{where} is taken; leave --port out, or give another"
    return f"the ranks cannot meet at {where}: {str(error).splitlines()[0]}"


def _train(job: Job, training: Training, out: Path) -> tuple[profile, list[float | None], list[float]]:
    """Train through the profiler's whole schedule; the profiler, and loss and seconds of each step.

    The trace is written by the caller, after the last step: no rank waits in a step for another's file.
    """
    given = job.options
    batches = _batches(job)
    losses: list[Tensor | None] = []
    seconds = []
    gc.freeze()  # or a full collection walks all of torch, some 0.1 s at any moment: a fault that nobody asked for
    with _profiler(job) as profiler:
        for step in range(given.wait + given.warmup + given.active):
            job.injection.begin(step)
            began = time.perf_counter()
            losses.append(training.step([next(batches).to(job.device.place) for _ in range(given.accumulation)]))
            if step == given.checkpoint_step:
                _checkpoint(training, out / "checkpoint", step)
            profiler.step()
            seconds.append(time.perf_counter() - began)
    job.device.synchronize()
    return profiler, [None if loss is None else loss.item() for loss in losses], seconds


def _checkpoint(training: Training, folder: Path, step: int) -> None:
    states = checkpoint.optimizer_state(training.model, training.optimizer)
    checkpoint.save(training.model.state_dict(), states, folder, step)


def _profiler(job: Job) -> profile:
    given = job.options
    # Slow links are threads of our own, which are recorded only so.
    threads = _ExperimentalConfig(profile_all_threads=job.injection.asked("slow_link"))
    profiler = profile(
        activities=supported_activities(),
        schedule=schedule(wait=given.wait, warmup=given.warmup, active=given.active, repeat=1),
        record_shapes=True,
        profile_memory=True,
        experimental_config=threads,
    )
    if job.device.name == "emulated":  # so that whoever reads the trace can say so
        profiler.preset_metadata_json("emulated_device", json.dumps({"flop_per_s": given.emulated_flops}))
    return profiler


def _batches(job: Job) -> Iterator[Batch]:
    given, shard = job.options, job.layout.shard(job.rank)
    dataset = samples.Sentences(given.vocabulary, given.sequence, given.seed)
    collate = injection.into_samples(job.injection, given.seed, shard)
    return samples.batches(dataset, given.batch, job.layout.shards(), shard, collate)


def _folder(out: Path, emptied: bool) -> Path:
    """The folder, made if need be, and emptied of an earlier run, whose ranks might be more than this one's."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        for stale in [*out.glob("rank*.json.gz"), out / "run.json"] if emptied else []:
            stale.unlink(missing_ok=True)
    except OSError as error:
        raise WrongUse(f"cannot write to {out}: {error.strerror}") from error
    return out
