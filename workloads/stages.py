"""Pipeline stages that write every forward and backward into the trace, in one spelling for all schedules.

PyTorch's own spans differ: its runtime schedules write `PP:0F3` around the computing and the wait before it, DualPipeV
`PP:(0F3;1B2)OVERLAP_F_B` around two at once, GPipe `Forward 3`, and `Schedule1F1B` nothing. Here the schedules' spans
are left out, and each stage writes its own, around computing alone:

    PP:0F3  forward of micro-batch 3 on stage 0
    PP:0B3  its whole backward
    PP:0I3  its backward down to the stage's input only, and
    PP:0W3  the rest: the gradients of the weights, of the inputs and gradients that I has kept

Waits (`wait:recv ...`) and transfers (`comm:send ...`) stand beside them. The first stage hands no gradient on, so that
PyTorch does nothing in its I, and in its W the whole backward.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import nn
from torch.distributed import ProcessGroup
from torch.distributed.pipelining import PipelineStage, schedules

from . import annotations
from .harness import Job


class Stage(PipelineStage):
    """A stage that annotates what it computes."""

    def forward_one_chunk(self, fwd_chunk_id: int, *arguments: Any, **options: Any) -> Any:
        """The forward of one micro-batch."""
        with annotations.pipeline(self.stage_index, "F", fwd_chunk_id):
            return super().forward_one_chunk(fwd_chunk_id, *arguments, **options)

    def backward_one_chunk(
        self, bwd_chunk_id: int, loss: Any = None, full_backward: bool = True, last_backward: bool = False
    ) -> None:
        """The backward of one micro-batch: all of it, or down to the stage's input only."""
        with annotations.pipeline(self.stage_index, "B" if full_backward else "I", bwd_chunk_id):
            super().backward_one_chunk(bwd_chunk_id, loss, full_backward, last_backward)

    def backward_weight_one_chunk(self, bwd_chunk_id: int, last_backward: bool = False) -> None:
        """What the backward down to the input has left out."""
        with annotations.pipeline(self.stage_index, "W", bwd_chunk_id):
            super().backward_weight_one_chunk(bwd_chunk_id, last_backward)


def stage(job: Job, part: nn.Module, number: int, stages: int, group: ProcessGroup | None) -> Stage:
    """Stage `number` of `stages`, whose ranks are those of the group (default: all).

    What it takes and gives is stated here. Left unstated, PyTorch finds out by an extra forward and backward in the
    first step.
    """
    first, last = number == 0, number == stages - 1
    taken = _tokens(job) if first else _features(job, job.shape.width)
    given = _features(job, job.shape.vocabulary if last else job.shape.width)
    return Stage(part, number, stages, job.device.place, input_args=taken, output_args=given, group=group)


def _tokens(job: Job) -> torch.Tensor:
    return torch.empty(job.options.batch, job.shape.sequence, dtype=torch.int64, device="meta")


def _features(job: Job, width: int) -> torch.Tensor:
    return torch.empty(job.options.batch, job.shape.sequence, width, device="meta", requires_grad=True)


def leave_out_other_spans() -> None:
    """From now on PyTorch's schedules write no spans of their own in this process."""
    schedules.record_function = lambda _: contextlib.nullcontext()  # type: ignore[assignment]
