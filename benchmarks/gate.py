"""How often does `tracekit check` cry wolf, and what does it find?

    python -m benchmarks.gate [--pairs 2000] [--simulated 5] [--workloads DIR] [--write]

Three parts, each with a table; `--write` puts them into docs/accuracy.md. Exit code 1 where an aim is missed.

1. Drawn step times, many pairs: steps vary by 1, 3 or 5 % and resemble their neighbours (first-order autoregression,
   0.3), runs of one commit by a fifth of that besides. Aims, where repeats tell the noise between runs: without a
   change under 1 % of the pairs fail at the default budgets; a step that is longer by twice the noise fails in at least
   95 %; one that is longer by 0.9 of the limit in less than 1 %.
2. Simulated jobs (tracekit.simulate), traces and all, whose kernels, transfers and host calls vary by as much.
3. `--workloads`: real trainings on the emulated device, healthy and with faults; profiled into the folder unless they
   are there already.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.sections import write_section
from tracekit import Analysis, load
from tracekit.compare import Account, Part, RankPart
from tracekit.gate.check import Verdict, check
from tracekit.gate.metrics import Series
from tracekit.gate.summary import SCHEMA, STEP, Summary, summary_of
from tracekit.report.gate_wording import change, metric_name
from tracekit.simulate import simulate
from tracekit.simulate.job import job_of

DOCUMENT, SECTION = Path(__file__).parent.parent / "docs" / "accuracy.md", "gate"
NOISES = (0.01, 0.03, 0.05)
LIKENESS, RUN_SHARE = 0.3, 0.2
STEP_NS, LIMIT = 100e6, 0.01
SAMPLES = ((1, 1, 10), (1, 1, 50), (3, 3, 50), (5, 5, 50), (10, 5, 50), (20, 3, 50))
"""Runs of the base, new runs, steps of each; the last is a history."""
AIMED = SAMPLES[3:]
"""The samples for which the aims hold: single runs cannot tell so little from noise between runs."""
FALSE_ALARMS, FOUND = 0.01, 0.95

Rows = list[list[str]]


@dataclass(frozen=True)
class Rates:
    """Of many pairs the shares with each verdict on the step."""

    worse: float
    unsure: float


def drawn(rng: np.random.Generator, steps: int, noise: float, change: float = 0.0) -> Summary:
    """A run as the gate keeps it, its step times from the noise model; nothing else differs."""
    wobble = rng.standard_normal(steps + 30)
    for at in range(1, len(wobble)):
        wobble[at] = LIKENESS * wobble[at - 1] + np.sqrt(1 - LIKENESS**2) * wobble[at]
    level = STEP_NS * (1 + change) * (1 + RUN_SHARE * noise * rng.standard_normal())
    times = tuple((level * (1 + noise * wobble[30:])).tolist())
    mean = float(np.mean(times))
    rank = RankPart(0, mean, mean, 0.0, 0.0, 0.0, mean, 1.0)
    account = Account(mean, (Part("compute", "gemm", "", 1.0, mean, mean),), (rank,))
    memory = Series("bytes", "down", (4e9,) * steps)
    metrics = {STEP: Series("ns", "down", times), "memory.peak_allocated_bytes": memory}
    return Summary(SCHEMA, "", "", "", "", steps, {}, metrics, account, ())


def rates(rng: np.random.Generator, sample: tuple[int, int, int], noise: float, change: float, pairs: int) -> Rates:
    """The verdicts of so many pairs at the default budgets."""
    old, now, steps = sample
    outcomes = [
        check([drawn(rng, steps, noise) for _ in range(old)], [drawn(rng, steps, noise, change) for _ in range(now)])
        for _ in range(pairs)
    ]
    worse = sum(one.exit_code == 1 for one in outcomes) / pairs
    return Rates(worse, sum(one.outcome == "unsure" for one in outcomes) / pairs)


def statistics(pairs: int) -> tuple[Rows, bool]:
    """A row per sample and noise; and whether the aims are met."""
    rng, rows, fine = np.random.default_rng(20260), [], True
    for sample in SAMPLES:
        for noise in NOISES:
            none = rates(rng, sample, noise, 0.0, pairs)
            below = rates(rng, sample, noise, 0.9 * LIMIT, pairs // 4)
            twice = rates(rng, sample, noise, 2 * noise, pairs // 4)
            if sample in AIMED:
                fine &= none.worse < FALSE_ALARMS and twice.worse >= FOUND and below.worse < FALSE_ALARMS
            rows.append([
                f"{sample[0]} + {sample[1]}", str(sample[2]), f"{noise:.0%}", f"{none.worse:.2%}", f"{none.unsure:.0%}",
                f"{below.worse:.2%}", f"{twice.worse:.1%}",
            ])  # fmt: skip
            print("  ", *rows[-1], sep="  ", file=sys.stderr, flush=True)
    return rows, fine


MODEL = {"layers": 4, "hidden": 1024, "heads": 16, "sequence": 1024, "vocabulary": 32000}
SLOWER = 1.5


def simulated(runs: int) -> tuple[Rows, bool]:
    """Jobs of two replicas: so many runs a side without a change, and with rank 1's device half as slow again."""
    rows, fine = [], True
    for noise in NOISES:
        base, same = ([_simulated(noise, 100 * side + n) for n in range(runs)] for side in (0, 1))
        slow = [_simulated(noise, 200 + n, f"slow_device:1:{SLOWER}") for n in range(runs)]
        alarms = sum(check(base, [one]).exit_code == 1 for one in same)
        single = sum(check([old], [one]).exit_code == 1 for old, one in zip(base, same, strict=True))
        found = [check([old], [one]) for old, one in zip(base, slow, strict=True)]
        right = sum(bool(one.reasons) and one.reasons[0].ranks == (1,) for one in found)
        fine &= alarms + single == 0 and all(one.exit_code == 1 for one in found)
        spread = np.std([np.mean(one.step_values) for one in base], ddof=1) / np.mean(base[0].step_values)
        rows.append([
            f"{noise:.0%}", f"{spread:.2%}", f"{alarms} of {runs}", f"{single} of {runs}",
            f"{sum(one.exit_code == 1 for one in found)} of {runs}", f"{right} of {runs}",
        ])  # fmt: skip
        print("  ", *rows[-1], sep="  ", file=sys.stderr, flush=True)
    return rows, fine


