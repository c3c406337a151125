"""Times as a trace writes them (microseconds, with decimals, perhaps as text) to integer nanoseconds, exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

import msgspec
import numpy as np
import numpy.typing as npt

from tracekit.model import NO_TIME

EXACT_BELOW_US = 2.0**43
"""Below it (101 days) a float64 tells any three decimals of a microsecond apart, above it does not."""
_LIMIT_NS = 2**62
_NANOSECONDS_PER_MICROSECOND = 1000


class InexactTimes(ValueError):
    """Some time was decoded as a float64 that has lost its nanoseconds: decode the text again as `msgspec.Raw`."""


def nanoseconds(values: Sequence[object]) -> npt.NDArray[np.int64]:
    """Microseconds to int64 nanoseconds; `NO_TIME` for what is no time (absent, NaN, text that is no number).

    Values may be int, float, text or `msgspec.Raw`. Raises InexactTimes where a float is too large to be exact.
    """
    kinds = set(map(type, values))
    if kinds == {int}:
        try:
            whole = np.fromiter(values, np.int64, len(values))
        except OverflowError:
            return np.fromiter(map(_of_one, values), np.int64, len(values))
        if np.abs(whole).max() < _LIMIT_NS // _NANOSECONDS_PER_MICROSECOND:
            return whole * _NANOSECONDS_PER_MICROSECOND
    elif kinds <= {int, float}:
        return _of_floats(np.array(values, np.float64))
    return np.fromiter(map(_of_one, values), np.int64, len(values))


def _of_floats(values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    finite = np.isfinite(values)
    known = np.where(finite, values, 0.0)
    if np.abs(known).max(initial=0.0) >= EXACT_BELOW_US:
        raise InexactTimes
    decimals, whole = np.modf(known)
    exact = whole.astype(np.int64) * _NANOSECONDS_PER_MICROSECOND
    return np.where(finite, exact + np.rint(decimals * _NANOSECONDS_PER_MICROSECOND).astype(np.int64), NO_TIME)


def _of_one(value: object) -> int:
    if isinstance(value, float) and abs(value) >= EXACT_BELOW_US:
        if not math.isfinite(value):
            return NO_TIME
        raise InexactTimes
    text = bytes(value).decode("ascii", "replace") if isinstance(value, msgspec.Raw) else str(value)
    try:
        exact = Decimal(text.strip().strip('"').strip()) * _NANOSECONDS_PER_MICROSECOND
        return int(exact.to_integral_value()) if exact.is_finite() and abs(exact) < _LIMIT_NS else NO_TIME
    except (InvalidOperation, ValueError):
        return NO_TIME
