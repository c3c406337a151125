"""How do reading, analysing and diagnosing grow with the number of ranks?

    python -m benchmarks.scale [--ranks 8 64 256 1024] [--events 5000] [--steps 2] [--write]
    python -m benchmarks.scale --ranks 64 --events 50000 --steps 10     # what the diagnosis may cost: 60 s and 4 GB

Simulates a job of so many ranks (data x tensor parallel in a host, so many events a rank), one file per rank, and
gives it to a new process that reads it, then to one that opens it from the cache, asks for every measure, and then for
the findings. Wall and CPU seconds (of all processes), and the peak memory of the coordinator and of the largest worker.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.sections import write_section

DOCUMENT = Path(__file__).parent.parent / "docs" / "scale.md"
AIM_BYTES, AIM_SECONDS, AIM_DIAGNOSIS_BYTES = 2 * 10**9, 60, 4 * 10**9
TARGET_RANKS, TARGET_BYTES = 10_000, 100 * 10**9
MODEL = {"hidden": 2048, "heads": 16, "vocabulary": 32_000, "sequence": 1024}


@dataclass(frozen=True)
class Size:
    """One job's measurements: of reading, and of measures and findings from the cache."""

    ranks: int
    events: int
    file_bytes: int
    read: dict[str, float]
    told: dict[str, float]


def job(ranks: int, layers: int, steps: int) -> dict[str, Any]:
    """A job whose tensor groups are hosts; one rank's device is slow, so that there is something to find."""
    tensor = 8 if ranks % 8 == 0 else 1
    return {
        "model": {**MODEL, "layers": layers}, "layout": {"axes": f"dp {ranks // tensor} x tp {tensor}"}, "steps": steps,
        "seed": 1, "noise": {"compute": 0.02}, "faults": [f"slow_device:{ranks // 2}:1.2"],
    }  # fmt: skip


def simulated(folder: str, ranks: int, events: int, steps: int) -> None:
    """Writes the traces of a job with about so many events a rank."""
    from tracekit.simulate import simulate
    from tracekit.simulate.job import job_of

    per_layer = {}
    for layers in (2, 4):
        with tempfile.TemporaryDirectory() as small:
            simulate(job_of(job(8, layers, 1)), small)
            per_layer[layers] = sum(_count(path) for path in Path(small).glob("rank*")) / 8
    each = (per_layer[4] - per_layer[2]) / 2
    layers = max(1, round((events / steps - per_layer[2]) / each) + 2)
    simulate(job_of(job(ranks, layers, steps)), folder)


def _count(path: Path) -> int:
    from isal import igzip

    return igzip.decompress(path.read_bytes()).count(b'"ph"')


def read(folder: str) -> dict[str, float]:
    """Reads the run into the cache."""
    from tracekit import load

    run, measured = _timed(lambda: load(folder))
    return {**measured, "events": float(run.ranks["events"].sum())}


def told(folder: str) -> dict[str, float]:
    """Opens the run from the cache; every measure; then the findings."""
    from tracekit import Analysis, load
    from tracekit.analysis import measure_names
    from tracekit.errors import NotMeasured

    run, opened = _timed(lambda: load(folder))
    analysis = Analysis(run)

    def measures() -> None:
        for name in measure_names():
            with contextlib.suppress(NotMeasured):
                analysis[name]

    _, measured = _timed(measures)
    found, diagnosed = _timed(lambda: analysis.findings)
    right = any(one.code == "slow-device" for one in found)
    parts = {"open": opened, "measures": measured, "findings": diagnosed}
    return {
        **{f"{part}_{name}": value for part, values in parts.items() for name, value in values.items()},
        "right": float(right),
    }


def _timed(work: Any) -> tuple[Any, dict[str, float]]:
    wall, cpu = time.perf_counter(), _cpu_seconds()
    answer = work()
    return answer, {"wall": time.perf_counter() - wall, "cpu": _cpu_seconds() - cpu}


def _cpu_seconds() -> float:
    """Of this process and all below it, those that still run included."""
    tick = os.sysconf("SC_CLK_TCK")
    children, total = {}, time.process_time()
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = place.read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append((int(place.parent.name), int(fields[11]) + int(fields[12])))
    below = [os.getpid()]
    while below:
        for pid, ticks in children.get(below.pop(), []):
            total += ticks / tick
            below.append(pid)
    return total + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


