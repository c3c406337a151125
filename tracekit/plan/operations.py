"""What running a job costs beside its steps: checkpoints, failures, and the share of time that is of use.

Young 1974, "A first order approximation to the optimum checkpoint interval": √(2·δ·M), for a checkpoint of δ seconds
and M seconds between failures. Daly 2006, "A higher order estimate of the optimum checkpoint interval for restart
dumps": a better one where δ is not small beside M, and the expected run time that `goodput` inverts. Failures are taken
to come at random at one rate per GPU, and each ends the job.
"""

from __future__ import annotations

import math

from tracekit.errors import WrongUse
from tracekit.plan.memory import Precision

DAY_S = 86_400.0
FAILURES_PER_GPU_DAY = 419 / 54 / 16_384
"""Dubey et al. 2024, "The Llama 3 herd of models", 3.3.4: 419 unexpected interruptions in 54 days on 16,384 H100."""


def checkpoint_bytes(parameters: float, precision: Precision, *, trainable: float = 1.0) -> float:
    """Weights and optimizer states, without gradients: 14 bytes per parameter with Adam in mixed precision."""
    return parameters * (precision.weight_bytes + trainable * precision.optimizer_bytes)


def checkpoint_seconds(size_bytes: float, storage_bandwidth: float) -> float:
    """How long writing takes when all ranks write their part at once; the storage's bytes per second for all."""
    if not storage_bandwidth > 0:
        raise WrongUse(f"storage must take more than 0 bytes per second, not {storage_bandwidth}")
    return size_bytes / storage_bandwidth


def failures_per_day(gpus: int, per_gpu_day: float = FAILURES_PER_GPU_DAY) -> float:
    """Failures that stop the job."""
    return gpus * per_gpu_day


def seconds_between_failures(gpus: int, per_gpu_day: float = FAILURES_PER_GPU_DAY) -> float:
    """Mean time; infinite where nothing fails."""
    daily = failures_per_day(gpus, per_gpu_day)
    return DAY_S / daily if daily else math.inf


def young_interval(checkpoint_s: float, between_failures_s: float) -> float:
    """Seconds of work between two checkpoints that cost least, to first order."""
    return math.sqrt(2 * checkpoint_s * between_failures_s)


def daly_interval(checkpoint_s: float, between_failures_s: float) -> float:
    """The same to higher order: √(2δM)·(1 + √(δ/2M)/3 + (δ/2M)/9) - δ; M where δ is 2M or more."""
    if checkpoint_s >= 2 * between_failures_s:
        return between_failures_s
    if math.isinf(between_failures_s):
        return math.inf
    half = checkpoint_s / (2 * between_failures_s)
    return young_interval(checkpoint_s, between_failures_s) * (1 + math.sqrt(half) / 3 + half / 9) - checkpoint_s


def goodput(interval_s: float, checkpoint_s: float, between_failures_s: float, restart_s: float = 0.0) -> float:
    """The share of time that goes into steps which are kept: τ / (M·e^(R/M)·(e^((τ+δ)/M) - 1)), Daly 2006.

    `interval_s` is τ, the work between two checkpoints of δ seconds that stop training; `restart_s` is R, from the
    failure to the first step after it. Lost: checkpoints, work since the last one, restarts.
    """
    if interval_s <= 0:
        raise WrongUse(f"the interval between checkpoints must be above 0 seconds, not {interval_s}")
    if math.isinf(between_failures_s):
        return interval_s / (interval_s + checkpoint_s)
    mean = between_failures_s
    try:
        return interval_s / (mean * math.exp(restart_s / mean) * math.expm1((interval_s + checkpoint_s) / mean))
    except OverflowError:
        return 0.0
