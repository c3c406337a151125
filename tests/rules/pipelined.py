"""Pipelines of several steps, drawn as in `tests/pipelines.py`."""

from __future__ import annotations

from pathlib import Path

from tests.pipelines import pipeline
from tracekit import Analysis


def pipelined(drawing: str, folder: Path, steps: int = 3) -> Analysis:
    """The drawing's step, so many times one after the other."""
    lines = [line.split(maxsplit=2) for line in drawing.splitlines() if line.strip()]
    longest = max(len(line[1]) for line in lines)
    ruler = "".join(str(nth) * longest for nth in range(steps))
    repeated = [" ".join([line[0], line[1].ljust(longest, ".") * steps, *line[2:]]) for line in lines]
    return Analysis(pipeline("\n".join([f"step {ruler}", *repeated]), folder))


def two_by_two(one: str, other: str, *transfers: str) -> str:
    """Two pipelines of two stages, alike: ranks 0 and 1 hold the first stage, 2 and 3 the second."""
    lines = [f"0:0 {one}", f"1:0 {one}", f"2:1 {other}", f"3:1 {other}"]
    for transfer in transfers:
        label, cells = transfer.split()
        for rank in (0, 1):
            ends = "".join(str(2 * int(part) + rank) if part.isdigit() else part for part in label)
            lines += [f"{ends} {cells}"]
    return "\n".join(lines)
