"""How fast is reading, beside HolisticTraceAnalysis, beside the cache, and beside decompression alone?

    python -m benchmarks.reading [TRACE ...] [--repeat 3]

Reads each trace (default: those over 30 MB of JSON among the real ones, else one made up) by every contender in turn,
each time in a process of its own, and takes each contender's best time. Timed are load, breakdown and overlap, after
imports; memory is the process's peak, imports included. Contenders: `tracekit` (which also writes its cache), `cached`
(loads from that cache and touches every event), `hta` (HolisticTraceAnalysis), `floor` (decompression alone).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import made_trace

LARGE_BYTES = 30 * 10**6
AIM_TIMES_HTA, AIM_TIMES_CACHED = 12, 20
AIM_BASE_BYTES, AIM_BYTES_PER_EVENT = 250 * 10**6, 100

Answer = dict[str, float]


class Failed(Exception):
    """A contender ended without an answer."""


def tracekit(trace: str) -> Answer:
    """Reads the trace into an empty cache, then breakdown and overlap."""
    from tracekit import Analysis, load
    from tracekit.errors import NotMeasured

    started = time.perf_counter()
    run = load(trace)
    loaded = time.perf_counter()
    analysis = Analysis(run)
    rows = analysis["breakdown"]
    with contextlib.suppress(NotMeasured):
        analysis["overlap"]
    done = time.perf_counter()
    return {
        "seconds": done - started, "load_seconds": loaded - started, "events": float(run.ranks["events"].sum()),
        "comm_ms": rows["comm_ns"].sum() / 1e6,
    }  # fmt: skip


def cached(trace: str) -> Answer:
    """Loads the trace from the cache and touches every event of it."""
    from tracekit import load

    load(trace)  # imports what is imported late
    started = time.perf_counter()
    run = load(trace)
    ranks = [run.rank(rank) for rank in run.ranks["rank"]]
    touched = sum(len(table) + int(table["end_ns"].sum() % 2) for one in ranks for table in (one.work, one.host))
    touched += sum(len(one.allocations) for one in ranks)
    return {"seconds": time.perf_counter() - started, "touched": float(touched)}


def hta(trace: str) -> Answer:
    """Reads the trace, or a folder of them, with HolisticTraceAnalysis, then its breakdown and overlap."""
    from hta.trace_analysis import TraceAnalysis

    started = time.perf_counter()
    analysis = TraceAnalysis(trace_dir=trace) if Path(trace).is_dir() else TraceAnalysis(trace_files={0: trace})
    loaded = time.perf_counter()
    analysis.get_temporal_breakdown(visualize=False)
    with contextlib.suppress(Exception):  # it fails on traces without communication
        analysis.get_comm_comp_overlap(visualize=False)
    return {"seconds": time.perf_counter() - started, "load_seconds": loaded - started}


def floor(trace: str) -> Answer:
    """Decompresses the trace and does nothing with it."""
    from tracekit.read.sources import opened, trace_files

    started, size = time.perf_counter(), 0
    with opened(trace_files([trace])[0]) as stream:
        while block := stream.read(1 << 20):
            size += len(block)
    return {"seconds": time.perf_counter() - started, "json_bytes": float(size)}


CONTENDERS: dict[str, Callable[[str], Answer]] = {"floor": floor, "tracekit": tracekit, "cached": cached, "hta": hta}


def in_own_process(
    contender: str, trace: Path, cache: str, *, module: str = "benchmarks.reading", python: str = sys.executable
) -> Answer:
    """One contender's answer, with its process's peak memory; Failed where it ends without one."""
    command = [python, "-m", module, "--contender", contender, str(trace.resolve())]
    told = subprocess.run(command, env={**os.environ, "TRACEKIT_CACHE": cache}, capture_output=True, text=True)
    if told.returncode:
        raise Failed(f"{contender} failed on {trace}:\n{told.stderr[-2000:]}")
    answer: Answer = json.loads(told.stdout.splitlines()[-1])
    return answer


def tell(contender: Callable[[str], Answer], trace: str) -> None:
    """Prints a contender's answer, from a process of its own: all that it prints itself is dropped."""
    with contextlib.redirect_stdout(io.StringIO()):
        answer = contender(trace)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({**answer, "peak_bytes": peak}))


def measured(trace: Path, repeat: int) -> dict[str, Answer]:
    """Each contender's fastest answer of some; they take turns, so that a busy machine is busy for all."""
    best: dict[str, Answer] = {}
    for _ in range(repeat):
        with tempfile.TemporaryDirectory() as cache:
            for contender in CONTENDERS:
                answer = in_own_process(contender, trace, cache)
                if contender not in best or answer["seconds"] < best[contender]["seconds"]:
                    best[contender] = answer
    return best


def large_traces() -> Iterator[Path]:
    """The real traces with more than 30 MB of JSON."""
    root = Path(os.environ.get("TRACEKIT_REAL_TRACES", "../shared/traces"))
    for trace in sorted(root.rglob("*.json.gz")) if root.is_dir() else []:
        if floor(str(trace))["json_bytes"] > LARGE_BYTES:
            yield trace


def table(answers: dict[str, dict[str, Answer]]) -> str:
    """The answers as a Markdown table, ratios first."""
    head = [
        "trace",
        "JSON MB",
        "events",
        "times HTA's speed",
        "times the floor",
        "cached: times faster",
        "peak MB",
        "limit MB",
    ]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name, best in answers.items():
        ours, events = best["tracekit"], best["tracekit"]["events"]
        cells = [
            name, f"{best['floor']['json_bytes'] / 1e6:.0f}", f"{events:,.0f}",
            f"{best['hta']['seconds'] / ours['seconds']:.1f}", f"{ours['seconds'] / best['floor']['seconds']:.1f}",
            f"{ours['load_seconds'] / best['cached']['seconds']:.1f}", f"{ours['peak_bytes'] / 1e6:.0f}",
            f"{(AIM_BASE_BYTES + AIM_BYTES_PER_EVENT * events) / 1e6:.0f}",
        ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    aims = f"Aims: {AIM_TIMES_HTA} times HTA's speed, cached {AIM_TIMES_CACHED} times faster, peak within the limit."
    return "\n".join([*lines, "", aims])


def main() -> None:
    """Prints the table, or as a contender's own process its answer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", type=Path, metavar="TRACE")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--contender", choices=CONTENDERS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.contender:
        tell(CONTENDERS[asked.contender], str(asked.traces[0]))
        return
    with tempfile.TemporaryDirectory() as folder:
        traces = asked.traces or list(large_traces()) or [made_trace.write(Path(folder) / "made.json.gz")]
        try:
            print(table({trace.name: measured(trace, asked.repeat) for trace in traces}))
        except Failed as why:
            sys.exit(str(why))


if __name__ == "__main__":
    main()
