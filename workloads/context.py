"""Context parallelism: every rank holds the whole model and a part of each sequence; keys and values travel in a ring.

The split. Everything in a transformer works on one token at a time, except attention, in which a token looks at all
tokens before it. So each of n ranks takes s/n tokens of every sequence and keeps their queries; the keys and values go
round. In each of n turns a rank attends to the keys that it holds, while it sends them to the next rank and receives
others from the previous one. What it has so far is merged with each new part (online softmax: only sums relative to the
largest score so far, rescaled when a larger one comes), so that no rank ever sees a whole row of scores at once.
Backward goes round once more, with the gradients of keys and values travelling along until they are home.

What it costs. Activations shrink by n: that is what it is for, sequences that no device can hold. Parameters, gradients
and optimizer states do not shrink. Per layer and micro-batch of b sequences with w features of 4 bytes, a rank sends
2·b·(s/n)·w·4 bytes of keys and values n−1 times in forward, again n−1 times in backward, and as many of their gradients
n times. Compute per turn grows with (s/n)², bytes with s/n: long sequences hide the ring, short ones do not. Gradients
of the parameters are averaged over the ranks, as in `ddp`.

Causal masking makes work uneven. With `--split contiguous` rank 0 holds the first tokens, which look at hardly any
others, and the last rank's tokens look at all: it computes about twice the mean, and the others wait for it. With
`--split zigzag` the sequence is cut into 2n chunks and rank r holds chunk r and chunk 2n−1−r, which evens it out.

In the trace: per layer n spans `ring turn=1 keys_of=0`, each with `comm:send` and `comm:recv` first, then the products,
then `wait:recv ...`, which is short if the turn took longer than the transfer and the neighbour was not late. In
backward the gradients' turn to be sent comes after the products. What a fused kernel does in one operation is written
here in plain ones, so that it runs on every device; scores of (s/n)² per head exist for a moment.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

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
from .transformer import Attention, Embedding, Shape, Transformer, initialise, next_token_loss

FAULTS = ("no_overlap",)
REFUSED = {
    "length_imbalance": "each sample is split evenly over the ranks, so that a short one is short for all of them"
}
CHUNKS_PER_RANK = {"zigzag": 2, "contiguous": 1}
BUCKET_MB = 0.5


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options that only this workload has."""
    parser.add_argument(
        "--split", choices=list(CHUNKS_PER_RANK), default="zigzag", help="which tokens a rank holds: even work, or not"
    )