def in_own_process(what: str, folder: str, cache: str) -> dict[str, float]:
    """The answer of `read` or `told`, with the peaks of that process and of its largest worker."""
    command = [sys.executable, "-m", "benchmarks.scale", "--one", what, folder]
    done = subprocess.run(command, env={**os.environ, "TRACEKIT_CACHE": cache}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr[-3000:])
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def measured(ranks: int, events: int, steps: int) -> Size:
    """One size, simulated, read and told."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
        simulated(folder, ranks, events, steps)
        size = sum(path.stat().st_size for path in Path(folder).glob("rank*"))
        first = in_own_process("read", folder, cache)
        return Size(ranks, round(first["events"]), size, first, in_own_process("told", folder, cache))


def table(sizes: Sequence[Size]) -> str:
    """The sizes as Markdown."""
    lines = [
        "| ranks | events | read, s | CPU | open from cache, s | measures, s | CPU | findings, s | CPU "
        "| all, CPU s a rank | coordinator, MB | largest worker, MB |",
        "|" + "--:|" * 12,
    ]
    for one in sizes:
        cpu = one.read["cpu"] + sum(one.told[f"{part}_cpu"] for part in ("open", "measures", "findings"))
        coordinator, worker = (max(one.read[name], one.told[name]) for name in ("peak_bytes", "worker_bytes"))
        cells = [
            f"{one.ranks:,}", f"{one.events:,}", f"{one.read['wall']:.1f}", f"{one.read['cpu']:.1f}",
            f"{one.told['open_wall']:.1f}", f"{one.told['measures_wall']:.1f}", f"{one.told['measures_cpu']:.1f}",
            f"{one.told['findings_wall']:.1f}", f"{one.told['findings_cpu']:.1f}", f"{cpu / one.ranks:.3f}",
            f"{coordinator / 1e6:,.0f}", f"{worker / 1e6:,.0f}",
        ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def projection(sizes: Sequence[Size]) -> str:
    """What the two largest sizes say of ten thousand ranks, and of a hundred gigabytes."""
    small, large = sizes[-2:]
    ratio = TARGET_RANKS / large.ranks
    per_event_us = 1e6 * large.read["cpu"] / large.events
    coordinator = [max(one.read["peak_bytes"], one.told["peak_bytes"]) for one in (small, large)]
    per_rank = (coordinator[1] - coordinator[0]) / (large.ranks - small.ranks)
    all_bytes = coordinator[1] + per_rank * (TARGET_RANKS - large.ranks)
    diagnosis = sum(large.told[f"{part}_cpu"] for part in ("open", "measures", "findings"))
    bytes_per_event = large.file_bytes / large.events
    read_hours = TARGET_BYTES / bytes_per_event * per_event_us / 1e6 / 3600
    return f"""Projected from {large.ranks:,} ranks, each step of the arithmetic in proportion:

- Reading costs {per_event_us:.1f} µs of CPU an event, and a compressed event {bytes_per_event:.0f} bytes:
  {TARGET_BYTES / 1e9:.0f} GB of such files are {TARGET_BYTES / bytes_per_event / 1e9:.1f} billion events and
  {read_hours:.1f} CPU hours, once; on 100 cores {60 * read_hours / 100:.0f} minutes.
- Measures and findings of {TARGET_RANKS:,} such ranks: {diagnosis:.0f} s × {TARGET_RANKS:,} / {large.ranks:,} =
  {diagnosis * ratio / 60:.0f} CPU minutes. Measures are taken rank by rank, by whoever; the replay is one process.
- The coordinator holds {per_rank / 1e3:,.0f} kB a rank beyond {small.ranks:,} ranks:
  {coordinator[1] / 1e9:.2f} GB + {per_rank / 1e3:,.0f} kB × {TARGET_RANKS - large.ranks:,} =
  {all_bytes / 1e9:.1f} GB."""


def main() -> None:
    """Prints the table, or as a process of its own its answer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[8, 64, 256, 1024])
    parser.add_argument("--events", type=int, default=5000)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="put the table into docs/scale.md")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        answer = {"read": read, "told": told}[asked.one[0]](asked.one[1])
        peaks = {
            name: resource.getrusage(who).ru_maxrss * 1024
            for name, who in (("peak_bytes", resource.RUSAGE_SELF), ("worker_bytes", resource.RUSAGE_CHILDREN))
        }
        from loky import get_reusable_executor

        get_reusable_executor().shutdown(wait=True)
        peaks["worker_bytes"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        print(json.dumps({**answer, **peaks}))
        return
    sizes = [measured(ranks, asked.events, asked.steps) for ranks in asked.ranks]
    text = table(sizes) + ("\n\n" + projection(sizes) if len(sizes) > 1 else "")
    print(text)
    for one in sizes:
        if not one.told["right"]:
            print(f"The slow device was not found among {one.ranks} ranks.")
    if asked.write:
        write_section(DOCUMENT, "scale", f"`python -m benchmarks.scale --write`, on two cores:\n\n{text}")


if __name__ == "__main__":
    main()
