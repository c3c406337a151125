"""What is trained on: made-up sentences that a small model can learn, the same whatever the split.

Sample i is the same tokens on every rank and at every world size; which samples a rank reads depends on its
data-parallel index alone. So N ranks together read in each step exactly what one process with the whole batch reads.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

NOISE_FRAC = 0.1


class Batch(NamedTuple):
    """One micro-batch: tokens, and the tokens that follow them; both batch × sequence."""

    inputs: Tensor
    targets: Tensor

    def to(self, device: torch.device) -> Batch:
        """The same on a device."""
        return Batch(self.inputs.to(device), self.targets.to(device))


class Sentences(Dataset[Tensor]):
    """Sentences in which each token follows from the last, save for some noise."""

    def __init__(self, vocabulary: int, length: int, seed: int) -> None:
        self.vocabulary, self.length, self.seed = vocabulary, length, seed

    def __getitem__(self, index: int) -> Tensor:
        """Sentence number `index`, one token longer than the model reads."""
        draw = random.Random(self.seed * 1_000_003 + index)
        tokens = [draw.randrange(self.vocabulary)]
        for _ in range(self.length):
            noisy = draw.random() < NOISE_FRAC
            tokens.append(draw.randrange(self.vocabulary) if noisy else (5 * tokens[-1] + 3) % self.vocabulary)
        return torch.tensor(tokens)


def collate(sentences: list[Tensor]) -> Batch:
    """A micro-batch of sentences of one length."""
    tokens = torch.stack(sentences)
    return Batch(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())


def batches(
    dataset: Dataset[Tensor], batch: int, shards: int, shard: int, collate: Callable[[list[Tensor]], Batch]
) -> Iterator[Batch]:
    """The micro-batches of data-parallel rank `shard` of `shards`, without end, through a `DataLoader`.

    The loader's reads are named in the trace.
    """
    order = _indices(batch, shards, shard)
    return iter(DataLoader(dataset, batch_size=batch, sampler=order, collate_fn=collate))  # type: ignore[arg-type]


def _indices(batch: int, shards: int, shard: int) -> Iterator[int]:
    micro_batch = 0
    while True:
        first = (micro_batch * shards + shard) * batch
        yield from range(first, first + batch)
        micro_batch += 1
