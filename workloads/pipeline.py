"""Pipeline parallelism: the layers are cut into stages, each rank has some, and micro-batches flow through them.

PyTorch's `torch.distributed.pipelining`. Stage 0 has the embedding and the first layers, the last stage the last layers
and the loss. A stage sends its output forward to the next, and in backward the gradient of its input to the one before.
Little is sent, between neighbours only: batch × sequence × width numbers per micro-batch and boundary, both ways.

The price is the bubble. The last stage cannot begin before a micro-batch has come through all the others, and the first
has nothing to do until its gradient has come back. With p ranks, m micro-batches and v stages on each rank, where all
forwards take the same time, a backward takes twice as long, and nothing else takes any, a rank is idle for this share
of the time from the first forward to the last backward; and holds at most this many micro-batches' activations (of its
own layers) in flight, on rank r:

    --schedule                 idle share                in flight
    gpipe                      (p-1) / (m+p-1)           m
    1f1b                       (p-1) / (m+p-1)           p - r
    interleaved                (p-1) / (v m+p-1)         ((v+1) p - 2 r - 1) / v
    interleaved-zero-bubble    (p-1) / (3 v m+p-1)       p
    zbv                        (p-1) / (3 v m+p-1)       p            v = 2, m at least 2p-1
    dualpipev                  (p-1) / (3 m+p-1)         p + 1/2      v = 2, m at least 2p

- GPipe: all forwards, then all backwards. Simple, and every micro-batch's activations are held at once.
- 1F1B: one forward, one backward in turn, as soon as there is a gradient. As idle as GPipe, but memory no longer grows
  with m, so that m can.
- Interleaved 1F1B: stage s is on rank s mod p, so that each rank has v thin stages and a micro-batch comes by v times:
  the ramp is v times shorter, for v times as many transfers.
- Zero bubble: a backward is two products of the same size. I, the gradient of the stage's input, has the neighbour
  waiting for it; W, the gradient of the weights, nobody waits for. So I is done at once, and W in what would be idle
  time. What is left of the ramp is p-1 forwards of a third. (With v = 1 it is the paper's ZB-H1.)
- ZBV places stages in a V: rank r has stages r and 2p-1-r. The loss is on rank 0, and memory is even.
- DualPipeV is a V too; in its middle a forward and a backward are one action, so that on a GPU one's communication can
  hide under the other's compute. PyTorch runs them one after the other and sends the results of both after that, which
  doubles the ramp.

In the trace: `PP:<stage><F|B|I|W><microbatch>` is a stage at work (`stages`); the loss comes after the last stage's
F. `wait:...` is the bubble as a rank lives it, standing still until a neighbour is ready (`waits`). Where it stands
tells why: at the beginning and end of a step the ramp, at every micro-batch an imbalance. Stages are of equally many
layers, and the vocabulary is small by default, so that the head is a small part of the last one;
`--fault stage_imbalance:2:1` gives a stage of rank 2 a layer more, and all others wait for it once per micro-batch.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.distributed.pipelining import (
    Schedule1F1B,
    ScheduleDualPipeV,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleZBVZeroBubble,
)
from torch.optim import AdamW

from . import stages
from .errors import WrongUse
from .harness import Job, Training
from .injection import Injection
from .launch import main
from .layout import Layout
from .samples import Batch
from .transformer import Transformer, next_token_loss

FAULTS = ("stage_imbalance",)
REFUSED = {
    "length_imbalance": "stages exchange arrays of one size, so that all micro-batches are equally long",
    "no_overlap": "what overlaps is up to the schedule; gpipe and 1f1b overlap least",
}


@dataclass(frozen=True)
class Kind:
    """A schedule: PyTorch's class, and how many stages it wants on a rank, placed how.

    `looped` can have any number of stages on a rank; `v_shaped` has stage s on rank s and back; `filled` wants at least
    as many micro-batches as stages.
    """

    schedule: Callable[..., Any]
    virtual: int = 1
    looped: bool = False
    v_shaped: bool = False
    filled: bool = False


SCHEDULES = {
    "gpipe": Kind(ScheduleGPipe),
    "1f1b": Kind(Schedule1F1B, filled=True),
    "interleaved": Kind(ScheduleInterleaved1F1B, virtual=2, looped=True),
    "interleaved-zero-bubble": Kind(ScheduleInterleavedZeroBubble, virtual=2, looped=True),
    "zbv": Kind(ScheduleZBVZeroBubble, virtual=2, v_shaped=True),
    "dualpipev": Kind(ScheduleDualPipeV, virtual=2, v_shaped=True, filled=True),
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options that only this workload has."""
    parser.add_argument("--schedule", choices=list(SCHEDULES), default="1f1b")
    parser.add_argument("--virtual-stages", type=int, default=None, help="stages on each rank (default: 1 or 2)")
    parser.add_argument(
        "--microbatches", dest="accumulation", type=int, default=8, help="per optimizer step; same as --accumulation"
    )
    parser.set_defaults(accumulation=8, layers=8, vocabulary=16)


def layout(options: argparse.Namespace, ranks: int) -> Layout:
    """All ranks on the pipeline axis."""
    return Layout({"pp": ranks}, details=described(options, ranks))


