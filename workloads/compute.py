"""How long compute takes: as stated, on the emulated device, or a factor longer, on a slow one.

The emulated device gives real results: an operation is computed on the CPU, which takes microseconds at the sizes used
here, and then sleeps until its stated time has passed: its floating-point operations, as `torch.utils.flop_counter`
counts them, by the device's FLOP/s. A sleeping rank uses no core, so that several ranks on two cores behave like as
many devices. It sits under the matrix products and attention themselves: models, autograd, DDP's buckets and pipeline
schedules run unchanged, and in backward the products for the input's and for the weight's gradient are two operations,
each done, and slept for, only when its gradient is asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.flop_counter import addmm_flop, bmm_flop, mm_flop, sdpa_backward_flop, sdpa_flop

from .interception import Arguments, intercept

# Operator -> its floating-point operations, of its arguments.
FLOP: dict[str, Callable[..., int]] = {
    "mm": mm_flop,
    "addmm": addmm_flop,
    "bmm": bmm_flop,
    "_scaled_dot_product_flash_attention_for_cpu": sdpa_flop,
    "_scaled_dot_product_flash_attention_for_cpu_backward": sdpa_backward_flop,
}
# What else of a transformer takes time worth stretching on a CPU.
OTHERS = (
    "gelu",
    "gelu_backward",
    "native_layer_norm",
    "native_layer_norm_backward",
    "_log_softmax",
    "_log_softmax_backward_data",
)
# A sleep is late by some 0.1 ms, so shorter ones are saved up.
SHORTEST_SLEEP_NS = 500_000

Pace = Callable[[int, int], None]


def emulate(flop_per_s: float, factor: Callable[[], float], added: Callable[[int], None]) -> torch.library.Library:
    """Make each operation take its FLOP / `flop_per_s` × `factor()` seconds, as long as the result is kept.

    `added` is told the nanoseconds that are the factor's.
    """

    def pace(flop: int, took_ns: int) -> None:
        stated_ns = flop / flop_per_s * 1e9
        sleep(stated_ns * factor() - took_ns)
        added(round(stated_ns * (factor() - 1)))

    return _paced(FLOP, pace)


def stretch(factor: Callable[[], float], added: Callable[[int], None]) -> torch.library.Library:
    """Make each operation take `factor()` times as long; `added` is told the nanoseconds that are the factor's."""
    debt_ns = 0.0

    def pace(_: int, took_ns: int) -> None:
        nonlocal debt_ns
        debt_ns += (factor() - 1) * took_ns
        if debt_ns > SHORTEST_SLEEP_NS:
            slept_ns = sleep(debt_ns)
            added(slept_ns)
            debt_ns -= slept_ns

    return _paced({**FLOP, **dict.fromkeys(OTHERS, _unknown)}, pace)


def _unknown(*_: Any) -> int:
    return 0


def _paced(operations: dict[str, Callable[..., int]], pace: Pace) -> torch.library.Library:
    library = torch.library.Library("aten", "IMPL")
    for name, flop in operations.items():
        intercept(library, name, _then(pace, flop))
    return library


def _then(pace: Pace, flop: Callable[..., int]) -> Callable[[Arguments, Callable[[], Any]], Any]:
    def computed(arguments: Arguments, compute: Callable[[], Any]) -> Any:
        if arguments[0].is_meta:  # only the shape is asked for
            return compute()
        began_ns = time.perf_counter_ns()
        result = compute()
        pace(flop(*arguments), time.perf_counter_ns() - began_ns)
        return result

    return computed


def sleep(nanoseconds: float) -> int:
    """Sleep, if there is anything to sleep for; the nanoseconds that it took."""
    began_ns = time.perf_counter_ns()
    if nanoseconds > 0:
        time.sleep(nanoseconds / 1e9)
    return time.perf_counter_ns() - began_ns
