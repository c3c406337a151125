"""Data parallelism: every rank holds the whole model, gradients are averaged in buckets while backward still runs.

PyTorch's `DistributedDataParallel`. Gradients become ready from the last layer to the first; a bucket is all-reduced as
soon as all of its gradients are there, so that all but the last bucket can hide behind the rest of backward.

With gradient accumulation a step has several micro-batches. DDP averages in the backward of each; only with `--no-sync`
does it wait for the last one, at the same result and a fraction of the traffic. With `--zero1` the optimizer's states
are sharded (`ZeroRedundancyOptimizer`): each rank updates its part of the parameters and broadcasts it.
"""

from __future__ import annotations

import argparse
import contextlib
import sys

import torch
from torch import Tensor
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.optim import AdamW

from . import annotations
from .harness import Job, Training
from .launch import main
from .layout import Layout
from .options import positive
from .samples import Batch
from .transformer import next_token_loss

FAULTS = ("no_overlap",)
ONE_BUCKET_MB = 2.0**20  # for all gradients: complete only when backward is over


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options that only this workload has."""
    parser.add_argument("--bucket-mb", type=positive, default=0.5, help="size of a gradient bucket, 2^20 bytes")
    parser.add_argument("--no-sync", action="store_true", help="average gradients in the last micro-batch only")
    parser.add_argument("--zero1", action="store_true", help="shard the optimizer's states over the ranks")
    parser.add_argument("--never-average", action="store_true", help="never average: watch the replicas diverge")


def layout(options: argparse.Namespace, ranks: int) -> Layout:
    """All ranks on the data axis."""
    sharding = "optimizer states (ZeRO-1)" if options.zero1 else None
    return Layout({"dp": ranks}, details={"sharding": sharding, "bucket_bytes": round(_bucket_mb(options) * 2**20)})


def build(job: Job) -> Training:
    """The model wrapped, AdamW, and a step that averages gradients over the ranks."""
    model = job.transformer()
    wrapped = DistributedDataParallel(model, bucket_cap_mb=_bucket_mb(job.options))
    optimizer, held = _optimizer(job, wrapped)

    def step(batches: list[Batch]) -> Tensor:
        optimizer.zero_grad()
        losses = []
        for number, batch in enumerate(batches):
            with wrapped.no_sync() if _silent(job.options, number, len(batches)) else contextlib.nullcontext():
                with annotations.forward(number):
                    loss = next_token_loss(wrapped(batch.inputs), batch.targets) / len(batches)
                with annotations.backward(number):
                    loss.backward()
            losses.append(loss.detach())
        optimizer.step()
        return torch.stack(losses).sum()

    return Training(model, held, step)


def _bucket_mb(options: argparse.Namespace) -> float:
    return ONE_BUCKET_MB if any(fault.startswith("no_overlap") for fault in options.fault) else options.bucket_mb


def _silent(options: argparse.Namespace, number: int, microbatches: int) -> bool:
    return options.never_average or (options.no_sync and number < microbatches - 1)


def _optimizer(job: Job, model: DistributedDataParallel) -> tuple[torch.optim.Optimizer, torch.optim.Optimizer]:
    """The optimizer to step, and the one that holds this rank's states."""
    rate = job.options.learning_rate
    if not job.options.zero1:
        optimizer = AdamW(model.parameters(), lr=rate)
        return optimizer, optimizer
    sharded = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=AdamW, lr=rate)
    return sharded, sharded.optim


if __name__ == "__main__":
    sys.exit(main(["ddp", *sys.argv[1:]]))
