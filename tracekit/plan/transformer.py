"""What a transformer is made of, by arithmetic: parameters and floating-point operations.

A matrix product of an m × k by a k × n matrix is 2·m·k·n FLOPs. Attention is counted in full, also where a causal mask
lets a kernel skip half of it, as is the custom in MFU (Chowdhery et al. 2022, PaLM, appendix B; Narayanan et al. 2021,
appendix). A backward takes twice the forward. Pointwise operations are not counted.

Sources of the presets: Brown et al. 2020 (GPT-3, table 2.1); Touvron et al. 2023 (LLaMA, Llama 2); Dubey et al. 2024
(Llama 3); Jiang et al. 2023, 2024 (Mistral, Mixtral); Narayanan et al. 2021 (table 1; vocabulary 51,200,
sequence 2048).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tracekit.errors import WrongUse


@dataclass(frozen=True)
class Transformer:
    """A decoder's shape; WrongUse where numbers do not fit each other.

    `kv_heads` are the heads of keys and values (default: `heads`), `feed_forward` the width inside a block's two
    products (default: 4·hidden), or three where `gated` (SwiGLU). With `experts` above 1 each block has so many
    feed-forwards, of which `experts_per_token` work on a token, and a router. `tied`: the output layer shares the
    embedding's weights. `biases` stand beside linear layers and in norms (in attention unless `attention_biases` is
    off); `positions` are learned, one per place.
    `head_size` is a head's width (default: hidden / heads). With `dropout`, masks are kept beside activations.
    """

    layers: int
    hidden: int
    heads: int
    sequence: int
    vocabulary: int
    kv_heads: int | None = None
    feed_forward: int | None = None
    gated: bool = False
    experts: int = 1
    experts_per_token: int = 1
    tied: bool = True
    biases: bool = True
    positions: bool = True
    head_size: int | None = None
    dropout: bool = True
    attention_biases: bool = True

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "heads", "sequence", "vocabulary", "experts", "experts_per_token"):
            if getattr(self, name) < 1:
                raise WrongUse(f"a transformer needs {name} of at least 1, not {getattr(self, name)}")
        if self.head_size is None and self.hidden % self.heads:
            raise WrongUse(f"hidden {self.hidden} does not divide by {self.heads} heads")
        if self.heads % self.key_heads:
            raise WrongUse(f"{self.heads} heads do not divide by {self.key_heads} heads of keys and values")
        if self.experts_per_token > self.experts:
            raise WrongUse(f"{self.experts_per_token} experts per token are more than all {self.experts}")

    @property
    def key_heads(self) -> int:
        """Heads of keys and values."""
        return self.kv_heads or self.heads

    @property
    def width(self) -> int:
        """The width inside a feed-forward."""
        return self.feed_forward or 4 * self.hidden

    @property
    def query_width(self) -> int:
        """All heads side by side."""
        return self.heads * (self.head_size or self.hidden // self.heads)

    @property
    def key_width(self) -> int:
        """All heads of keys side by side; those of values are as wide."""
        return self.key_heads * (self.query_width // self.heads)

    # Parameters -------------------------------------------------------------------------------------------------------

    @property
    def attention_parameters(self) -> int:
        """Of one layer: queries, keys, values, output."""
        weights = self.hidden * (2 * self.query_width + 2 * self.key_width)
        return weights + (self.biases and self.attention_biases) * (self.query_width + 2 * self.key_width + self.hidden)

    @property
    def expert_parameters(self) -> int:
        """Of one feed-forward of one layer."""
        inward = 2 if self.gated else 1
        return (inward + 1) * self.hidden * self.width + self.biases * (inward * self.width + self.hidden)

    @property
    def router_parameters(self) -> int:
        """Of one layer; 0 without experts."""
        return self.hidden * self.experts if self.experts > 1 else 0

    @property
    def norm_parameters(self) -> int:
        """Of one norm."""
        return self.hidden * (1 + self.biases)

    @property
    def layer_parameters(self) -> int:
        """Of one layer, with all its experts. GPT's is 12·h² + 13·h."""
        shared = self.attention_parameters + self.router_parameters + 2 * self.norm_parameters
        return shared + self.experts * self.expert_parameters

    @property
    def embedding_parameters(self) -> int:
        """Of tokens, and of places where these are learned."""
        return self.hidden * (self.vocabulary + (self.sequence if self.positions else 0))

    @property
    def output_parameters(self) -> int:
        """Of the last norm, and of the output layer where it does not share the embedding's."""
        return self.norm_parameters + (0 if self.tied else self.hidden * self.vocabulary)

    @property
    def parameters(self) -> int:
        """All of them."""
        return self.layers * self.layer_parameters + self.embedding_parameters + self.output_parameters

    @property
    def active_parameters(self) -> int:
        """Those that work on one token: all, without the experts that do not."""
        return self.parameters - self.layers * (self.experts - self.experts_per_token) * self.expert_parameters

    # FLOPs ------------------------------------------------------------------------------------------------------------

    def layer_flops(self, tokens: float) -> float:
        """Of one layer's forward. GPT's is 24·tokens·h² + 4·tokens·s·h."""
        inward = 2 if self.gated else 1
        attention = self.hidden * (2 * self.query_width + 2 * self.key_width)
        experts = self.experts_per_token * (inward + 1) * self.hidden * self.width + self.router_parameters
        return 2.0 * tokens * (attention + experts) + self.score_flops(tokens)

    def score_flops(self, tokens: float) -> float:
        """Of one layer's forward: queries by keys and weights by values, which have no parameters."""
        return 4.0 * tokens * self.sequence * self.query_width

    def output_flops(self, tokens: float) -> float:
        """Of the output layer's forward."""
        return 2.0 * tokens * self.hidden * self.vocabulary

    def forward_flops(self, tokens: float) -> float:
        """Of the whole forward."""
        return self.layers * self.layer_flops(tokens) + self.output_flops(tokens)

    def step_flops(self, tokens: float) -> float:
        """Of forward and backward, without what activation checkpointing does again: the FLOPs of MFU."""
        return 3 * self.forward_flops(tokens)


