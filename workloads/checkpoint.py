"""A fault-tolerance checkpoint: what a training restarts from after a crash, written by all ranks together.

Not to be confused with activation checkpointing, which keeps fewer activations and computes them again in backward.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.distributed.checkpoint as distributed_checkpoint
from torch import Tensor, nn

from . import annotations


def save(model: dict[str, Tensor], optimizer: dict[str, Tensor], folder: Path, step: int) -> None:
    """Write parameters and optimizer states to a folder that `torch.distributed.checkpoint.load` reads.

    Tensors that several ranks hold are written once, shards by the rank that has them: a run with any split gives the
    same checkpoint.
    """
    state = {f"model.{name}": tensor for name, tensor in model.items()}
    state |= {f"optimizer.{name}": tensor for name, tensor in optimizer.items()}
    with annotations.fault_tolerance_checkpoint(step):
        distributed_checkpoint.save(state, checkpoint_id=folder)


def optimizer_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The states that this rank's optimizer holds, named by parameter and state."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    return {
        f"{names[parameter]}.{key}": value
        for parameter, states in optimizer.state.items()
        for key, value in states.items()
        if isinstance(value, Tensor)
    }