def build(job: Job) -> Training:
    """This rank's stages, AdamW on their parameters, and a step that runs the schedule."""
    pipeline = Pipeline.of(job, job.rank, job.world_size)
    optimizer = AdamW(pipeline.model.parameters(), lr=job.options.learning_rate)

    def step(batches: list[Batch]) -> Tensor | None:
        optimizer.zero_grad()
        loss = pipeline.run(batches)
        optimizer.step()
        return loss

    return Training(pipeline.model, optimizer, step, {"stages": table(job, job.world_size)})


@dataclass(frozen=True)
class Pipeline:
    """One rank's part of a pipeline: what it holds, under the whole model's names, and the schedule that it follows."""

    model: nn.Module
    schedule: Any
    first: bool
    last: bool
    injection: Injection

    @classmethod
    def of(
        cls,
        job: Job,
        index: int,
        ranks: int,
        group: ProcessGroup | None = None,
        split: Callable[[Transformer], None] = lambda _: None,
    ) -> Pipeline:
        """Rank `index` of a pipeline over the group's ranks; `split` may split each part further, in place."""
        stages.leave_out_other_spans()
        numbers = _placed(job.options, index, ranks)
        count = len(numbers) * ranks
        parts = [
            job.transformer(layers, first=number == 0, last=number == count - 1)
            for number, layers in enumerate(_cut(job, ranks))
            if number in numbers
        ]
        for part in parts:
            split(part)
        held = [stages.stage(job, part, number, count, group) for number, part in zip(numbers, parts, strict=True)]
        schedule = _schedule(job.options, held)
        return cls(_together(parts), schedule, 0 in numbers, count - 1 in numbers, job.injection)

    def run(self, batches: list[Batch]) -> Tensor | None:
        """Forward and backward of all micro-batches; their mean loss on the rank that has the last stage."""
        inputs = [torch.cat([batch.inputs for batch in batches])] if self.first else []
        targets = torch.cat([batch.targets for batch in batches]) if self.last else None
        losses: list[Tensor] = []
        if self.injection.size("stage_imbalance"):
            self.injection.happened("stage_imbalance", 0)
        self.schedule.step(*inputs, target=targets, losses=losses, return_outputs=False)
        return torch.stack(losses).mean().detach() if self.last else None


def described(options: argparse.Namespace, ranks: int) -> dict[str, Any]:
    """Schedule, micro-batches and stages per rank, for run.json; WrongUse where the sizes do not fit each other."""
    kind, count = SCHEDULES[options.schedule], _virtual(options) * ranks
    microbatches = options.accumulation
    if _virtual(options) != kind.virtual and not kind.looped:
        raise WrongUse(f"--virtual-stages {_virtual(options)}, but {options.schedule} has {kind.virtual} on each rank")
    if options.layers % count:
        raise WrongUse(f"--layers {options.layers} does not divide by {count} stages")
    if kind.filled and microbatches < count:
        raise WrongUse(f"--microbatches {microbatches}, but {options.schedule} needs {count}, one for each stage")
    if kind.looped and microbatches % (rounds := max(1, microbatches // ranks)):
        raise WrongUse(f"--microbatches {microbatches} does not divide by {rounds}, its rounds over {ranks} ranks")
    return {"schedule": options.schedule, "microbatches": microbatches, "virtual_stages": _virtual(options)}


def table(job: Job, ranks: int) -> list[dict[str, Any]]:
    """Each stage with its layers and its index on the pipeline axis, for run.json."""
    places = {number: index for index in range(ranks) for number in _placed(job.options, index, ranks)}
    return [{"stage": number, "pp": places[number], "layers": list(cut)} for number, cut in enumerate(_cut(job, ranks))]


def _virtual(options: argparse.Namespace) -> int:
    return options.virtual_stages or SCHEDULES[options.schedule].virtual


def _placed(options: argparse.Namespace, index: int, ranks: int) -> list[int]:
    """The stages on one rank of the pipeline."""
    if SCHEDULES[options.schedule].v_shaped:
        return [index, 2 * ranks - 1 - index]
    return [index + lap * ranks for lap in range(_virtual(options))]


def _cut(job: Job, ranks: int) -> list[range]:
    """The numbers of each stage's layers: equally many, but for the fault `stage_imbalance`."""
    count = _virtual(job.options) * ranks
    sizes = [job.shape.layers // count] * count
    fault = job.fault("stage_imbalance")
    if fault is not None and fault.rank is not None:
        if fault.step or fault.size % 1:
            raise WrongUse("fault stage_imbalance is of whole layers, which are there from the first step on")
        heavy = _placed(job.options, job.layout.place(fault.rank)["pp"], ranks)[0]
        sizes[heavy] += int(fault.size)
    return [range(sum(sizes[:number]), sum(sizes[: number + 1])) for number in range(count)]


def _together(parts: list[Transformer]) -> nn.Module:
    """The parts as one module, in which everything has the name that it has in the whole model."""
    whole = nn.Module()
    whole.blocks = nn.ModuleDict({number: block for part in parts for number, block in part.blocks.items()})
    for name in ("embedding", "norm", "head"):
        held = [module for part in parts if (module := getattr(part, name)) is not None]
        setattr(whole, name, held[0] if held else None)
    return whole


def _schedule(options: argparse.Namespace, held: list[stages.Stage]) -> Any:
    kind = SCHEDULES[options.schedule]
    given = held if kind.looped or kind.v_shaped else held[0]
    return kind.schedule(given, n_microbatches=options.accumulation, loss_fn=next_token_loss)


if __name__ == "__main__":
    sys.exit(main(["pipeline", *sys.argv[1:]]))
