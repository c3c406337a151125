"""`run.json`: what was run, on what, and what each rank held."""

from __future__ import annotations

import json
import platform
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor

if TYPE_CHECKING:
    from .harness import Job, Training, Workload

SCHEMA = 1


def of_rank(job: Job, training: Training, losses: list[float | None], seconds: list[float]) -> dict[str, Any]:
    """What only this rank knows: bytes that it holds after the last step, its losses, its step times."""
    parameters = list(training.model.parameters())
    return {
        "rank": job.rank,
        "host": socket.gethostname(),
        "device": str(job.device),
        "trace": f"rank{job.rank}.json.gz",
        "place": job.layout.place(job.rank),
        "parameter_bytes": _bytes(parameters),
        "gradient_bytes": _bytes(parameter.grad for parameter in parameters if parameter.grad is not None),
        "optimizer_bytes": _bytes(_states(training.optimizer)),
        "losses": losses,
        "step_seconds": seconds,
    }


def share(store: dist.Store, rank: int, facts: dict[str, Any]) -> None:
    """Leave this rank's facts where rank 0 finds them."""
    store.set(f"facts/{rank}", json.dumps(facts))


def collect(store: dist.Store, ranks: int) -> list[dict[str, Any]]:
    """The facts of all ranks, in order, once each has left them."""
    return [json.loads(store.get(f"facts/{rank}")) for rank in range(ranks)]


def of_run(
    workload: Workload, job: Job, training: Training, command: str, ranks: list[dict[str, Any]]
) -> dict[str, Any]:
    """The whole of run.json."""
    given = job.options
    shards = job.layout.shards()
    effective = given.batch * shards * given.accumulation
    return {
        "schema": SCHEMA,
        "workload": workload.__name__.rpartition(".")[2],
        "command": command,
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "system": f"{platform.system()} {platform.machine()}",
        "device": job.device.type,
        "backend": job.backend,
        "world_size": job.world_size,
        "layout": {
            "axes": [
                {"name": name, "size": size, "groups": job.layout.groups(name)}
                for name, size in job.layout.axes.items()
            ],
            **job.layout.details,
        },
        "model": {**vars(job.shape), **training.details},
        "batch": {
            "per_device": given.batch,
            "data_parallel": shards,
            "accumulation": given.accumulation,
            "effective": effective,
        },
        "samples_per_step": effective,
        "profiler": {"wait": given.wait, "warmup": given.warmup, "active": given.active},
        "losses": _mean_losses([rank["losses"] for rank in ranks]),
        "ranks": ranks,
        "faults": [],
    }


def write(path: Path, facts: dict[str, Any]) -> None:
    """Write the facts as JSON that people read."""
    path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def _mean_losses(by_rank: list[list[float | None]]) -> list[float | None]:
    known = [[loss for loss in step if loss is not None] for step in zip(*by_rank, strict=True)]
    return [sum(losses) / len(losses) if losses else None for losses in known]


def _states(optimizer: torch.optim.Optimizer) -> Iterable[Tensor]:
    for states in optimizer.state.values():
        yield from (value for value in states.values() if isinstance(value, Tensor))


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
