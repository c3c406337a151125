"""Does the diagnosis name who and what in real processes, too? Every fault of the workloads on the emulated device.

    python -m benchmarks.real_faults [WORKLOAD ...] [--tries 2] [--write]

Runs `ddp`, `fsdp` and `pipeline` once with each fault that can happen there, costing some 10 to 30 % of the step, and
tells which findings name its cause and its rank. What else runs on the machine takes time away from a rank and is found
too, rightly: run it on an idle machine; the first of a few tries that names both counts.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.diagnosis import CAUSES
from benchmarks.sections import write_section
from tracekit import Analysis, load
from tracekit.model import Finding
from tracekit.simulate.faults import KINDS

DOCUMENT, SECTION = Path(__file__).parent.parent / "docs" / "accuracy.md", "real faults"
ARGUMENTS = {
    "ddp": ("--ranks", "3", "--emulated-flops", "2e9", "--wait", "0", "--warmup", "1", "--active", "6"),
    "fsdp": ("--ranks", "3", "--emulated-flops", "2e9", "--wait", "0", "--warmup", "1", "--active", "6"),
    "pipeline": (
        *("--ranks", "4", "--microbatches", "8", "--layers", "4", "--width", "64", "--sequence", "32"),
        *("--vocabulary", "16", "--batch", "4", "--emulated-flops", "1e8", "--wait", "0", "--warmup", "1"),
        *("--active", "4"),
    ),
}
RANK = 1
MORE = {("ddp", "no_overlap"): ("--emulated-flops", "2e10")}
"""Arguments without which a fault would cost next to nothing."""
LARGER = {("pipeline", "late_start"): f"late_start:{RANK}:900"}
"""Faults that must be larger to cost anything: a stage has time to spare before its first micro-batch comes."""
NOT_TOLD = {("ddp", "slow_link"), ("fsdp", "slow_link")}
"""All calls are of all ranks, so that a slow link slows all of them alike: no trace tells whose it is."""
FAULTS = {
    "slow_device": f"slow_device:{RANK}:1.5",
    "throttle": f"throttle:{RANK}:1.6",
    "slow_host": f"slow_host:{RANK}:100",
    "data_loader": f"data_loader:{RANK}:300",
    "gc": f"gc:{RANK}:600",
    "slow_link": f"slow_link:{RANK}:100",
    "late_start": f"late_start:{RANK}:300",
    "stage_imbalance": f"stage_imbalance:{RANK}:1",
    "length_imbalance": "length_imbalance::0.5",
    "no_overlap": "no_overlap",
    "clock_skew": f"clock_skew:{RANK}:20",
}
OF_ALL = ("length_imbalance", "no_overlap")


@dataclass(frozen=True)
class Cell:
    """One workload with one fault: whether cause and rank were named, and what was told; or why it cannot happen."""

    workload: str
    fault: str
    cause_right: bool | None
    rank_right: bool | None
    told: str


def spelled(workload: str, kind: str) -> str:
    """The fault as the workload takes it."""
    return LARGER.get((workload, kind), FAULTS[kind])


def tried(workload: str, kind: str, tries: int) -> Cell:
    """The first of some tries that names both, else the last."""
    for _ in range(tries):
        cell = diagnosed(workload, kind)
        if cell.cause_right is None or (cell.cause_right and cell.rank_right is not False):
            break
    return cell


def diagnosed(workload: str, kind: str) -> Cell:
    """One run, diagnosed."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, "-m", "workloads", workload, "--device", "emulated", *ARGUMENTS[workload]),
            *MORE.get((workload, kind), ()),
            *("--fault", spelled(workload, kind), "--out", folder),
        ]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode:
            return Cell(workload, kind, None, None, run.stderr.strip().splitlines()[-1])
        found = Analysis(load(folder, cache=False)).findings
    right = [one for one in found if CAUSES.get(one.code) == KINDS[kind].cause]
    named = None if kind in OF_ALL else any(RANK in one.ranks and len(one.ranks) == 1 for one in right)
    if (workload, kind) in NOT_TOLD:
        return Cell(
            workload, kind, None, None, f"{_told(found)} (all calls are of all ranks: nothing tells them apart)"
        )
    return Cell(workload, kind, bool(right), named, _told(found))


def _told(found: Sequence[Finding]) -> str:
    return " + ".join(f"{one.code}{list(one.ranks) or ''}" for one in found) or "nothing"


def table(cells: Sequence[Cell]) -> str:
    """The cells as Markdown."""
    lines = ["| workload | fault | cause named | rank named | findings |", "|---|---|---|---|---|"]
    words = {True: "yes", False: "**no**", None: "-"}
    for one in cells:
        cells_of = (f"`{spelled(one.workload, one.fault)}`", words[one.cause_right], words[one.rank_right], one.told)
        lines.append(f"| {one.workload} | {' | '.join(cells_of)} |")
    return "\n".join(lines)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", default=list(ARGUMENTS), metavar="WORKLOAD")
    parser.add_argument("--tries", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="put the table into docs/accuracy.md")
    options = parser.parse_args()
    cells = [tried(workload, kind, options.tries) for workload in options.workloads for kind in FAULTS]
    text = f"""## Diagnosis: faults in real processes

`python -m benchmarks.real_faults --write`: processes that train on the emulated device, each with one fault.

{table(cells)}"""
    print(text)
    if options.write:
        write_section(DOCUMENT, SECTION, text)


if __name__ == "__main__":
    main()
