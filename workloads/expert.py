"""Expert parallelism: the MLP of each layer is many MLPs on different ranks, and tokens travel to those they choose.

The split. A mixture of experts has E MLPs in the place of one and a router, one small matrix, which sends each token to
k of them (`--top-k`) and adds up their outputs, each times the router's probability. The model has E times the
parameters in its MLPs for k times the compute. Rank r of n holds E/n experts of every layer, and everything else whole.
The ranks read different samples, as in `ddp`; for the MLP, tokens leave their rank:

    route      each token chooses k experts; its features, once per choice, are one row each, sorted by expert
    count      all-gather of how many rows each rank has for each expert: only now is known how much will arrive
    dispatch   all-to-all: rows go to the ranks of their experts
    compute    each expert on the rows that came for it, from all ranks
    combine    all-to-all with the splits exchanged: the results go back, and are added up

Nothing is padded, and there is no capacity beyond which tokens are dropped: what one process with all experts computes,
the ranks compute together. The price is that the splits are data: on an accelerator the host has to wait for the counts
before it can go on launching, once per layer.

What it costs. Expert parameters, gradients and optimizer states shrink by n, the rest does not. Per layer and
micro-batch of t tokens with w features of 4 bytes, a rank has t·k·w·4 bytes for each all-to-all, of which (n−1)/n leave
it if choices are even; two in forward and two in backward (six in all with activation checkpointing, which runs forward
twice). None of them can hide: the experts wait for the dispatch, the next layer for the combine. Gradients of an expert
are complete on its rank, since all tokens that chose it were there; the others are averaged over the ranks, as in
`ddp`.

In the trace: `expert dispatch` and `expert combine` with a `comm:all_to_all` each, `expert number=2 rows=117` around
each expert's compute (on an accelerator: around its launch). Rows tell whether choices are even. They are not: nothing
here pushes the router to even choices, as a loss or a bias does in real trainings. So the rank with a popular expert
computes longer, and the others wait for it in the combine, a straggler that is nobody's fault and moves from step to
step. `rows_per_expert` in run.json has the counts of each step. A rank that is late for any other reason makes the
others wait in the all-gather of the counts, the first call of each layer.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import AdamW
from torch.profiler import record_function

from . import annotations
from .errors import WrongUse
from .harness import Job, Training
from .launch import main
from .layout import Layout
from .samples import Batch
from .transformer import MLP, Shape, Transformer, initialise, next_token_loss

FAULTS = ("no_overlap",)
BUCKET_MB = 0.5


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options that only this workload has."""
    parser.add_argument("--experts", type=int, default=4, help="experts of each layer, over all ranks")
    parser.add_argument("--top-k", type=int, default=2, help="experts that each token chooses")


