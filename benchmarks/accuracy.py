"""How exact are tracekit's numbers? Simulated jobs, whose truth is known, and what `analyze` makes of their traces.

    python -m benchmarks.accuracy [--seeds 3] [--write]
    python -m benchmarks.accuracy --diagnosis [--seeds 1] [--jobs 2] [--write]

Simulates a grid of layouts and seeds, reads the traces, and holds the numbers to `truth.json`, which the simulator
made by an account of its own. Prints tables of the largest differences; `--write` puts them into docs/accuracy.md. Exit
code 1 unless without skewed clocks all are 0, and with them no wait is off by more than members of a call end apart.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks import diagnosis
from benchmarks.sections import write_section
from tracekit import Analysis, load
from tracekit.simulate import Truth, simulate
from tracekit.simulate.job import job_of
from tracekit.simulate.kineto import BASE_NS, ORIGIN_NS
from tracekit.waiting import with_waits

DOCUMENT, SECTION = Path(__file__).parent.parent / "docs" / "accuracy.md", "simulated"
SMALL = {"preset": "megatron-1.7b", "layers": 8, "hidden": 1024, "heads": 8}
NOISE = {"compute": 0.05, "transfer": 0.1, "host": 0.2}
PIPELINE = {"axes": "pp 4", "microbatches": 8}
LAYOUTS: Mapping[str, Mapping[str, Any]] = {
    "ddp": {"axes": "dp 4"},
    "ddp, accumulation": {"axes": "dp 2", "microbatches": 3},
    "zero-1": {"axes": "dp 4", "zero_stage": 1},
    "fsdp": {"axes": "fsdp 4"},
    "tp": {"axes": "tp 4"},
    "tp, sequence parallel": {"axes": "tp 4", "sequence_parallel": True},
    "pp, gpipe": {**PIPELINE, "schedule": "gpipe"},
    "pp, 1f1b": {**PIPELINE, "schedule": "1f1b"},
    "pp, interleaved": {**PIPELINE, "schedule": "interleaved", "stages_per_rank": 2},
    "pp, zero-bubble": {**PIPELINE, "schedule": "zero-bubble"},
    "pp, zbv": {**PIPELINE, "schedule": "zbv", "stages_per_rank": 2},
    "pp, dualpipev": {**PIPELINE, "schedule": "dualpipev", "stages_per_rank": 2},
    "dp × tp × pp": {"axes": "dp 2 x tp 2 x pp 2", "microbatches": 4},
    "fsdp × pp": {"axes": "fsdp 2 x pp 2", "microbatches": 4},
}
BEGIN_NS = BASE_NS + ORIGIN_NS
SKEW_MS, ENDS_US = 3.0, 2.0
"""With skew every second rank's clock is ahead by so much times its number, and members end so far apart."""
OUTSIDE_FRAC = 0.1
"""A clock's bar is a median deviation: of few calls it may be less than the clock is off, as are then all waits."""
AXIS_OF = {"mesh_dp": "data", "mesh_tp": "tensor", "mesh_pp": "pipeline", "embedding": "embedding"}
BREAKDOWN = [
    *("step_ns", "compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns", "comm_ns", "overlap_ns"),
]
IDLE = ["host_late_ns", "stream_wait_ns", "launch_latency_ns"]
CALLS = ["wait_ns", "transfer_ns", "bytes"]
BUBBLE = ["window_ns", "busy_ns", "bubble_ns", "warmup_ns", "steady_ns", "cooldown_ns"]
CAUSES = ["must_ns", "imbalance_ns", "jitter_ns", "transfer_ns"]


@dataclass(frozen=True)
class Difference:
    """The largest difference of a number from the truth, over so many values."""

    values: int
    largest: int

    def plus(self, other: Difference) -> Difference:
        """Both."""
        return Difference(self.values + other.values, max(self.largest, other.largest))


def described(layout: Mapping[str, Any], seed: int, *, skew: bool = False, steps: int = 3) -> dict[str, Any]:
    """A job of the grid, as a YAML file would hold it."""
    told: dict[str, Any] = {"model": SMALL, "layout": dict(layout), "steps": steps, "seed": seed, "noise": dict(NOISE)}
    told["host"] = {"sync_each_step": seed % 2 == 0}
    told["trace"] = {"calls_told_by": ("id", "seq", "order")[seed % 3]}
    if skew:
        ranks = job_of(told).ranks
        told["noise"] = {**NOISE, "ends_us": ENDS_US}
        told["faults"] = [f"clock_skew:{rank}:{SKEW_MS * rank}" for rank in range(1, ranks, 2)]
    return told


