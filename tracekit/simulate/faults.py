"""The faults that can be put into a simulated job.

`KIND[:rank][:size][@step]`, as in `slow_device:3:1.2` or `throttle:0:1.5@3`. Without a rank it is the last one, or all
for the kinds that befall all; without a size the kind's default; without a step the whole run. The first twelve are
those of the workloads, with sizes for GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tracekit.errors import WrongUse

_SPELLING = re.compile(r"(?P<kind>\w+)(:(?P<rank>\d*))?(:(?P<size>\d*\.?\d+)(x|ms|ppm)?)?(@(?P<step>\d+))?")


@dataclass(frozen=True)
class Kind:
    """One way to go wrong: what happens, the size's unit and default, and the cause that a diagnosis should name."""

    what: str
    unit: str
    size: float
    cause: str
    befalls_all: bool = False


KINDS = {
    "slow_device": Kind("all compute of the rank takes size times as long", "x", 2.0, "device"),
    "throttle": Kind("the same from a step on: the middle of the run, if none is given", "x", 2.0, "device"),
    "slow_host": Kind("Python stalls before each layer's forward", "ms", 2.0, "host"),
    "data_loader": Kind("each micro-batch of the rank is loaded late", "ms", 50.0, "data loading"),
    "gc": Kind("a garbage collection of this length in every second step", "ms", 50.0, "garbage collection"),
    "slow_link": Kind("each transfer of the rank takes so much longer", "ms", 1.0, "link"),
    "late_start": Kind("the rank comes late to its first transfer of each step", "ms", 20.0, "host"),
    "stage_imbalance": Kind("the rank's stage has so many layers more", "layers", 1.0, "work"),
    "length_imbalance": Kind(
        "samples are shortened by up to this share, differently per rank and step", "share", 0.5, "work", True
    ),
    "no_overlap": Kind("no collective runs while something is computed", "", 1.0, "overlap", True),
    "sync_points": Kind("the host waits for the device after every layer", "", 1.0, "synchronisation", True),
    "clock_skew": Kind("the times in the rank's trace are shifted", "ms", 5.0, "clock"),
    "degraded_link": Kind("all links of the rank have size times less bandwidth", "x", 4.0, "link"),
    "lost_events": Kind("this share of the rank's events is missing from its file", "share", 0.02, "recording"),
    "clock_drift": Kind("the clock of the rank's file runs fast, by micro-seconds per second", "ppm", 20.0, "clock"),
    "missing_ranks": Kind("the rank has no file", "", 1.0, "recording"),
}
EVEN_LENGTHS = "even_lengths"
"""What stands for `length_imbalance` where that is mended: as much work in the step, spread evenly."""
OF_RECORDING = ("clock_skew", "clock_drift", "lost_events", "missing_ranks")
"""These change what is written, not what happens."""


@dataclass(frozen=True)
class Fault:
    """A fault as asked for; `rank` None is all ranks, `step` the first in which it happens."""

    kind: str
    rank: int | None
    size: float
    step: int = 0

    @property
    def cause(self) -> str:
        """What a diagnosis should name."""
        return KINDS[self.kind].cause

    def of(self, rank: int, step: int) -> bool:
        """Whether it befalls this rank in this step."""
        return self.rank in (None, rank) and step >= self.step

    def __str__(self) -> str:
        start = f"@{self.step}" if self.step else ""
        return f"{self.kind}:{'' if self.rank is None else self.rank}:{self.size:g}{start}"


def parse(text: str, ranks: int, steps: int) -> Fault:
    """The fault that a text means in a job of so many ranks and steps; WrongUse where it means none."""
    found = _SPELLING.fullmatch(text)
    if found is None or found["kind"] not in KINDS:
        raise WrongUse(f"no fault {text!r}; it is KIND[:rank][:size][@step] with KIND one of {', '.join(KINDS)}")
    kind = KINDS[found["kind"]]
    rank = int(found["rank"]) if found["rank"] else None if kind.befalls_all else ranks - 1
    if rank is not None and rank >= ranks:
        raise WrongUse(f"fault {text!r} is on rank {rank}, but there are {ranks} ranks")
    if rank is not None and found["kind"] == "no_overlap":
        raise WrongUse(f"fault {text!r} befalls all ranks: none can be named")
    size = float(found["size"] or kind.size)
    if size <= 0:
        raise WrongUse(f"fault {text!r} needs a size above 0")
    if kind.unit == "share" and size >= 1:
        raise WrongUse(f"fault {text!r}: a share is below 1")
    if found["kind"] == "stage_imbalance" and size % 1:
        raise WrongUse(f"fault {text!r} is of whole layers")
    step = int(found["step"]) if found["step"] else steps // 2 if found["kind"] == "throttle" else 0
    return Fault(found["kind"], rank, size, step)


def product(faults: Sequence[Fault], kinds: Sequence[str], rank: int, step: int) -> float:
    """The sizes of a rank's faults of these kinds in a step, multiplied; 1 without any."""
    whole = 1.0
    for fault in faults:
        if fault.kind in kinds and fault.of(rank, step):
            whole *= fault.size
    return whole


def total(faults: Sequence[Fault], kind: str, rank: int, step: int) -> float:
    """The sizes of a rank's faults of a kind in a step, added; 0 without any."""
    return sum(fault.size for fault in faults if fault.kind == kind and fault.of(rank, step))
