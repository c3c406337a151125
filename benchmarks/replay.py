"""What does a replay cost: the graph, the replay as measured, and every what-if?

    python -m benchmarks.replay [--ranks 64] [--events 50000] [--steps 10]

Makes up a job (tensor groups of eight that reduce after every ten kernels, a gradient reduction of all ranks now and
then, operators and launches on the host), keeps each rank's tables as Parquet like the cache does, and asks for all
that `tracekit whatif` shows. Each size in a process of its own; memory is the peak of that process and, where there are
several, of the largest worker. The aim is half of what the whole diagnosis may take, 30 s and 4 GB at 64 ranks of
50,000 events over 10 steps on two cores, and a time that grows like the number of events.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

AIM_SECONDS, AIM_BYTES = 30.0, 4 * 10**9
GROUP, KERNELS, OPERATORS = 8, 10, 3
"""Ranks of a tensor group, kernels between its calls, operators for each kernel."""
KERNEL_NS, TRANSFER_NS, AHEAD_NS = 20_000, 15_000, 2_000_000


@dataclass(frozen=True)
class Kept:
    """One rank's tables as Parquet files."""

    folder: str
    rank: int

    def open(self, name: str) -> pd.DataFrame:
        return pd.read_parquet(Path(self.folder) / f"{self.rank}.{name}.parquet")


def made_run(folder: str, ranks: int, events: int, steps: int):  # type: ignore[no-untyped-def]
    """The made-up job's run."""
    from tracekit.model import CALLS, NOTES, RANKS, STEPS, Run, table
    from tracekit.read.load import _Mapper
    from tracekit.read.workers import Workers

    slots = events // (KERNELS * (2 + OPERATORS) + 2)
    per_step = slots // steps
    slots = per_step * steps
    calls, step_rows = [], []
    slot_ns = KERNELS * KERNEL_NS * 11 // 10 + TRANSFER_NS
    for rank in range(ranks):
        calls.append(_write(folder, rank, ranks, slots, per_step, slot_ns))
        step_rows += [
            (rank, 0, step, AHEAD_NS + step * per_step * slot_ns, AHEAD_NS + (step + 1) * per_step * slot_ns, True)
            for step in range(steps)
        ]
    told = pd.DataFrame({
        "rank": range(ranks), "window": 0, "file": "", "device": "cuda:0", "backend": "nccl", "world_size": ranks,
        "clock_offset_ns": 0, "clock_error_ns": 0, "events": events, "dropped": 0,
    }).reindex(columns=list(RANKS))  # fmt: skip
    unset = {name: 0 for name in RANKS if RANKS[name] == "int64"}
    every = pd.concat(calls, ignore_index=True).reindex(columns=list(CALLS)).astype(CALLS)
    kept = {(rank, 0): Kept(folder, rank) for rank in range(ranks)}
    mapper = _Mapper(Workers(), ranks * events)
    return Run("made", told.fillna(unset).astype(RANKS), table(STEPS, step_rows), every, table(NOTES), kept, mapper)