def _simulated(noise: float, seed: int, *faults: str) -> Summary:
    told = {
        "model": MODEL, "layout": "dp 2", "steps": 8, "seed": seed, "faults": list(faults),
        "noise": {"compute": noise, "transfer": noise, "host": noise},
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        simulate(job_of(told), folder)
        return replace(summary_of(Analysis(load(folder, cache=False)), commit="simulated"), label="simulated")


SMALL = (
    *("--ranks", "2", "--layers", "2", "--width", "64", "--sequence", "32", "--vocabulary", "64", "--wait", "0"),
    *("--warmup", "1", "--active", "6", "--device", "emulated"),
)
DDP = ("ddp", "--batch", "4", "--emulated-flops", "1e8", *SMALL)
LARGE = (
    *("ddp", "--ranks", "2", "--layers", "2", "--width", "768", "--batch", "2", "--sequence", "16"),
    *("--vocabulary", "64", "--wait", "0", "--warmup", "2", "--active", "6", "--device", "emulated"),
    *("--emulated-flops", "5e9", "--bucket-mb", "4"),
)
PIPELINE = ("pipeline", "--batch", "2", "--microbatches", "8", "--emulated-flops", "2e8", *SMALL)
FEWER = ("pipeline", "--batch", "8", "--microbatches", "2", "--emulated-flops", "2e8", *SMALL)
PAIRS = 5
HEALTHY = {"ddp": (DDP, 2 * PAIRS), "pipe": (PIPELINE, 2 * PAIRS), "ddp_large": (LARGE, PAIRS)}
"""What runs and how often; `ddp_large` has gradients that take a while to send, mostly hidden."""
FAULTY: Mapping[str, tuple[tuple[str, ...], str, str]] = {
    "ddp_no_overlap": ((*LARGE, "--fault", "no_overlap"), "ddp_large", "overlap"),
    "ddp_slow_device": ((*DDP, "--fault", "slow_device:1:1.5"), "ddp", "compute on rank 1"),
    "ddp_slow_host": ((*DDP, "--fault", "slow_host:1:150"), "ddp", "host on rank 1"),
    "pipe_slow_device": ((*PIPELINE, "--fault", "slow_device:1:1.5"), "pipe", "compute on rank 1"),
    "pipe_slow_host": ((*PIPELINE, "--fault", "slow_host:1:60"), "pipe", "host on rank 1"),
    "pipe_fewer": (FEWER, "pipe", "bubble"),
}
"""What runs, which healthy runs it is held against, and the reason that the verdict should give."""


def workloads(folder: Path) -> tuple[Rows, bool]:
    """Real runs: healthy ones against five others, then faulty ones."""
    rows, fine = [], True
    sides: dict[str, list[Summary]] = {}
    runs = [(n, name) for name, (_, count) in HEALTHY.items() for n in range(count)]
    for n, name in sorted(runs):  # in turn, so that a busy hour of the machine befalls all alike
        sides.setdefault(name, []).append(_profiled(folder / f"{name}{n}", HEALTHY[name][0]))
    for name, (_, count) in HEALTHY.items():
        for n in range(count - PAIRS):
            alone = check([sides[name][n]], [sides[name][PAIRS + n]])
            among = check(sides[name][:PAIRS], [sides[name][PAIRS + n]])
            fine &= alone.exit_code == 0 and among.exit_code == 0
            rows.append([f"{name}, healthy {n + 1}", _told(alone), _told(among), "", ""])
    for name, (options, base, reason) in FAULTY.items():
        run = _profiled(folder / name, options)
        alone, among = check([sides[base][0]], [run]), check(sides[base][:PAIRS], [run])
        given = [_reason(one.cause, one.ranks) for one in among.reasons[:2]]
        fine &= among.exit_code == 1 and reason in given
        rows.append([name, _told(alone), _told(among), reason, "; ".join(given)])
    return rows, fine


def _told(verdict: Verdict) -> str:
    """The exit code, the change of the step, and what else is worse."""
    changes = [
        f"{metric_name(one.metric)} {change(one)}"
        for one in verdict.gated
        if one.metric == STEP or one.outcome == "worse"
    ]
    return f"{verdict.exit_code}: {verdict.outcome}; {', '.join(changes)}"


def _reason(cause: str, ranks: Sequence[int]) -> str:
    return f"{cause} on rank {ranks[0]}" if len(ranks) == 1 else cause


def _profiled(folder: Path, options: Sequence[str]) -> Summary:
    if not (folder / "run.json").is_file():
        subprocess.run([sys.executable, "-m", "workloads", *options, "--out", str(folder)], check=True)
    return summary_of(Analysis(load(folder)), commit=folder.name)


def table(headings: Sequence[str], rows: Rows) -> Iterator[str]:
    """Lines of a Markdown table."""
    yield f"| {' | '.join(headings)} |"
    yield "|---" * len(headings) + "|"
    yield from (f"| {' | '.join(row)} |" for row in rows)


STATISTICS = """## Gate: false alarms and what is found

`python -m benchmarks.gate --write`, {pairs:,} drawn pairs a row without a change, a quarter of that with one. Steps
vary by the noise and resemble their neighbours (autoregression of 0.3), runs of one commit differ by a fifth of it
besides; default budgets. "Fails" is exit code 1. Below the limit (a step that is longer by 0.9 of it) no run should
fail: those that did are errors of the test, whose chance is set to half a percent. Single runs cannot tell such
changes from noise between runs, which is assumed there (1 % of the step, or half of what single steps vary).

"""
SIMULATED = """## Gate: simulated jobs

`python -m benchmarks.gate --write`. Two replicas, 8 steps, traces and all; kernels, transfers and host calls vary by
the noise.

"""
WORKLOADS = """## Gate: real runs

`python -m benchmarks.gate --workloads DIR --write`. Two ranks on the emulated device, 6 steps, on a machine of two
cores that others used meanwhile. Exit code, verdict, and what changed; reasons are those against five healthy runs.

"""


def main() -> int:
    """Runs the parts that are asked for and prints their tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=2000, help="drawn pairs of each kind; 0 for none")
    parser.add_argument("--simulated", type=int, default=5, help="simulated runs a side; 0 for none")
    parser.add_argument("--workloads", type=Path, default=None, metavar="DIR", help="real runs, kept here")
    parser.add_argument("--write", action="store_true", help=f"write the tables into {DOCUMENT.name}")
    asked = parser.parse_args()
    fine = True
    if asked.pairs:
        rows, met = statistics(asked.pairs)
        headings = (
            "runs (base + new)", "steps each", "noise", "no change: fails", "no change: unsure",
            "0.9 of the limit: fails", "twice the noise: fails",
        )  # fmt: skip
        text = STATISTICS.format(pairs=asked.pairs) + "\n".join(table(headings, rows))
        fine &= _shown("statistics", text, asked.write, met)
    if asked.simulated:
        rows, met = simulated(asked.simulated)
        headings = (
            "noise of kernels", "of runs' mean steps", f"no change, {asked.simulated} base runs: fails",
            "no change, single runs: fails", f"rank 1 {SLOWER} times as slow, single runs: fails", "names rank 1 first",
        )  # fmt: skip
        fine &= _shown("simulated", SIMULATED + "\n".join(table(headings, rows)), asked.write, met)
    if asked.workloads:
        rows, met = workloads(asked.workloads)
        headings = ("run", "against one healthy run", "against five", "reason expected", "reasons given")
        fine &= _shown("workloads", WORKLOADS + "\n".join(table(headings, rows)), asked.write, met)
    return 0 if fine else 1


def _shown(section: str, text: str, write: bool, met: bool) -> bool:
    print(f"\n{text}{'' if met else f'{chr(10)}Aims missed.'}")
    if write:
        write_section(DOCUMENT, f"{SECTION}: {section}", text)
    return met


if __name__ == "__main__":
    sys.exit(main())
