"""Data parallelism: every rank holds the whole model, gradients are averaged in buckets while backward still runs.

PyTorch's `DistributedDataParallel`. Gradients become ready from the last layer to the first; a bucket is all-reduced as
soon as all of its gradients are there, so that all but the last bucket can hide behind the rest of backward.
"""

from __future__ import annotations

import argparse
import sys

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from .harness import Job, Training
from .launch import main
from .layout import Layout
from .samples import Batch
from .transformer import Transformer, next_token_loss


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options that only this workload has."""
    parser.add_argument("--bucket-mb", type=float, default=0.5, help="size of a gradient bucket, 2^20 bytes")


def layout(options: argparse.Namespace, ranks: int) -> Layout:
    """All ranks on the data axis."""
    return Layout({"dp": ranks}, details={"bucket_bytes": round(options.bucket_mb * 2**20)})


def build(job: Job) -> Training:
    """The model wrapped, AdamW, and a step that averages gradients over the ranks."""
    model = Transformer(job.shape, job.options.seed).to(job.device)
    wrapped = DistributedDataParallel(model, bucket_cap_mb=job.options.bucket_mb)
    optimizer = torch.optim.AdamW(wrapped.parameters(), lr=job.options.learning_rate)

    def step(batches: list[Batch]) -> Tensor:
        optimizer.zero_grad()
        total = torch.zeros((), device=job.device)
        for batch in batches:
            loss = next_token_loss(wrapped(batch.inputs), batch.targets) / len(batches)
            loss.backward()
            total += loss.detach()
        optimizer.step()
        return total

    return Training(model, optimizer, step)


if __name__ == "__main__":
    sys.exit(main(["ddp", *sys.argv[1:]]))
