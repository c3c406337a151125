"""Tensor parallelism: every rank holds a part of each matrix, and all ranks compute each sample together.

Megatron's split, by DTensor's `parallelize_module`. The first matrix of a pair is cut by columns (MLP `up`; attention's
query, key and value, which is by heads), the second by rows (MLP `down`; attention's `out`). What lies between needs no
other rank's part; the second matrix gives each rank a summand of the result, and one all-reduce adds them up. Backward
is the mirror image: one all-reduce of the gradient where the pair began. Embedding, norms and head stay whole.

What it costs, for activations of A = batch x sequence x width x 4 bytes on n ranks: per block two all-reduces of A in
forward and two in backward, 8 A (n-1)/n bytes sent by each rank. None of it can hide: the next operation needs the
result. So it is kept within a machine, on its fastest links, and pays for itself by what it saves: matrices, their
gradients, states and inner activations are 1/n per rank. What lies between the pairs (residuals, norms) is A on every
rank, computed n times over.

`--sequence-parallel` cuts that too, along the sequence: each all-reduce becomes a reduce-scatter where a pair ends and
an all-gather where the next begins, the same bytes in all, and between them a rank holds and computes 1/n of the
tokens. Two more all-gathers per micro-batch join the pieces before the head and, in backward, before the embedding. And
since a rank's norms have seen its own tokens only, their gradients are summed over the ranks once a step: the detail
that hand-written versions forget.

In the trace: per block and micro-batch 2 all_reduce in `forward` and 2 in `backward`; with sequence parallelism 2
all_gather and 2 reduce_scatter in each, and one small all_reduce per norm's parameter before the optimizer. Compute
stops for each of them. Activation checkpointing computes a block's forward again in backward, with its communication
save the last, on which no gradient depends.
"""

from __future__ import annotations

import argparse
import sys

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.optim import AdamW
from torch.profiler import record_function

from . import annotations
from .errors import WrongUse
from .harness import Job, Training
from .launch import main
from .layout import Layout
from .samples import Batch
from .transformer import Transformer, next_token_loss

REFUSED = {"length_imbalance": "all ranks compute the same samples, so that none has shorter ones"}
SEQUENCE = Shard(1)  # of batch × sequence × width


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options that only this workload has."""
    parser.add_argument(
        "--sequence-parallel", action="store_true", help="cut the activations between the matrices by tokens"
    )


def layout(options: argparse.Namespace, ranks: int) -> Layout:
    """All ranks on the tensor axis; WrongUse where heads, or the sequence that is cut, do not divide by them."""
    if options.heads % ranks:
        raise WrongUse(f"--heads {options.heads} does not divide by {ranks} ranks")
    if options.sequence_parallel and options.sequence % ranks:
        raise WrongUse(f"--sequence {options.sequence} does not divide by {ranks} ranks")
    return Layout({"tp": ranks}, details={"sequence_parallel": options.sequence_parallel})


def build(job: Job) -> Training:
    """The model split over the ranks, AdamW, and a step in which all ranks compute the same samples."""
    mesh = init_device_mesh(job.device.place.type, (job.world_size,), mesh_dim_names=("tp",))
    model = job.transformer()
    split(model, mesh, job.options.sequence_parallel)
    # One kernel for all parameters of a kind; singly, DTensor's work on the host would be most of the optimizer's time.
    optimizer = AdamW(by_kind(model), lr=job.options.learning_rate, fused=True)

    def step(batches: list[Batch]) -> Tensor:
        optimizer.zero_grad()
        losses = []
        for number, batch in enumerate(batches):
            with annotations.forward(number):
                loss = next_token_loss(model(batch.inputs), batch.targets) / len(batches)
            with annotations.backward(number):
                loss.backward()
            losses.append(loss.detach())
        sum_partial_gradients(model)
        optimizer.step()
        return torch.stack(losses).sum()

    return Training(model, optimizer, step)


def split(model: Transformer, mesh: DeviceMesh, sequence_parallel: bool) -> None:
    """Split the matrices of all blocks over the mesh in place, and with `sequence_parallel` the tokens between them.

    For parts of a model too: a pipeline stage may lack the embedding or the head.
    """
    between = SEQUENCE if sequence_parallel else Replicate()
    for block in model.blocks.values():
        parallelize_module(block, mesh, {**_pairs(between), **_norms(sequence_parallel)})
    if sequence_parallel:
        parallelize_module(model, mesh, _ends(model))


def _pairs(between: Replicate | Shard) -> dict[str, ParallelStyle]:
    """Of a block: both pairs of matrices, given the placement of the activations between the pairs."""
    # Around the pair, not its matrices: query, key and value enter together, and so do their gradients leave; and a
    # result is awaited here, where the trace shows a wait, not in the addition that reads it.
    pair = PrepareModuleInputOutput(
        input_layouts=(between,),
        desired_input_layouts=(Replicate(),),
        output_layouts=(Partial(),),
        desired_output_layouts=(between,),
    )
    second = RowwiseParallel(output_layouts=Partial(), use_local_output=False)
    attention = {f"attention.{name}": ColwiseParallel() for name in ("query", "key", "value")}
    mlp = {"mlp": pair, "mlp.up": ColwiseParallel(), "mlp.down": second}
    return {"attention": pair, **attention, "attention.out": second, **mlp}


def _norms(sequence_parallel: bool) -> dict[str, ParallelStyle]:
    """Of a block: each norm on this rank's tokens."""
    cut = SequenceParallel(use_local_output=True)
    return {"attention_norm": cut, "mlp_norm": cut} if sequence_parallel else {}


def _ends(model: Transformer) -> dict[str, ParallelStyle]:
    """Of the whole: cut the sequence after the embedding, join it before the head."""
    cut = PrepareModuleOutput(output_layouts=(Replicate(),), desired_output_layouts=(SEQUENCE,))
    join = PrepareModuleInput(input_layouts=(SEQUENCE,), desired_input_layouts=(Replicate(),), use_local_output=True)
    ends = {"embedding": cut, "norm": SequenceParallel(use_local_output=True), "head": join}
    return {name: style for name, style in ends.items() if getattr(model, name) is not None}


def by_kind(model: nn.Module) -> list[dict[str, list[nn.Parameter]]]:
    """Parameter groups for an optimizer whose kernels take many parameters at once: DTensors and others do not mix."""
    distributed = [parameter for parameter in model.parameters() if isinstance(parameter, DTensor)]
    others = [parameter for parameter in model.parameters() if not isinstance(parameter, DTensor)]
    return [{"params": distributed}, {"params": others}]


def sum_partial_gradients(model: nn.Module) -> None:
    """Add up the gradients of parameters that are whole on every rank, but whose ranks saw different tokens."""
    with record_function("gradients of norms: sum over tokens"):
        for parameter in model.parameters():
            gradient = parameter.grad
            if isinstance(gradient, DTensor) and any(placement.is_partial() for placement in gradient.placements):
                parameter.grad = gradient.redistribute(placements=parameter.placements)


if __name__ == "__main__":
    sys.exit(main(["tensor", *sys.argv[1:]]))