def tried(told: Mapping[str, Any], folder: Path) -> tuple[Analysis, Truth]:
    """The traces of a simulated job, read, and their truth."""
    done = simulate(job_of(dict(told)), folder)
    return Analysis(load(folder, cache=False)), done.truth


def differences(analysis: Analysis, truth: Truth) -> dict[str, Difference]:
    """Every number of the analysis that the truth tells, beside it; no clock may be skewed."""
    found = {**of_steps(analysis, truth), **of_calls(analysis, truth), **of_groups(analysis, truth)}
    return found | of_pipeline(analysis, truth) | of_layout(analysis, truth)


def of_steps(analysis: Analysis, truth: Truth) -> dict[str, Difference]:
    """Breakdown, overlap and idle time by cause; they need one rank's own clock only."""
    found = _columns("breakdown", analysis["breakdown"], truth.steps, ["rank", "step"], BREAKDOWN)
    return found | _columns("idle", analysis["idle"], truth.steps, ["rank", "step"], IDLE)


def of_calls(analysis: Analysis, truth: Truth) -> dict[str, Difference]:
    """Each call's wait, transfer and size, and each rank's own and waiting time."""
    if truth.calls.empty:
        return {}
    mine, theirs = paired_calls(analysis, truth)
    unmatched = int(mine["match"].isna().sum())
    found = {f"call {name}": _difference(mine[name].fillna(0), theirs[name]) for name in CALLS}
    found |= _columns("axis", analysis["exposed"], truth.axes, ["rank", "step", "axis"], ["comm_ns", "exposed_ns"])
    own = _columns("rank", analysis["ranks"], truth.steps, ["rank", "step"], ["own_ns", "wait_ns"])
    return {**found, "calls unmatched": Difference(len(mine), unmatched), **own}


def of_groups(analysis: Analysis, truth: Truth) -> dict[str, Difference]:
    """Sums by axis and operation: calls, bytes, waits, transfers."""
    if truth.calls.empty:
        return {}
    told = truth.calls.assign(op=truth.calls["op"].replace("recv", "send"))
    theirs = told.groupby(["axis", "op"])[["wait_ns", "transfer_ns"]].sum().reset_index()
    rows = analysis["collectives"]
    mine = rows.assign(axis=rows["group"].map(axis_of)).groupby(["axis", "op"])[["wait_ns", "transfer_ns"]].sum()
    return _columns("collectives", mine.reset_index(), theirs, ["axis", "op"], ["wait_ns", "transfer_ns"])


def of_pipeline(analysis: Analysis, truth: Truth) -> dict[str, Difference]:
    """Bubbles with their parts, and the schedule."""
    if truth.theory is None:
        return {}
    rows = analysis["pipeline"]
    keys = ["rank", "step", "stage", "action", "microbatch"]
    acted = truth.actions.rename(columns={"start_ns": "begin_ns"})
    spans = analysis["microbatches"].rename(columns={"start_ns": "begin_ns"})
    spans = spans.assign(begin_ns=spans["begin_ns"] - BEGIN_NS, end_ns=spans["end_ns"] - BEGIN_NS)
    found = _columns("action", spans, acted, keys, ["begin_ns", "end_ns", "busy_ns"])
    found |= _columns("pipeline", rows, truth.pipeline, ["rank", "step"], [*BUBBLE, *CAUSES])
    wrong = (rows["schedule"] != truth.theory["schedule"]) | (rows["theory_frac"] != truth.theory["of_makespan"])
    return {**found, "pipeline schedule": Difference(len(rows), int(wrong.sum()))}


