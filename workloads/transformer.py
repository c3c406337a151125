"""A small decoder-only transformer, plain enough to be split every way.

Queries, keys and values are separate matrices, so that tensor parallelism can split them by heads; blocks are kept by
number, so that a pipeline stage with some of them has the parameter names of the whole model.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from . import annotations
from .errors import WrongUse

MLP_RATIO = 4


@dataclass(frozen=True)
class Shape:
    """Sizes of the model and of one sample; WrongUse where they do not divide."""

    layers: int
    width: int
    heads: int
    vocabulary: int
    sequence: int

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise WrongUse(f"--width {self.width} does not divide by --heads {self.heads}")


class Attention(nn.Module):
    """Causal self-attention over however many heads its projections hold on this rank."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.head_width = shape.width // shape.heads
        # No biases: the key's has no gradient but rounding noise, which Adam would blow up to whole steps.
        self.query = nn.Linear(shape.width, shape.width, bias=False)
        self.key = nn.Linear(shape.width, shape.width, bias=False)
        self.value = nn.Linear(shape.width, shape.width, bias=False)
        self.out = nn.Linear(shape.width, shape.width, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Features of the same shape, batch × sequence × width."""
        query, key, value = (self._heads(project(hidden)) for project in (self.query, self.key, self.value))
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def _heads(self, features: Tensor) -> Tensor:
        return features.unflatten(-1, (-1, self.head_width)).transpose(1, 2)


class MLP(nn.Module):
    """Two matrices with a GELU between."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.up = nn.Linear(shape.width, MLP_RATIO * shape.width)
        self.down = nn.Linear(MLP_RATIO * shape.width, shape.width)

    def forward(self, hidden: Tensor) -> Tensor:
        """Features of the same shape."""
        return self.down(functional.gelu(self.up(hidden)))


class Block(nn.Module):
    """One layer: attention, then an MLP, each on normalised input and added to it."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(shape.width)
        self.attention: nn.Module = Attention(shape)
        self.mlp_norm = nn.LayerNorm(shape.width)
        self.mlp: nn.Module = MLP(shape)

    def forward(self, hidden: Tensor) -> Tensor:
        """Features of the same shape."""
        hidden = hidden + self.attention(self.attention_norm(hidden))
        return hidden + self.mlp(self.mlp_norm(hidden))


class Embedding(nn.Module):
    """Tokens and their places to features."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.token = nn.Embedding(shape.vocabulary, shape.width)
        self.place = nn.Embedding(shape.sequence, shape.width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Features, batch × sequence × width."""
        return self.token(tokens) + self.place.weight[: tokens.shape[1]]


class Transformer(nn.Module):
    """The model, or the part of it that one pipeline stage holds.

    `layers` are the numbers of the blocks in it (default: all); `first` and `last` say whether the embedding and the
    output head are. Parameters come from `seed` and their own names alone, so that any parts make up the same whole.
    `recompute` is activation checkpointing: blocks keep their input alone, and run forward again in backward.
    """

    def __init__(
        self,
        shape: Shape,
        seed: int,
        layers: Iterable[int] | None = None,
        first: bool = True,
        last: bool = True,
        recompute: bool = False,
    ) -> None:
        super().__init__()
        self.recompute = recompute
        numbers = range(shape.layers) if layers is None else layers
        self.embedding = Embedding(shape) if first else None
        self.blocks = nn.ModuleDict({str(number): Block(shape) for number in numbers})
        self.norm = nn.LayerNorm(shape.width) if last else None
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False) if last else None
        initialise(self, seed)

    def forward(self, hidden: Tensor) -> Tensor:
        """Logits of tokens; a stage takes and gives features where it is not first or last."""
        if self.embedding is not None:
            hidden = self.embedding(hidden)
        for number, block in self.blocks.items():
            hidden = self._layer(number, block, hidden)
        if self.norm is not None and self.head is not None:
            hidden = self.head(self.norm(hidden))
        return hidden

    def _layer(self, number: str, block: nn.Module, hidden: Tensor) -> Tensor:
        if not self.recompute:
            return block(hidden)
        spans = partial(annotations.activation_checkpoint, number)
        return checkpoint(block, hidden, use_reentrant=False, context_fn=spans)


@torch.no_grad()
def initialise(model: nn.Module, seed: int) -> None:
    """Fill every parameter from the seed and its own name: matrices normal (0.02), norms one, biases zero."""
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            generator = torch.Generator().manual_seed(seed + zlib.crc32(name.encode()))
            parameter.copy_(torch.empty(parameter.shape).normal_(0, 0.02, generator=generator))
        else:
            parameter.fill_(1.0 if name.endswith("norm.weight") else 0.0)


def next_token_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy, mean over all tokens of the batch."""
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