def layout(options: argparse.Namespace, ranks: int) -> Layout:
    """All ranks on the expert axis, along which they read different samples; WrongUse if experts do not divide."""
    experts, top_k = options.experts, options.top_k
    if experts < 1 or experts % ranks:
        raise WrongUse(f"--experts {experts} does not divide by {ranks} ranks")
    if not 1 <= top_k <= experts:
        raise WrongUse(f"--top-k {top_k}, but a token can choose 1 to {experts} of --experts {experts}")
    held = [list(range(first, first + experts // ranks)) for first in range(0, experts, experts // ranks)]
    return Layout({"ep": ranks}, data_axes=("ep",), details={"experts": experts, "top_k": top_k, "experts_held": held})


def build(job: Job) -> Training:
    """The model with experts, wrapped to average the gradients of all else, and a step."""
    choice = Choice(dist.new_group(group_desc="ep"), job.options.experts, job.options.top_k)
    model = _with_experts(job, choice)
    wrapped = _averaged(model, overlap=job.fault("no_overlap") is None)
    optimizer = AdamW(model.parameters(), lr=job.options.learning_rate)
    rows_per_expert: list[list[int]] = []

    def step(batches: list[Batch]) -> Tensor:
        optimizer.zero_grad()
        losses, rows = [], torch.zeros(choice.experts, dtype=torch.int64)
        for number, batch in enumerate(batches):
            last = number == len(batches) - 1
            with contextlib.nullcontext() if last else wrapped.no_sync():
                with annotations.forward(number):
                    loss = next_token_loss(wrapped(batch.inputs), batch.targets) / len(batches)
                rows += sum(layer.rows.sum(0) for layer in _layers(model))
                with annotations.backward(number):
                    loss.backward()
            losses.append(loss.detach())
        _mean_over_ranks(model, choice.ranks)
        optimizer.step()
        rows_per_expert.append(rows.tolist())
        return torch.stack(losses).sum()

    return Training(model, optimizer, step, {"rows_per_expert": rows_per_expert})


def _with_experts(job: Job, choice: Choice) -> Transformer:
    """The model in which each MLP is a mixture; an expert's parameters depend on its number, not on its rank."""
    model = job.transformer()
    for block in model.blocks.values():
        block.mlp = MixtureOfExperts(job.shape, choice)
    initialise(model, job.options.seed)
    return model.to(job.device.place)


def _layers(model: nn.Module) -> Iterator[MixtureOfExperts]:
    return (module for module in model.modules() if isinstance(module, MixtureOfExperts))


def _averaged(model: nn.Module, overlap: bool) -> DistributedDataParallel:
    """The model wrapped; its experts are no replicas, and are left alone."""
    experts = [name for name, _ in model.named_parameters() if ".experts." in name]
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, experts)
    all_megabytes = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters()) / 2**20
    return DistributedDataParallel(model, bucket_cap_mb=BUCKET_MB if overlap else 1 + all_megabytes)


def _mean_over_ranks(model: nn.Module, ranks: int) -> None:
    """An expert's gradient is the sum over the ranks' losses; the loss that is trained is their mean."""
    for layer in _layers(model):
        for parameter in layer.experts.parameters():
            assert parameter.grad is not None
            parameter.grad /= ranks


# --- The mixture ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """Between how many experts tokens choose, how many each chooses, and the ranks that share the experts."""

    group: dist.ProcessGroup
    experts: int
    top_k: int

    @property
    def ranks(self) -> int:
        """How many ranks share the experts."""
        return self.group.size()

    @property
    def held(self) -> range:
        """The numbers of this rank's experts."""
        each = self.experts // self.ranks
        return range(self.group.rank() * each, (self.group.rank() + 1) * each)


class MixtureOfExperts(nn.Module):
    """Experts of which this rank holds some; every token is computed by the k that it chooses, wherever they are.

    `rows` is how many rows each rank sent to each expert in the last forward, ranks × experts.
    """

    def __init__(self, shape: Shape, choice: Choice) -> None:
        super().__init__()
        self.choice = choice
        self.router = nn.Linear(shape.width, choice.experts, bias=False)
        self.experts = nn.ModuleDict({str(number): MLP(shape) for number in choice.held})
        self.rows = torch.zeros(choice.ranks, choice.experts, dtype=torch.int64)

    def forward(self, hidden: Tensor) -> Tensor:
        """Features of the same shape, batch × sequence × width."""
        tokens = hidden.flatten(0, 1)
        probability, chosen = self.router(tokens).softmax(-1).topk(self.choice.top_k)
        order = chosen.flatten().argsort(stable=True)  # by expert, so by rank
        rows = tokens[order // self.choice.top_k]
        self.rows = self._count(chosen)
        sent, received = self._splits()
        with record_function("expert dispatch"):
            arrived = Exchange.apply(rows, sent, received, self.choice.group)
        computed = self._compute(arrived)
        with record_function("expert combine"):
            returned = Exchange.apply(computed, received, sent, self.choice.group)
        by_token = returned[order.argsort()].unflatten(0, (-1, self.choice.top_k))
        return (by_token * probability.unsqueeze(-1)).sum(1).view_as(hidden)

    @torch.no_grad()
    def _count(self, chosen: Tensor) -> Tensor:
        """How many rows each rank has for each expert, known to all; on the host, which needs it to go on."""
        mine = torch.bincount(chosen.flatten(), minlength=self.choice.experts)
        everyone = mine.new_empty(self.choice.ranks, self.choice.experts)
        dist.all_gather(list(everyone), mine, group=self.choice.group)
        return everyone.cpu()

    def _splits(self) -> tuple[list[int], list[int]]:
        """How many rows this rank sends to each rank, and receives from each."""
        by_rank = self.rows.unflatten(1, (self.choice.ranks, -1)).sum(-1)
        rank = self.choice.group.rank()
        return by_rank[rank].tolist(), by_rank[:, rank].tolist()

    def _compute(self, arrived: Tensor) -> Tensor:
        """This rank's experts on the rows that came, which are sorted by sender and, of each, by expert."""
        from_each = self.rows[:, self.choice.held.start : self.choice.held.stop]
        expert_of_row = torch.arange(len(self.experts)).repeat(self.choice.ranks).repeat_interleave(from_each.flatten())
        order = expert_of_row.argsort(stable=True).to(arrived.device)
        parts = arrived[order].split(from_each.sum(0).tolist())
        computed = [self._expert(number, rows) for number, rows in zip(self.choice.held, parts, strict=True)]
        return torch.cat(computed)[order.argsort()]

    def _expert(self, number: int, rows: Tensor) -> Tensor:
        """One expert, also on no rows at all: then its gradients are zeros, and not missing."""
        with record_function(f"expert number={number} rows={len(rows)}"):
            return self.experts[str(number)](rows)


class Exchange(torch.autograd.Function):
    """All-to-all of rows: the first `sent[0]` go to rank 0, the next `sent[1]` to rank 1; `received[r]` come from r.

    The gradient of a row goes the way back that the row has come.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, sent: list[int], received: list[int], group: dist.ProcessGroup) -> Tensor:
        """The rows that came, in the order of the ranks that sent them."""
        ctx.back = (received, sent, group)
        return _exchange(rows, sent, received, group)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        """Gradients of the rows that were sent."""
        return _exchange(gradients[0], *ctx.back), None, None, None


def _exchange(rows: Tensor, sent: list[int], received: list[int], group: dist.ProcessGroup) -> Tensor:
    arrived = rows.new_empty(sum(received), *rows.shape[1:])
    dist.all_to_all_single(arrived, rows.contiguous(), received, sent, group=group)
    return arrived


if __name__ == "__main__":
    sys.exit(main(["expert", *sys.argv[1:]]))