def layout(options: argparse.Namespace, ranks: int) -> Layout:
    """All ranks on the context axis, along which they read the same samples; WrongUse if tokens do not divide."""
    chunks = ranks * CHUNKS_PER_RANK[options.split]
    if options.sequence % chunks:
        raise WrongUse(
            f"--sequence {options.sequence} does not divide by {chunks}, the chunks of --split {options.split}"
        )
    details = {"sequence_split": options.split, "tokens_per_rank": options.sequence // ranks}
    return Layout({"cp": ranks}, data_axes=(), details=details)


def build(job: Job) -> Training:
    """The model with ring attention, wrapped to average gradients, and a step on this rank's tokens."""
    if job.world_size > 1:
        job.device.require_transfers()
    overlap = job.fault("no_overlap") is None
    ring = Ring(dist.new_group(group_desc="cp"), CHUNKS_PER_RANK[job.options.split], overlap)
    places = ring.places(job.shape.sequence).to(job.device.place)
    model = _in_context(job, ring, places)
    wrapped = DistributedDataParallel(model, bucket_cap_mb=BUCKET_MB if overlap else _megabytes(model) + 1)
    optimizer = AdamW(model.parameters(), lr=job.options.learning_rate)

    def step(batches: list[Batch]) -> Tensor:
        optimizer.zero_grad()
        losses = []
        for number, batch in enumerate(batches):
            mine = Batch(batch.inputs[:, places], batch.targets[:, places])
            # Parts are of one length, so the mean of the ranks' means is the mean over the sequence.
            with annotations.forward(number):
                loss = next_token_loss(wrapped(mine.inputs), mine.targets) / len(batches)
            with annotations.backward(number):
                loss.backward()
            losses.append(loss.detach())
        optimizer.step()
        return torch.stack(losses).sum()

    return Training(model, optimizer, step)


def _in_context(job: Job, ring: Ring, places: Tensor) -> Transformer:
    """The model in which tokens know their places, and attention goes round the ring; same parameters as ever."""
    model = job.transformer()
    model.embedding = PlacedEmbedding(job.shape, places)
    for block in model.blocks.values():
        block.attention = ContextAttention(job.shape, ring)
    initialise(model, job.options.seed)
    return model.to(job.device.place)


def _megabytes(model: nn.Module) -> float:
    return sum(parameter.numel() * parameter.element_size() for parameter in model.parameters()) / 2**20


class PlacedEmbedding(Embedding):
    """An embedding of tokens that stand at these places of the sequence."""

    def __init__(self, shape: Shape, places: Tensor) -> None:
        super().__init__(shape)
        self.places = places  # no buffer: `DistributedDataParallel` makes buffers the same on all ranks

    def forward(self, tokens: Tensor) -> Tensor:
        """Features, batch × tokens of this rank × width."""
        return self.token(tokens) + self.place(self.places)


class ContextAttention(Attention):
    """Causal self-attention over the whole sequence, of which each rank of the ring holds a part."""

    def __init__(self, shape: Shape, ring: Ring) -> None:
        super().__init__(shape)
        self.ring = ring

    def forward(self, hidden: Tensor) -> Tensor:
        """Features of the same shape, batch × tokens of this rank × width."""
        query, key, value = (self._heads(project(hidden)) for project in (self.query, self.key, self.value))
        mixed = RingAttention.apply(query, key, value, self.ring)
        return self.out(mixed.transpose(1, 2).flatten(2))


# --- The ring: who holds which tokens, and how an array moves on ------------------------------------------------------


class Pair(NamedTuple):
    """A chunk of this rank's queries and a chunk of the keys at hand, by their numbers on the two ranks.

    `diagonal`: they are the same tokens, so each query sees the keys up to its own; else it sees all of them.
    """

    queries: int
    keys: int
    diagonal: bool


@dataclass
class Moving:
    """An array on its way to the next rank while another comes in; both are kept until it is done."""

    sent: Tensor
    received: Tensor
    works: list[dist.Work]

    def wait(self) -> Tensor:
        """What has come from the previous rank."""
        while self.works:  # each once: gloo would wait for another transfer
            self.works.pop().wait()
        return self.received


@dataclass(frozen=True)
class Ring:
    """The ranks of a group in a circle. Without `overlap`, transfers are over before compute goes on."""

    group: dist.ProcessGroup
    chunks: int
    overlap: bool = True

    @property
    def size(self) -> int:
        """How many ranks, and turns."""
        return self.group.size()

    def owner(self, turn: int) -> int:
        """Whose keys this rank holds in this turn: its own in turn 0, the previous rank's in turn 1."""
        return (self.group.rank() - turn) % self.size

    def held_by(self, rank: int) -> tuple[int, ...]:
        """The numbers of the chunks that a rank holds; of two, one is as near to the start as the other to the end."""
        return (rank,) if self.chunks == 1 else (rank, 2 * self.size - 1 - rank)

    def places(self, sequence: int) -> Tensor:
        """Where in the sequence this rank's tokens stand."""
        chunks = torch.arange(sequence).chunk(self.size * self.chunks)
        return torch.cat([chunks[number] for number in self.held_by(self.group.rank())])

    def pairs(self, turn: int) -> Iterator[Pair]:
        """What is to be computed in this turn; keys that come after all of the queries are left out."""
        for queries, mine in enumerate(self.held_by(self.group.rank())):
            for keys, theirs in enumerate(self.held_by(self.owner(turn))):
                if theirs <= mine:
                    yield Pair(queries, keys, diagonal=theirs == mine)

    def move(self, array: Tensor) -> Moving:
        """Begin to send an array to the next rank and to receive one of the same shape from the previous.

        Both at once, or a ring in which all send first would stand still. All ranks call this in the same order.
        """
        if self.size == 1:
            return Moving(array, array, [])
        sent, received = array.contiguous(), torch.empty_like(array, memory_format=torch.contiguous_format)
        sending = dist.P2POp(dist.isend, sent, group=self.group, group_peer=self.owner(-1))
        receiving = dist.P2POp(dist.irecv, received, group=self.group, group_peer=self.owner(1))
        moving = Moving(sent, received, dist.batch_isend_irecv([sending, receiving]))
        if not self.overlap:
            moving.wait()
        return moving

    def turn(self, number: int) -> record_function:
        """A span around a turn."""
        return record_function(f"ring turn={number} keys_of={self.owner(number)}")


# --- Attention that sees one part of the keys after the other ---------------------------------------------------------


class RingAttention(torch.autograd.Function):
    """Causal attention of this rank's queries with the keys and values of all ranks of a ring."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, ring: Ring) -> Tensor:
        """Attention, batch × heads × tokens × head width, as its arguments."""
        softmaxes = [OnlineSoftmax(queries) for queries in query.chunk(ring.chunks, dim=-2)]
        held = torch.stack((key, value))
        for number in range(ring.size):
            with ring.turn(number):
                more = number < ring.size - 1
                moving = ring.move(held) if more else None
                for pair, (keys, values) in _with_keys(ring, number, held):
                    softmaxes[pair.queries].add(keys, values, pair.diagonal)
                held = moving.wait() if moving else held
        output = torch.cat([softmax.output() for softmax in softmaxes], dim=-2)
        log_sums = torch.cat([softmax.log_sum() for softmax in softmaxes], dim=-2)
        ctx.save_for_backward(query, key, value, output, log_sums)
        ctx.ring = ring
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        """Gradients of queries, keys and values.

        Each rank adds to the gradient of the keys that it holds, and sends it after them; after n moves it is home.
        """
        ring: Ring = ctx.ring
        query, key, value, output, log_sums = ctx.saved_tensors
        queries = _Queries.chunks(ring.chunks, query, output, log_sums, gradients[0])
        held = torch.stack((key, value))
        coming: Moving | None = None
        for number in range(ring.size):
            with ring.turn(number):
                moving = ring.move(held) if number < ring.size - 1 else None
                added = torch.zeros_like(held)
                parts = added.chunk(ring.chunks, dim=-2)
                for pair, (keys, values) in _with_keys(ring, number, held):
                    parts[pair.keys].add_(queries[pair.queries].backward(keys, values, pair.diagonal))
                coming = ring.move(added + coming.wait() if coming else added)
                held = moving.wait() if moving else held
        assert coming is not None
        key_gradient, value_gradient = coming.wait()
        return torch.cat([part.gradient for part in queries], dim=-2), key_gradient, value_gradient, None


def _with_keys(ring: Ring, turn: int, held: Tensor) -> Iterator[tuple[Pair, Tensor]]:
    parts = held.chunk(ring.chunks, dim=-2)
    for pair in ring.pairs(turn):
        yield pair, parts[pair.keys]


def _scores(queries: Tensor, keys: Tensor, diagonal: bool) -> Tensor:
    """How much each query looks at each key, before softmax; minus infinity where it may not."""
    scores = queries @ keys.transpose(-2, -1) / queries.shape[-1] ** 0.5
    if not diagonal:
        return scores
    future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
    return scores.masked_fill(future, float("-inf"))


class OnlineSoftmax:
    """Attention of some queries to keys that come in parts.

    With m the largest score so far, it keeps m, the sum of exp(score − m) and the same sum weighted by values. A larger
    m scales the old sums by exp(old m − new m). No exponent is ever above 0: nothing overflows, however large scores
    are. A query's first keys must contain one that it may see.
    """

    def __init__(self, queries: Tensor) -> None:
        self.queries = queries
        column = queries[..., :1]
        self.largest = torch.full_like(column, float("-inf"))
        self.sum = torch.zeros_like(column)
        self.weighted = torch.zeros_like(queries)

    def add(self, keys: Tensor, values: Tensor, diagonal: bool) -> None:
        """Take in more keys and their values."""
        scores = _scores(self.queries, keys, diagonal)
        largest = torch.maximum(self.largest, scores.amax(-1, keepdim=True))
        weights = torch.exp(scores - largest)
        fade = torch.exp(self.largest - largest)
        self.sum = self.sum * fade + weights.sum(-1, keepdim=True)
        self.weighted = self.weighted * fade + weights @ values
        self.largest = largest

    def output(self) -> Tensor:
        """Attention to all keys so far."""
        return self.weighted / self.sum

    def log_sum(self) -> Tensor:
        """Logarithm of the sum of exp(score): with it, backward has the weights without a second online softmax."""
        return self.largest + torch.log(self.sum)


@dataclass
class _Queries:
    """Some queries in backward. `inner` is each output's product with its gradient, which softmax's gradient needs."""

    queries: Tensor
    log_sum: Tensor
    output_gradient: Tensor
    inner: Tensor
    gradient: Tensor

    @classmethod
    def chunks(cls, number: int, query: Tensor, output: Tensor, log_sums: Tensor, gradient: Tensor) -> list[_Queries]:
        inner = (output * gradient).sum(-1, keepdim=True)
        arrays = (query, log_sums, gradient, inner, torch.zeros_like(query))
        return [cls(*parts) for parts in zip(*(array.chunk(number, dim=-2) for array in arrays), strict=True)]

    def backward(self, keys: Tensor, values: Tensor, diagonal: bool) -> Tensor:
        """Add to the queries' gradient; what these queries add to the keys' and the values', stacked."""
        weights = torch.exp(_scores(self.queries, keys, diagonal) - self.log_sum)
        of_weights = self.output_gradient @ values.transpose(-2, -1)
        of_scores = weights * (of_weights - self.inner) / self.queries.shape[-1] ** 0.5
        self.gradient.add_(of_scores @ keys)
        of_values = weights.transpose(-2, -1) @ self.output_gradient
        return torch.stack((of_scores.transpose(-2, -1) @ self.queries, of_values))


if __name__ == "__main__":
    sys.exit(main(["context", *sys.argv[1:]]))