def of_layout(analysis: Analysis, truth: Truth) -> dict[str, Difference]:
    """How many axes have another size or other groups than the job has."""
    layout = truth.job.layout
    theirs = {
        axis: "; ".join(" ".join(map(str, ranks)) for ranks in layout.groups(axis))
        for axis in ("data", "tensor", "pipeline") if layout.size(axis) > 1
    }  # fmt: skip
    rows = analysis["layout"]
    mine = dict(zip(rows["axis"], rows["groups"], strict=True))
    wrong = sum(mine.get(axis) != groups for axis, groups in theirs.items()) + len(set(mine) - set(theirs))
    return {"layout": Difference(len(theirs), wrong)}


def of_skewed(analysis: Analysis, truth: Truth) -> dict[str, Difference]:
    """Of a job with skewed clocks: waits by how many lie outside the clocks' error bars, and the largest error."""
    mine, theirs = paired_calls(analysis, truth)
    bars = analysis.run.ranks.set_index("rank")["clock_error_ns"].astype(float)
    bar = mine["rank"].map(bars) + mine["last_rank"].astype(float).map(bars)
    off = (mine["wait_ns"].astype(float) - theirs["wait_ns"]).abs()
    outside = int((off > bar.fillna(0)).sum())
    offsets = analysis.run.ranks.set_index("rank")["clock_offset_ns"]
    true_offsets = truth.ranks.set_index("rank")["clock_offset_ns"]
    wrong = (offsets.astype("int64") - true_offsets).abs()
    return {
        "waits outside the bar": Difference(len(mine), outside),
        "wait, ns off": Difference(len(mine), int(off.max())),
        "clock, ns off": Difference(len(wrong), int(wrong.max())),
        **of_steps(analysis, truth),
    }


def paired_calls(analysis: Analysis, truth: Truth) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The analysis's calls and the truth's, in the same order; an AssertionError where they are not the same calls."""
    calls = with_waits(analysis.run).calls
    calls = calls.assign(axis=calls["group"].map(axis_of))
    order = ["rank", "axis", "op", "peer", "start_ns", "end_ns", "bytes"]
    mine = calls.sort_values(order, ignore_index=True)
    theirs = truth.calls.sort_values(order, ignore_index=True)
    for column in ("rank", "axis", "op"):
        assert mine[column].tolist() == theirs[column].tolist(), f"other calls than there were, by {column}"
    return mine, theirs


def axis_of(group: str) -> str:
    """The axis of a group, by the name that the simulator gave it."""
    return next((axis for name, axis in AXIS_OF.items() if group.startswith(name)), group)


def _columns(
    what: str, mine: pd.DataFrame, theirs: pd.DataFrame, keys: list[str], names: list[str]
) -> dict[str, Difference]:
    both = theirs[[*keys, *names]].merge(mine[[*keys, *names]], on=keys, how="outer", suffixes=("", "_measured"))
    return {f"{what} {name}": _difference(both[f"{name}_measured"].fillna(-1), both[name].fillna(-1)) for name in names}


def _difference(mine: pd.Series, theirs: pd.Series) -> Difference:
    apart = (mine.astype("int64").reset_index(drop=True) - theirs.astype("int64").reset_index(drop=True)).abs()
    return Difference(len(apart), int(apart.max()) if len(apart) else 0)


# The table ------------------------------------------------------------------------------------------------------------

KINDS = ("breakdown", "idle", "axis", "rank", "call ", "calls", "collectives", "pipeline", "action", "layout")
TITLES = ("breakdown and overlap", "idle by cause", "exposed by axis", "own and wait", "calls: wait, transfer, bytes",
          "unmatched", "collectives", "bubble, parts, schedule", "forwards and backwards", "layout")  # fmt: skip
CAUSE_NS = 1
"""The bubble's causes are means, told in whole nanoseconds: a half may be rounded either way."""


def grid(seeds: int, *, skew: bool) -> Iterator[tuple[str, dict[str, Difference], int]]:
    """Each layout with its differences over all seeds, and how many events its traces hold."""
    for name, layout in LAYOUTS.items():
        whole: dict[str, Difference] = {}
        events = 0
        for seed in range(seeds):
            with tempfile.TemporaryDirectory(prefix="accuracy-") as folder:
                analysis, truth = tried(described(layout, seed, skew=skew), Path(folder))
                found = of_skewed(analysis, truth) if skew else differences(analysis, truth)
                events += int(analysis.run.ranks["events"].sum())
            for what, one in found.items():
                whole[what] = whole[what].plus(one) if what in whole else one
        yield name, whole, events


