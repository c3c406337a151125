"""What is trained on: made-up sentences that a small model can learn, the same whatever the split.

Sample i is the same tokens on every rank and at every world size; which samples a rank reads depends on its
data-parallel index alone. So N ranks together read in each step exactly what one process with the whole batch reads.
"""

from __future__ import annotations

from collections.abc import Iterator
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
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + index)
        random = torch.randint(self.vocabulary, (self.length + 1,), generator=generator)
        noisy = torch.rand(self.length + 1, generator=generator) < NOISE_FRAC
        tokens = random.tolist()
        for place in range(1, self.length + 1):
            if not noisy[place]:
                tokens[place] = (5 * tokens[place - 1] + 3) % self.vocabulary
        return torch.tensor(tokens)


def indices(batch: int, shards: int, shard: int) -> Iterator[int]:
    """The samples that data-parallel rank `shard` of `shards` reads, without end, `batch` per micro-batch."""
    micro_batch = 0
    while True:
        first = (micro_batch * shards + shard) * batch
        yield from range(first, first + batch)
        micro_batch += 1


def loader(dataset: Dataset[Tensor], order: Iterator[int], batch: int) -> DataLoader[Batch]:
    """A `DataLoader` over the dataset in this order; its reads are named in the trace."""
    return DataLoader(dataset, batch_size=batch, sampler=order, collate_fn=_collate)  # type: ignore[arg-type]


def _collate(sentences: list[Tensor]) -> Batch:
    tokens = torch.stack(sentences)
    return Batch(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
