"""What does it cost to join many ranks' calls: groups, matches, clocks, waits?

    python -m benchmarks.matching [--ranks 64] [--calls 10000]

Makes up the calls of a job (all-reduces of all ranks and of groups of eight, with sequence numbers and without) and
joins them, then half of them, each in a process of its own. Memory is the process's peak, imports included. The aim is
10 s and 1 GB for 64 ranks of 10,000 calls, and a time that grows like the number of calls.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np
import pandas as pd

AIM_SECONDS, AIM_BYTES = 10.0, 10**9
GROUP = 8
CALL_NS, GAP_NS = 40_000, 60_000


def made_calls(ranks: int, calls: int, *, numbered: bool) -> pd.DataFrame:
    """The calls of a job: of four, one is of all ranks and three are of groups; each rank is late at random."""
    from tracekit.model import CALLS

    rng = np.random.default_rng(0)
    number = np.arange(calls)
    of_all = number % 4 == 0
    tables = []
    for rank in range(ranks):
        late_ns = rng.integers(0, GAP_NS // 2, calls)
        end_ns = number * (CALL_NS + GAP_NS) + GAP_NS + CALL_NS + rng.integers(0, 1000, calls)
        first = rank // GROUP * GROUP
        tables.append(pd.DataFrame({
            "rank": rank, "window": 0, "step": number // 100,
            "group": np.where(of_all, "world", f"tp{first}"), "op": "all_reduce",
            "seq": pd.array(np.where(of_all, number // 4, number) if numbered else [None] * calls, "Int64"),
            "bytes": pd.array(np.where(of_all, 1 << 20, 1 << 16), "Int64"), "dtype": "Float", "algorithm": "RING",
            "protocol": "LL", "lane": "0/20", "start_ns": number * (CALL_NS + GAP_NS) + late_ns, "end_ns": end_ns,
            "peer": pd.array([None] * calls, "Int64"), "match": pd.array([None] * calls, "Int64"), "how": "none",
            "comms_id": None, "group_size": pd.array(np.where(of_all, ranks, GROUP), "Int64"),
            "group_ranks": np.where(of_all, str(list(range(ranks))), str(list(range(first, first + GROUP)))),
            "device_work": True, "arrival_ns": pd.array([None] * calls, "Int64"),
        }))  # fmt: skip
    return pd.concat(tables, ignore_index=True).astype(CALLS)


def joined(ranks: int, calls: int, *, numbered: bool) -> dict[str, float]:
    """Seconds for matching with clocks, and for waits, and how many calls found their members."""
    from tracekit.model import NOTES, RANKS, STEPS, Run, table
    from tracekit.read.collectives import match
    from tracekit.waiting import with_waits

    rows = made_calls(ranks, calls, numbered=numbered)
    started = time.perf_counter()
    matched, clocks, _ = match(rows, range(ranks), dict.fromkeys(range(ranks)), frozenset())
    found = time.perf_counter()
    told = [
        (rank, 0, "", None, "cuda:0", "nccl", ranks, clock.offset_ns, clock.error_ns, None, 0, 0, None)
        for rank, clock in clocks.items()
    ]
    run = Run("made", table(RANKS, told), table(STEPS), matched, table(NOTES), {})
    known = with_waits(run).calls["wait_ns"].notna()
    return {
        "match_seconds": found - started, "wait_seconds": time.perf_counter() - found,
        "matched_frac": float(known.mean()),
    }  # fmt: skip


def in_own_process(ranks: int, calls: int, numbered: bool) -> dict[str, float]:
    """The same, with the process's peak memory."""
    command = [sys.executable, "-m", "benchmarks.matching", "--one", str(ranks), str(calls), str(int(numbered))]
    told = subprocess.run(command, capture_output=True, text=True)
    if told.returncode:
        sys.exit(told.stderr[-2000:])
    answer: dict[str, float] = json.loads(told.stdout)
    return answer


def main() -> None:
    """Prints a table, or as a process of its own its answer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--one", nargs=3, type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        ranks, calls, numbered = asked.one
        answer = joined(ranks, calls, numbered=bool(numbered))
        print(json.dumps({**answer, "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
        return
    print("| ranks | calls a rank | matched by | matching, s | waits, s | peak MB | matched |\n" + "|---" * 7 + "|")
    for numbered in (True, False):
        for calls in (asked.calls // 2, asked.calls):
            one = in_own_process(asked.ranks, calls, numbered)
            how = "number" if numbered else "order and ends"
            print(
                f"| {asked.ranks} | {calls:,} | {how} | {one['match_seconds']:.1f} | {one['wait_seconds']:.1f} "
                f"| {one['peak_bytes'] / 1e6:.0f} | {one['matched_frac']:.1%} |"
            )
    print(
        f"\nAim: {AIM_SECONDS:.0f} s and {AIM_BYTES / 1e6:.0f} MB at 64 ranks of 10,000 calls, "
        "and twice the time for twice the calls."
    )


if __name__ == "__main__":
    main()
