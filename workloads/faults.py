"""The faults that can be put into a run: what they are, and where they can happen. Imports no torch.

`--fault KIND[:rank][:size][@step]`, repeatable: `slow_device:1:2`, `late_start::80`, `throttle:0:1.5@3`. Without a rank
it is the last one, or all for the kinds that befall all; without a size the kind's default; without a step the whole
run. `injection` makes them happen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from .errors import WrongUse

DEVICES = ("cpu", "emulated", "accelerator")
_SPELLING = re.compile(r"(?P<kind>\w+)(:(?P<rank>\d*))?(:(?P<size>\d*\.?\d*)(x|ms)?)?(@(?P<step>\d+))?")


@dataclass(frozen=True)
class Kind:
    """One way to be slow. `unit` is that of the size, `counted` that of what run.json records per step."""

    what: str
    unit: str
    size: float
    counted: str = "ns"
    befalls_all: bool = False
    refused: Mapping[str, str] = field(default_factory=dict)
    only_by_workload: str = ""  # why most workloads cannot have it; those that can, do it themselves


_QUEUE = "an operation here is done when it returns: there is no queue to wait for"
KINDS = {
    "slow_device": Kind(
        "all compute of the rank takes size times as long",
        "x",
        2.0,
        refused={"accelerator": "a training process cannot slow its accelerator's clock"},
    ),
    "throttle": Kind(
        "the same from a step on: the middle of the trace, if none is given",
        "x",
        2.0,
        refused={"accelerator": "a training process cannot slow its accelerator's clock"},
    ),
    "slow_host": Kind("Python stalls before each layer's forward", "ms", 5.0),
    "data_loader": Kind("each micro-batch of the rank is loaded late", "ms", 50.0),
    "gc": Kind("a full garbage collection of about this length in every second step", "ms", 50.0),
    "slow_link": Kind(
        "each transfer of the rank is delayed after all members have arrived",
        "ms",
        20.0,
        refused={"accelerator": "a transfer is one kernel, which nothing outside can delay once it has begun"},
    ),
    "late_start": Kind("the rank comes late to its first transfer of each step", "ms", 50.0),
    "stage_imbalance": Kind(
        "the rank's stage has this many layers more", "layers", 1.0, "", only_by_workload="only a pipeline has stages"
    ),
    "length_imbalance": Kind(
        "samples are shortened by up to this share, differently per rank and step", "share", 0.5, "tokens", True
    ),
    "no_overlap": Kind(
        "nothing is communicated while something is computed",
        "",
        1.0,
        "",
        True,
        only_by_workload="it has no communication that overlaps compute in the first place",
    ),
    "sync_points": Kind(
        "the host waits for the device after every layer",
        "",
        1.0,
        befalls_all=True,
        refused={"cpu": _QUEUE, "emulated": _QUEUE},
    ),
    "clock_skew": Kind("the times in the rank's trace are shifted", "ms", 5.0),
}
BETWEEN_RANKS = {"slow_link", "late_start", "no_overlap", "clock_skew"}


@dataclass(frozen=True)
class Fault:
    """A fault as asked for; `rank` None is all ranks, `step` the first in which it happens."""

    kind: str
    rank: int | None
    size: float
    step: int = 0


def parse(text: str, ranks: int, middle: int) -> Fault:
    """The fault that `KIND[:rank][:size][@step]` means; WrongUse where it means none."""
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
    step = int(found["step"]) if found["step"] else middle if found["kind"] == "throttle" else 0
    return Fault(found["kind"], rank, size, step)


def refusal(kind: str, device: str, workload: object) -> str | None:
    """Why this fault cannot happen in this workload on this device (one of DEVICES); None where it can.

    A workload's module may name in `FAULTS` the kinds that it does itself, and in `REFUSED`, with a sentence each,
    those that it cannot have.
    """
    reasons: Mapping[str, str] = getattr(workload, "REFUSED", {})
    if kind in reasons:
        return reasons[kind]
    if KINDS[kind].only_by_workload and kind not in getattr(workload, "FAULTS", ()):
        return KINDS[kind].only_by_workload
    return KINDS[kind].refused.get(device)


def check(fault: Fault, device: str, workload: object, name: str, ranks: int) -> None:
    """Raise WrongUse, saying why, where the fault cannot happen."""
    reason = refusal(fault.kind, device, workload)
    if fault.kind in BETWEEN_RANKS and ranks == 1:
        reason = "it takes two ranks to see it"
    if reason:
        raise WrongUse(f"fault {fault.kind} cannot happen in {name} on {device}: {reason}")


def table(workload: object) -> dict[str, dict[str, str]]:
    """Fault -> device -> `yes`, or why not."""
    return {kind: {device: refusal(kind, device, workload) or "yes" for device in DEVICES} for kind in KINDS}


def markdown(workloads: Mapping[str, object]) -> str:
    """The whole table, fault × workload × device, with a footnote for each reason why not."""
    reasons: list[str] = []
    lines = [["fault", "what happens", "size", *workloads], ["---"] * (3 + len(workloads))]
    for kind, described in KINDS.items():
        cells = [_cell(kind, workload, reasons) for workload in workloads.values()]
        lines.append([f"`{kind}`", described.what, f"{described.size:g} {described.unit}".rstrip(), *cells])
    rows = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([*rows, "", *(f"{number}. {reason}" for number, reason in enumerate(reasons, 1))])


def _cell(kind: str, workload: object, reasons: list[str]) -> str:
    """The devices on which it can happen, and the numbers of the reasons why not on the others."""
    why = {device: refusal(kind, device, workload) for device in DEVICES}
    reasons += [reason for reason in dict.fromkeys(why.values()) if reason is not None and reason not in reasons]
    possible = [device for device, reason in why.items() if reason is None]
    named = "all" if len(possible) == len(DEVICES) else ", ".join(possible) or "no"
    numbers = sorted({reasons.index(reason) + 1 for reason in why.values() if reason is not None})
    return " ".join([named, *(f"({number})" for number in numbers)])
