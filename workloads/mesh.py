"""Several splits at once: data, pipeline and tensor parallelism, each along its own axis of a mesh of ranks.

One split alone runs out: data parallelism when a layer no longer fits, tensor parallelism at the edge of the machine,
a pipeline when there are no more layers, or too few micro-batches to fill it. So they are multiplied. PyTorch's
`DeviceMesh` arranges ranks as an array, here pp × dp × tp with tp fastest, and makes a group of every row along every
axis: `--pp 2 --dp 2 --tp 2` is

                 pp 0          pp 1
          dp 0   0 1           4 5        tp: 0 1 | 2 3 | 4 5 | 6 7    all-reduces inside of each layer
          dp 1   2 3           6 7        dp: 0 2 | 1 3 | 4 6 | 5 7    gathers and scatters of states, once a step
                                          pp: 0 4 | 1 5 | 2 6 | 3 7    sends between stages, once a micro-batch

The order is by traffic. A tp group talks in every layer, and nothing hides it: its ranks are neighbours on the fastest
links. A pp group talks least and may be farthest apart. What is done, from the inside out:

- tp: the matrices of each block are split by DTensor (`tensor`).
- dp: of what is left, each rank keeps a shard, FSDP2 (`fsdp`): all-gathered before a step's first forward and kept, the
  gradients averaged by reduce-scatter when the last micro-batch is through. Ranks along dp read different samples.
- pp: what comes of that is a stage (`pipeline`). A stage's ranks with the same dp and tp index talk to each other.

Where `--pp` is 1 there is no pipeline: micro-batches are accumulated.

In the trace: each axis has its own operation, all_reduce on tp, all_gather and reduce_scatter on dp, send and recv on
pp. A call's `group` leads through the trace's `distributedInfo.pg_config` to its ranks, and those through run.json's
`layout` to its axis. A slow rank is seen along all three: its tp neighbours wait for it in every layer, its pp
neighbours once per micro-batch, its dp neighbours at the end of the step. Who waits most is not who is slow.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.optim import AdamW

from . import annotations, pipeline, tensor
from .errors import WrongUse
from .harness import Job, Training
from .launch import main
from .layout import Layout
from .pipeline import Pipeline
from .samples import Batch
from .transformer import Transformer, next_token_loss

FAULTS = ("stage_imbalance",)
REFUSED = {
    "length_imbalance": "the ranks of a pp or tp group work on arrays of one size",
    "no_overlap": "tp overlaps nothing anyway, pp as its schedule does; see ddp and fsdp for dp",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options that only this workload has: degrees, and the pipeline's."""
    parser.add_argument("--dp", type=int, default=None, help="data-parallel degree (default: what pp and tp leave)")
    parser.add_argument("--tp", type=int, default=1, help="tensor-parallel degree")
    parser.add_argument("--pp", type=int, default=1, help="pipeline degree")
    pipeline.add_options(parser)


def layout(options: argparse.Namespace, ranks: int) -> Layout:
    """The axes pp, dp, tp; WrongUse where a degree does not fit what it divides."""
    dp = options.dp or max(1, ranks // (options.pp * options.tp))
    if options.heads % options.tp:
        raise WrongUse(f"--heads {options.heads} does not divide by --tp {options.tp}")
    if options.pp == 1 and any(fault.startswith("stage_imbalance") for fault in options.fault):
        raise WrongUse("fault stage_imbalance cannot happen with --pp 1: there is one stage")
    stages = pipeline.described(options, options.pp) if options.pp > 1 else {}
    sharding = "all states over dp" if dp > 1 else None
    return Layout({"pp": options.pp, "dp": dp, "tp": options.tp}, details={"sharding": sharding, **stages})


def build(job: Job) -> Training:
    """This rank's part of the model, split along all axes, AdamW on it, and a step."""
    mesh = init_device_mesh(
        job.device.place.type, tuple(job.layout.axes.values()), mesh_dim_names=tuple(job.layout.axes)
    )
    model, run = _pipeline(job, mesh) if job.options.pp > 1 else _accumulation(job, mesh)
    # One parameter at a time: those of one matrix live on dp × tp, those of a norm on dp alone, and do not mix.
    optimizer = AdamW(model.parameters(), lr=job.options.learning_rate, foreach=False)

    def step(batches: list[Batch]) -> Tensor | None:
        optimizer.zero_grad()
        loss = run(batches)
        optimizer.step()
        return loss

    details = {"stages": pipeline.table(job, job.options.pp)} if job.options.pp > 1 else {}
    return Training(model, optimizer, step, details)


Run = Callable[[list[Batch]], Tensor | None]


def _pipeline(job: Job, mesh: DeviceMesh) -> tuple[nn.Module, Run]:
    """This rank's stages, each split along tp and dp, and the schedule along pp."""
    pp = mesh["pp"]
    held = Pipeline.of(job, pp.get_local_rank(), pp.size(), pp.get_group(), lambda part: _split(job, part, mesh))
    return held.model, held.run


def _accumulation(job: Job, mesh: DeviceMesh) -> tuple[nn.Module, Run]:
    """The whole model split along tp and dp, and one micro-batch after the other."""
    model = job.transformer()
    _split(job, model, mesh)

    def run(batches: list[Batch]) -> Tensor:
        losses = []
        for number, batch in enumerate(batches):
            if isinstance(model, FSDPModule):
                model.set_requires_gradient_sync(number == len(batches) - 1)
            with annotations.forward(number):
                loss = next_token_loss(model(batch.inputs), batch.targets) / len(batches)
            with annotations.backward(number):
                loss.backward()
            losses.append(loss.detach())
        return torch.stack(losses).sum()

    return model, run


def _split(job: Job, part: Transformer, mesh: DeviceMesh) -> None:
    """Split a part of the model in place: its matrices along tp, then all that it holds along dp."""
    if mesh["tp"].size() > 1:
        tensor.split(part, mesh["tp"], sequence_parallel=False)
    if mesh["dp"].size() > 1:
        # Kept gathered for all micro-batches: gathering for each would cost more than it saves.
        for block in part.blocks.values():
            fully_shard(block, mesh=mesh["dp"], reshard_after_forward=False)
        root = fully_shard(part, mesh=mesh["dp"], reshard_after_forward=False)
        root._set_unshard_async_op(job.device.place.type == "cpu")  # a CPU has no streams to gather on


if __name__ == "__main__":
    sys.exit(main(["mesh", *sys.argv[1:]]))
