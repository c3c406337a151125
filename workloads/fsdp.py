"""Sharded data parallelism: every rank keeps a shard of each layer, and gathers the layer only while it computes it.

PyTorch's FSDP2, `fully_shard`. Ranks read different samples, as in DDP, but of parameters, gradients and optimizer
states each holds one part in n. A block is all-gathered just before its forward and again before its backward, and
freed after each; after its backward its gradients are reduce-scattered, so that each rank gets the mean of its own
shard. Embedding, last norm and head are one more unit, the root: it stays gathered from forward to backward, since
backward begins with it.

What it costs, for P bytes of parameters on n ranks (AdamW in float32, states 2 P):

    per rank                     holds                                    sends in a micro-batch
    DDP                          4 P                                      2 P (n-1)/n   all-reduce
    ZeRO-2, `--keep-gathered`    4 P / n, and P from forward to backward  2 P (n-1)/n   gather, scatter
    ZeRO-3, the default          4 P / n, and a few blocks at any time    3 P (n-1)/n   gather twice, scatter

A gather can hide behind compute only if it is asked for before it is needed. `--prefetch` is by how many units: 0 hides
nothing and holds one block, each more holds one block more. `--mixed-precision` gathers and computes in bfloat16 and
reduces in float32: the gathers move half the bytes. With accumulation, `--no-sync` scatters gradients in the last
micro-batch only, and holds P bytes of them until then.

In the trace: `FSDP::all_gather` where a gather is issued, `FSDP::all_gather_copy_out` where the host awaits it and then
cuts the layer's matrices out of what came; per micro-batch 2 x blocks + 1 gathers (ZeRO-3) or blocks + 1 (ZeRO-2), and
blocks + 1 reduce-scatters. On a CPU there are no streams. A gather then overlaps only if it runs asynchronously, which
is set here; and a reduce-scatter never does, since FSDP waits for it on the spot. On an accelerator both run on streams
of their own, and with `--prefetch 0` the next block's gather still overlaps in forward: the host runs ahead and asks.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.optim import AdamW

from . import annotations
from .errors import WrongUse
from .harness import Job, Training
from .launch import main
from .layout import Layout
from .samples import Batch
from .transformer import Transformer, next_token_loss

FAULTS = ("no_overlap",)
SCATTER_ON_CPU = "reduce-scatter does not overlap compute on a CPU: FSDP waits for each as soon as it is issued"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options that only this workload has."""
    parser.add_argument(
        "--keep-gathered", action="store_true", help="keep blocks gathered from forward to backward (ZeRO-2, not 3)"
    )
    parser.add_argument("--prefetch", type=int, default=1, help="units gathered ahead of the one that computes")
    parser.add_argument("--mixed-precision", action="store_true", help="gather and compute in bfloat16")
    parser.add_argument("--no-sync", action="store_true", help="reduce gradients in the last micro-batch only")


def layout(options: argparse.Namespace, ranks: int) -> Layout:
    """All ranks on the data axis, along which the states are sharded too; WrongUse for a negative prefetch."""
    if options.prefetch < 0:
        raise WrongUse(f"--prefetch {options.prefetch} is below 0")
    sharding = "gradients and optimizer states (ZeRO-2)" if options.keep_gathered else "all states (ZeRO-3)"
    return Layout({"dp": ranks}, details={"sharding": sharding, "prefetch": options.prefetch})


def build(job: Job) -> Training:
    """The model sharded, AdamW on the shards, and a step that averages gradients over the ranks."""
    model = job.transformer()
    root, units = _shard(job, model)
    _overlap(job, units)
    optimizer = AdamW(model.parameters(), lr=job.options.learning_rate, fused=True)

    def step(batches: list[Batch]) -> Tensor:
        optimizer.zero_grad()
        losses = []
        for number, batch in enumerate(batches):
            root.set_requires_gradient_sync(not job.options.no_sync or number == len(batches) - 1)
            with annotations.forward(number):
                loss = next_token_loss(model(batch.inputs), batch.targets) / len(batches)
            with annotations.backward(number):
                loss.backward()
            losses.append(loss.detach())
        optimizer.step()
        return torch.stack(losses).sum()

    notes = (SCATTER_ON_CPU,) if job.device.place.type == "cpu" else ()
    return Training(model, optimizer, step, {"precision": _precision(job)}, notes)


def _shard(job: Job, model: Transformer) -> tuple[FSDPModule, list[FSDPModule]]:
    """Shard the model in place; its root, and all units in the order of their forward."""
    mesh = init_device_mesh(job.device.place.type, (job.world_size,), mesh_dim_names=("dp",))
    keep = job.options.keep_gathered
    compute = torch.bfloat16 if job.options.mixed_precision else None
    inner = MixedPrecisionPolicy(param_dtype=compute, reduce_dtype=torch.float32)
    outer = MixedPrecisionPolicy(param_dtype=compute, reduce_dtype=torch.float32, output_dtype=torch.float32)
    blocks = [
        fully_shard(block, mesh=mesh, reshard_after_forward=not keep, mp_policy=inner)
        for block in model.blocks.values()
    ]
    root = fully_shard(model, mesh=mesh, reshard_after_forward=False, mp_policy=outer)
    return root, [root, *blocks]


def _overlap(job: Job, units: list[FSDPModule]) -> None:
    """Say how far ahead units are gathered; for the fault `no_overlap`, let compute and communication take turns."""
    root, *blocks = units
    take_turns, on_cpu = job.fault("no_overlap") is not None, job.device.place.type == "cpu"
    # Asynchronous: on a CPU beside compute, on an accelerator in the stream that computes, so after what is there.
    root._set_unshard_async_op(on_cpu != take_turns)
    depth = 0 if take_turns else job.options.prefetch
    for unit, ahead in _ahead(units, depth):
        unit.set_modules_to_forward_prefetch(ahead)
    for unit, ahead in _ahead([root, *reversed(blocks)], depth):
        unit.set_modules_to_backward_prefetch(ahead)
    if take_turns and not on_cpu:
        _wait_for_scatters(units, torch.accelerator.current_stream())


def _wait_for_scatters(units: list[FSDPModule], computing: torch.Stream) -> None:
    """On an accelerator: let the computing stream wait for each reduce-scatter, which has a stream of its own."""
    for unit in units:
        # Called after the scatter, on the stream on which FSDP would go on to an all-reduce between replicas.
        unit.set_all_reduce_hook(lambda _: computing.wait_stream(torch.accelerator.current_stream()))


def _ahead(order: list[FSDPModule], depth: int) -> Iterator[tuple[FSDPModule, list[FSDPModule]]]:
    """Each unit with those to gather while it computes.

    For none it is the unit itself, which is gathered already: an empty list would mean PyTorch's own choice.
    """
    for index, unit in enumerate(order):
        yield unit, order[index + 1 : index + 1 + depth] or [unit]


def _precision(job: Job) -> dict[str, str]:
    compute = "bfloat16" if job.options.mixed_precision else "float32"
    return {"gathered_and_computed": compute, "reduced": "float32", "kept": "float32"}


if __name__ == "__main__":
    sys.exit(main(["fsdp", *sys.argv[1:]]))