def _gpt(layers: int, hidden: int, heads: int, vocabulary: int = 51_200, sequence: int = 2048) -> Transformer:
    return Transformer(layers, hidden, heads, sequence, vocabulary)


def _llama(
    layers: int, hidden: int, heads: int, feed_forward: int, *, kv_heads: int | None = None, sequence: int = 4096,
    vocabulary: int = 32_000, experts: int = 1, experts_per_token: int = 1,
) -> Transformer:  # fmt: skip
    return Transformer(
        layers, hidden, heads, sequence, vocabulary, kv_heads, feed_forward, gated=True, experts=experts,
        experts_per_token=experts_per_token, tied=False, biases=False, positions=False, dropout=False,
    )  # fmt: skip


PRESETS: Mapping[str, Transformer] = {
    "gpt2-small": _gpt(12, 768, 12, 50_257, 1024),
    "gpt2-xl": _gpt(48, 1600, 25, 50_257, 1024),
    "gpt3-175b": _gpt(96, 12_288, 96, 50_257),
    "llama-7b": _llama(32, 4096, 32, 11_008, sequence=2048),
    "llama-13b": _llama(40, 5120, 40, 13_824, sequence=2048),
    "llama-65b": _llama(80, 8192, 64, 22_016, sequence=2048),
    "llama2-7b": _llama(32, 4096, 32, 11_008),
    "llama2-13b": _llama(40, 5120, 40, 13_824),
    "llama2-70b": _llama(80, 8192, 64, 28_672, kv_heads=8),
    "llama3-8b": _llama(32, 4096, 32, 14_336, kv_heads=8, sequence=8192, vocabulary=128_256),
    "llama3-70b": _llama(80, 8192, 64, 28_672, kv_heads=8, sequence=8192, vocabulary=128_256),
    "llama3-405b": _llama(126, 16_384, 128, 53_248, kv_heads=8, sequence=8192, vocabulary=128_256),
    "mistral-7b": _llama(32, 4096, 32, 14_336, kv_heads=8, sequence=8192),
    "mixtral-8x7b": _llama(32, 4096, 32, 14_336, kv_heads=8, sequence=8192, experts=8, experts_per_token=2),
    "megatron-1.7b": _gpt(24, 2304, 24),
    "megatron-3.6b": _gpt(30, 3072, 32),
    "megatron-7.5b": _gpt(36, 4096, 32),
    "megatron-18.4b": _gpt(40, 6144, 48),
    "megatron-39.1b": _gpt(48, 8192, 64),
    "megatron-76.1b": _gpt(60, 10_240, 80),
    "megatron-145.6b": _gpt(80, 12_288, 96),
    "megatron-310.1b": _gpt(96, 16_384, 128),
    "megatron-529.6b": _gpt(105, 20_480, 128),
    "megatron-1008b": _gpt(128, 25_600, 160),
}
"""Models by name. megatron-*: Narayanan et al. 2021, table 1."""


def preset(name: str) -> Transformer:
    """The named model; WrongUse where there is none of that name."""
    if name not in PRESETS:
        raise WrongUse(f"no model is named {name!r}; there are {', '.join(PRESETS)}")
    return PRESETS[name]
