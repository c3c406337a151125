"""Numbers as people type them: `80GB`, `312T`, `1e9`, `240GB/s`, `4us`."""

from __future__ import annotations

import re

from tracekit.errors import WrongUse
from tracekit.plan.hardware import Link

_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_NUMBER = re.compile(r"\s*([0-9.]+(?:[eE][+-]?[0-9]+)?)\s*([kMGTP]i?|)(FLOP/s|FLOPS|B/s|bit/s|B|b/s|)\s*")
_TIME = re.compile(r"\s*([0-9.]+(?:[eE][+-]?[0-9]+)?)\s*(s|ms|us|µs|ns|)\s*")


def number(text: str, option: str) -> float:
    """A count, bytes, or bytes or FLOPs per second; bits are made bytes; WrongUse where it is none."""
    found = _NUMBER.fullmatch(text)
    if not found:
        raise WrongUse(f"{option} takes a number, as in 80GB or 3.12e14, not {text!r}")
    factor = _PREFIXES.get(found[2])
    try:
        value = float(found[1])
    except ValueError:
        factor = None
    if factor is None:
        raise WrongUse(f"{option} takes a number, as in 80GB or 3.12e14, not {text!r}")
    return value * factor / (8 if found[3] in ("bit/s", "b/s") else 1)


def link(text: str, option: str) -> Link:
    """`240GB/s,2us` as a link; the latency may be left out (4 µs)."""
    bandwidth, _, latency = text.partition(",")
    return Link(number(bandwidth, option), seconds(latency, option) if latency else 4e-6)


def seconds(text: str, option: str) -> float:
    """`4us` as seconds; a bare number is seconds."""
    found = _TIME.fullmatch(text)
    if not found:
        raise WrongUse(f"{option} takes a time, as in 4us, not {text!r}")
    return float(found[1]) * {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}[found[2]]