def _write(folder: str, rank: int, ranks: int, slots: int, per_step: int, slot_ns: int) -> pd.DataFrame:
    """Writes one rank's tables and gives its calls."""
    from tracekit.model import EVENTS, NO_TIME

    rng = np.random.default_rng(rank)
    slot = np.repeat(np.arange(slots), KERNELS)
    length = (KERNEL_NS * rng.uniform(0.9, 1.05, len(slot))).astype(np.int64).reshape(slots, KERNELS)
    end = np.cumsum(length, axis=1) + AHEAD_NS + np.arange(slots)[:, None] * slot_ns
    start = end - length
    call_start = end[:, -1] + 2000
    call_end = AHEAD_NS + np.arange(1, slots + 1) * slot_ns - 2000
    launch = np.arange(slots * KERNELS).reshape(slots, KERNELS) * (slot_ns // (KERNELS + 1))
    call_launch = launch[:, -1] + 1000
    number = np.arange(slots * (KERNELS + 1)) + 1
    step = np.arange(slots) // per_step

    def rows(**columns: object) -> pd.DataFrame:
        frame = pd.DataFrame(columns).reindex(columns=list(EVENTS))
        return frame.astype({**EVENTS, "bytes": "Int64"})

    names = np.array([f"kernel_{nth}" for nth in range(40)], object)
    compute = rows(
        kind="compute", name=names[rng.integers(0, 40, slots * KERNELS)], lane="0/7", step=np.repeat(step, KERNELS),
        start_ns=start.ravel(), end_ns=end.ravel(), launch_ns=launch.ravel(), correlation=number[: slots * KERNELS],
    )  # fmt: skip
    comm = rows(
        kind="comm", name="ncclDevKernel_AllReduce", lane="0/20", step=step, start_ns=call_start, end_ns=call_end,
        launch_ns=call_launch, correlation=number[slots * KERNELS :], operation="all_reduce",
    )  # fmt: skip
    all_launches = np.concatenate((launch.ravel(), call_launch))
    launches = rows(
        kind="launch", name="cudaLaunchKernel", lane="9/1", step=np.concatenate((np.repeat(step, KERNELS), step)),
        start_ns=all_launches, end_ns=all_launches + 3000, launch_ns=NO_TIME, correlation=number,
    )  # fmt: skip
    begun = np.repeat(launch.ravel(), OPERATORS) - 1000 - 500 * np.tile(np.arange(OPERATORS), slots * KERNELS)
    operators = rows(
        kind="operator", name=np.where(np.arange(len(begun)) % 2, "aten::mm", "aten::linear"), lane="9/1",
        step=np.repeat(step, KERNELS * OPERATORS), start_ns=begun, end_ns=begun + 5000, launch_ns=NO_TIME,
        correlation=0,
    )  # fmt: skip
    for name, parts in (("work", [compute, comm]), ("host", [launches, operators])):
        frame = pd.concat(parts).sort_values("start_ns", kind="stable", ignore_index=True)
        frame.astype(dict.fromkeys(("kind", "name", "lane", "operation"), "category")).to_parquet(
            Path(folder) / f"{rank}.{name}.parquet"
        )
    first, of_all = rank // GROUP * GROUP, np.arange(slots) % 16 == 15
    groups = ranks // GROUP + 1
    match = np.arange(slots) * groups + np.where(of_all, groups - 1, rank // GROUP)
    return pd.DataFrame({
        "rank": rank, "window": 0, "step": step, "group": np.where(of_all, "dp", f"tp {first}"), "op": "all_reduce",
        "seq": pd.array(np.arange(slots), "Int64"), "bytes": pd.array(np.where(of_all, 1 << 24, 1 << 20), "Int64"),
        "dtype": "Float", "algorithm": "", "protocol": "", "lane": "0/20", "start_ns": call_start, "end_ns": call_end,
        "peer": pd.array([None] * slots, "Int64"), "match": pd.array(match, "Int64"), "how": "seq", "comms_id": None,
        "group_size": pd.array(np.where(of_all, ranks, GROUP), "Int64"),
        "group_ranks": np.where(of_all, str(list(range(ranks))), str(list(range(first, first + GROUP)))),
        "device_work": True, "arrival_ns": pd.array([None] * slots, "Int64"),
    })  # fmt: skip


def replayed(ranks: int, events: int, steps: int) -> dict[str, float]:
    """Seconds for the graph and for the answers, and what came of it."""
    from tracekit.analysis import Analysis

    with tempfile.TemporaryDirectory() as folder:
        analysis = Analysis(made_run(folder, ranks, events, steps))
        started = time.perf_counter()
        analysis["places"]
        placed = time.perf_counter()
        graph = analysis.replay.graph
        built = time.perf_counter()
        told = analysis.whatif
        return {
            "places_seconds": placed - started, "graph_seconds": built - placed,
            "answer_seconds": time.perf_counter() - built, "nodes": graph.nodes, "edges": len(graph.src),
            "scenarios": len(told.changes) + len(told.by_rank) + len(told.by_class) + 4,
            "error_frac": told.replay_error_frac,
        }  # fmt: skip


def in_own_process(ranks: int, events: int, steps: int) -> dict[str, float]:
    """The same, with the peak memory."""
    command = [sys.executable, "-m", "benchmarks.replay", "--one", str(ranks), str(events), str(steps)]
    told = subprocess.run(command, capture_output=True, text=True)
    if told.returncode:
        sys.exit(told.stderr[-2000:])
    answer: dict[str, float] = json.loads(told.stdout)
    return answer


def main() -> None:
    """Prints a table, or as a process of its own its answer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--events", type=int, default=50_000)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--one", nargs=3, type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        answer = replayed(*asked.one)
        peak = sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        print(json.dumps({**answer, "peak_bytes": peak * 1024}))
        return
    print("| ranks | events a rank | nodes | edges | graph, s | answers, s | scenarios | peak MB | error |")
    print("|---" * 9 + "|")
    for ranks, events in (
        (asked.ranks // 4, asked.events),
        (asked.ranks, asked.events // 4),
        (asked.ranks, asked.events),
    ):
        one = in_own_process(ranks, events, asked.steps)
        print(
            f"| {ranks} | {events:,} | {one['nodes']:,.0f} | {one['edges']:,.0f} | {one['graph_seconds']:.1f} "
            f"| {one['answer_seconds']:.1f} | {one['scenarios']:.0f} | {one['peak_bytes'] / 1e6:,.0f} "
            f"| {one['error_frac']:.2%} |",
            flush=True,
        )
    print(f"\nAim: {AIM_SECONDS:.0f} s and {AIM_BYTES / 1e6:,.0f} MB at 64 ranks of 50,000 events.")


if __name__ == "__main__":
    main()
