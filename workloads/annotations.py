"""The names under which a trace shows what a training does; one spelling for all workloads.

- `forward microbatch=3`, `backward microbatch=3`: what `forward` and `backward` give.
- `PP:<stage><F|B|I|W><microbatch>`, such as `PP:0F3`: a pipeline stage's forward, whole backward, input gradient,
  weight gradient (the spelling of PyTorch's runtime schedules).
- `activation checkpoint: forward layer=2`, `activation checkpoint: recompute layer=2`: a layer whose activations are
  not kept, and its second forward in backward.
- `fault-tolerance checkpoint: save step=4`: parameters and optimizer states written to disk, to restart from.
- `Python GC generation=2`: a full garbage collection, in which Python runs nothing else.
- `enumerate(DataLoader)#...`, `Optimizer.step#...`, `ProfilerStep#N` are PyTorch's own.
- `comm:...` around collectives: see `communication`.
"""

from __future__ import annotations

import gc
from typing import Any

from torch.profiler import record_function

FULL_COLLECTION = 2


def forward(microbatch: int) -> record_function:
    """A span around the forward of one micro-batch."""
    return record_function(f"forward microbatch={microbatch}")


def backward(microbatch: int) -> record_function:
    """A span around the backward of one micro-batch."""
    return record_function(f"backward microbatch={microbatch}")


def pipeline(stage: int, action: str, microbatch: int) -> record_function:
    """A span around one action of a pipeline stage: F, B, I or W."""
    return record_function(f"PP:{stage}{action}{microbatch}")


def activation_checkpoint(layer: str) -> tuple[record_function, record_function]:
    """Spans around a layer's forward and around its second forward, as `torch.utils.checkpoint`'s `context_fn`."""
    return (
        record_function(f"activation checkpoint: forward layer={layer}"),
        record_function(f"activation checkpoint: recompute layer={layer}"),
    )


def fault_tolerance_checkpoint(step: int) -> record_function:
    """A span around the writing of a checkpoint."""
    return record_function(f"fault-tolerance checkpoint: save step={step}")


def garbage_collections() -> None:
    """From now on put a span around every full garbage collection of this process."""
    running: list[record_function] = []

    def seen(phase: str, info: dict[str, Any]) -> None:
        if info["generation"] != FULL_COLLECTION:
            return
        if phase == "start":
            running.append(record_function(f"Python GC generation={FULL_COLLECTION}"))
            running[-1].__enter__()
        elif running:
            running.pop().__exit__(None, None, None)

    gc.callbacks.append(seen)
