"""`run.json`: what was run, on what, what each rank held, and which faults were put in."""

from __future__ import annotations

import hashlib
import json
import platform
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from . import faults

if TYPE_CHECKING:
    from .harness import Job, Training, Workload

SCHEMA = 1


def of_rank(job: Job, training: Training, losses: list[float | None], seconds: list[float]) -> dict[str, Any]:
    """What only this rank knows: what it holds after the last step, its losses and step times, what befell it."""
    parameters = dict(training.model.named_parameters())
    gradients = [parameter.grad for parameter in parameters.values() if parameter.grad is not None]
    return {
        "rank": job.rank,
        "host": socket.gethostname(),
        "device": str(job.device.place),
        "trace": f"rank{job.rank}.json.gz",
        "place": job.layout.place(job.rank),
        "parameter_bytes": _bytes(parameters.values()),
        "gradient_bytes": _bytes(gradients),
        "optimizer_bytes": _bytes(_states(training.optimizer)),
        "peak_memory": job.device.peak_memory(),
        "parameter_digest": _digest(training.model),
        "parameters": {name: parameter.numel() for name, parameter in parameters.items()},
        "losses": losses,
        "step_seconds": seconds,
        "happened": job.injection.noted(),
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
    """The whole of run.json; takes out of the ranks' facts what it sums up."""
    given = job.options
    emulated = {"emulated_flop_per_s": given.emulated_flops} if job.device.name == "emulated" else {}
    return {
        "schema": SCHEMA,
        "workload": job.workload,
        "command": command,
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "host": {"system": f"{platform.system()} {platform.machine()}", "names": sorted({r["host"] for r in ranks})},
        "device": job.device.name,
        **emulated,
        "backend": job.device.backend,
        "world_size": job.world_size,
        "layout": _layout(job),
        "model": {**vars(job.shape), "parameters": _parameters(ranks)},
        "activation_checkpointing": given.activation_checkpointing,
        "fault_tolerance_checkpoint": _checkpoint(job),
        "batch": (batch := _batch(job)),
        "samples_per_step": batch["effective"],
        "profiler": {"wait": given.wait, "warmup": given.warmup, "active": given.active},
        "losses": _mean_losses([rank["losses"] for rank in ranks]),
        "faults": [_fault(fault, ranks) for fault in job.injection.faults],
        "fault_table": faults.table(workload),
        "notes": list(training.notes),
        "ranks": [{key: value for key, value in rank.items() if key != "happened"} for rank in ranks],
        **training.details,
    }


def write(path: Path, facts: dict[str, Any]) -> None:
    """Write the facts as JSON that people read."""
    path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def _layout(job: Job) -> dict[str, Any]:
    axes = job.layout.axes.items()
    described = [{"name": name, "size": size, "groups": job.layout.groups(name)} for name, size in axes]
    return {"axes": described, **job.layout.details}


def _batch(job: Job) -> dict[str, int]:
    """Effective batch = per-device batch × data-parallel ranks × accumulation."""
    given, shards = job.options, job.layout.shards()
    return {
        "per_device": given.batch,
        "data_parallel": shards,
        "accumulation": given.accumulation,
        "effective": given.batch * shards * given.accumulation,
    }


def _checkpoint(job: Job) -> dict[str, Any] | None:
    step = job.options.checkpoint_step
    return None if step is None else {"step": step, "folder": "checkpoint"}


def _parameters(ranks: list[dict[str, Any]]) -> int:
    """Of the whole model, whatever the split: each name once."""
    return sum({name: size for rank in ranks for name, size in rank.pop("parameters").items()}.values())


def _fault(fault: faults.Fault, ranks: list[dict[str, Any]]) -> dict[str, Any]:
    befallen = [rank for rank in ranks if fault.rank in (None, rank["rank"])]
    return {
        "kind": fault.kind,
        "rank": fault.rank,
        "size": fault.size,
        "unit": faults.KINDS[fault.kind].unit,
        "from_step": fault.step,
        "happened": [
            {"rank": rank["rank"], **what} for rank in befallen for what in rank["happened"].get(fault.kind, [])
        ],
    }


def _mean_losses(by_rank: list[list[float | None]]) -> list[float | None]:
    known = [[loss for loss in step if loss is not None] for step in zip(*by_rank, strict=True)]
    return [sum(losses) / len(losses) if losses else None for losses in known]


def _states(optimizer: torch.optim.Optimizer) -> Iterable[Tensor]:
    for states in optimizer.state.values():
        yield from (value for value in states.values() if isinstance(value, Tensor))


def _bytes(tensors: Iterable[Tensor]) -> int:
    """Of what this rank has of them."""
    return sum(local.numel() * local.element_size() for local in map(_local, tensors))


def _local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _digest(model: nn.Module) -> str:
    """SHA-256 of this rank's parameters: equal on two ranks if and only if the parameters are, to the last bit."""
    digest = hashlib.sha256()
    for _, parameter in sorted(model.named_parameters()):
        digest.update(_local(parameter.detach()).cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
