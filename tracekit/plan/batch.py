"""Arithmetic of the batch: samples per step, steps per epoch, and what is usually done to the learning rate.

Data parallelism and gradient accumulation make the same batch: 8 GPUs × 8 samples × 2 is one GPU × 8 × 16. What the
optimizer sees is the product, so tuning goes with it. The learning-rate rules are heuristics to start a search from:

- linear (Goyal et al. 2017): k times the batch, k times the rate, with warm-up. For SGD with momentum. It breaks where
  the batch is large against the gradient noise (McCandlish et al. 2018): then a larger batch buys little.
- square root (Krizhevsky 2014; Malladi et al. 2022, for Adam): k times the batch, √k times the rate.

Both presume that base rate and base batch were tuned, and say nothing of weight decay or of Adam's betas. Warm-up: the
rate rises in a line to its full value over the first steps (Goyal et al. 2017: 5 epochs; large language models:
hundreds to thousands of steps).
"""

from __future__ import annotations

import math
from typing import Literal

from tracekit.errors import WrongUse

Rule = Literal["linear", "square-root"]


def effective_batch(per_device: int, data_parallel: int, accumulation: int = 1) -> int:
    """Samples per step of the optimizer."""
    return per_device * data_parallel * accumulation


def steps_per_epoch(samples: int, batch: int, *, drop_last: bool = False) -> int:
    """Steps to see each sample once; the last one may be smaller, or is dropped."""
    if batch < 1:
        raise WrongUse(f"a step has at least 1 sample, not {batch}")
    return samples // batch if drop_last else math.ceil(samples / batch)


def accumulation_for(batch: int, per_device: int, data_parallel: int = 1) -> int:
    """Micro-batches to accumulate for a batch; WrongUse, with what would do, where it does not divide."""
    at_once = per_device * data_parallel
    if batch % at_once or batch < at_once:
        near = max(1, round(batch / at_once)) * at_once
        raise WrongUse(f"batch {batch} is not a multiple of {per_device} × {data_parallel} samples; {near} would be")
    return batch // at_once


def learning_rate(base_rate: float, base_batch: int, batch: int, rule: Rule = "linear") -> float:
    """The rate for another batch, by a heuristic."""
    times = batch / base_batch
    if rule == "linear":
        return base_rate * times
    if rule == "square-root":
        return base_rate * math.sqrt(times)
    raise WrongUse(f"a rule is linear or square-root, not {rule!r}")


def warmed_up(rate: float, step: int, warmup_steps: int) -> float:
    """The rate of a step, counted from 0: a line to the full rate in `warmup_steps` steps."""
    return rate * min(1.0, (step + 1) / warmup_steps) if warmup_steps > 0 else rate