def exact_table(rows: list[tuple[str, dict[str, Difference], int]]) -> str:
    """The largest difference of each kind of number."""
    lines = ["| layout | events | " + " | ".join(TITLES) + " |", "|---|--:|" + "--:|" * len(TITLES)]
    for name, found, events in rows:
        cells = [_cell([one for what, one in found.items() if what.startswith(kind)]) for kind in KINDS]
        lines.append(f"| {name} | {events:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(found: list[Difference]) -> str:
    return f"{max(one.largest for one in found)} of {sum(one.values for one in found):,}" if found else ""


def skew_table(rows: list[tuple[str, dict[str, Difference], int]]) -> str:
    """How far clocks and waits are off, and how many waits lie outside their error bars."""
    lines = ["| layout | clock, µs off | wait, µs off | waits outside the bar | breakdown |", "|---|--:|--:|--:|--:|"]
    for name, found, _ in rows:
        outside, breakdown = found["waits outside the bar"], [found[f"breakdown {name}"].largest for name in BREAKDOWN]
        clock, wait = (found[f"{what}, ns off"].largest / 1000 for what in ("clock", "wait"))
        lines.append(
            f"| {name} | {clock:.2f} | {wait:.2f} | {outside.largest} of {outside.values:,} | {max(breakdown)} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Prints both tables; 1 where a number is off that must not be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, help="how many for each layout")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/accuracy.md")
    parser.add_argument("--diagnosis", action="store_true", help="instead: who and what is named for faults put in")
    parser.add_argument("--jobs", type=int, default=2, help="processes for --diagnosis")
    parser.add_argument("--sizes", type=float, nargs="+", default=diagnosis.SIZES, help="of the faults of --diagnosis")
    options = parser.parse_args()
    if options.diagnosis:
        return diagnosed(options.seeds, options.jobs, options.sizes, write=options.write)
    exact, skewed = (list(grid(options.seeds, skew=skew)) for skew in (False, True))
    tables = {"exact": exact_table(exact), "skewed": skew_table(skewed)}
    text = TEXT.format(**tables, seeds=options.seeds, skew=SKEW_MS, ends=ENDS_US)
    print(text)
    if options.write:
        write_section(DOCUMENT, SECTION, text)
    wrong = [
        f"{name}: {what}" for name, found, _ in exact for what, one in found.items() if one.largest > allowed(what)
    ]
    wrong += [f"{name}: {what}" for name, found, _ in skewed for what, one in found.items() if off_by_more(what, one)]
    for name in wrong:
        print(f"not exact: {name}", file=sys.stderr)
    return 1 if wrong else 0


def diagnosed(seeds: int, jobs: int, sizes: Sequence[float], *, write: bool) -> int:
    """Prints the table of verdicts."""
    text = diagnosis.section(diagnosis.verdicts(seeds, jobs, sizes), seeds, sizes)
    print(text)
    if write:
        write_section(DOCUMENT, "diagnosis", text)
    return 0


def off_by_more(what: str, one: Difference) -> bool:
    """Whether a number of a job with skewed clocks is off by more than it may be."""
    if what == "waits outside the bar":
        return one.largest > OUTSIDE_FRAC * one.values
    return one.largest > (ENDS_US * 1000 if what.endswith("ns off") else 0)


def allowed(what: str) -> int:
    """By how much a number may be off."""
    return CAUSE_NS if what in {f"pipeline {name}" for name in CAUSES} else 0


TEXT = """\
## Simulated jobs

`python -m benchmarks.accuracy --write`. Jobs of each layout with {seeds} seeds are simulated with noise, their traces
read, and their numbers held to the truth that the simulator keeps by an account of its own. Calls are told by Comms Id,
by Seq or by neither, and the host waits for the device in each step or never, by seed. A cell is the largest
difference, in nanoseconds (bytes, calls), of so many values.

{exact}

The same with every second rank's clock ahead by {skew} ms times its number, and members of a call that end up to
{ends} µs apart. The bar is that of both ranks' clocks, medians of deviations: a wait may lie outside, by less than the
members end apart. Breakdown and overlap need no other clock.

{skewed}
"""

if __name__ == "__main__":
    sys.exit(main())
