"""How right are tracekit's verdicts? Simulated jobs with one fault each, and healthy ones.

    python -m benchmarks.accuracy --diagnosis [--seeds 2] [--jobs 2] [--write]

Every fault of the simulator × layouts × sizes × seeds: is the right rank named, the right cause, and is the cost that
of the job simulated again without the fault? Whatever else is found is false, unless the healthy job of the same layout
has it by its own nature (bubble, exposed communication, unequal stages), as the simulator's account shows.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tracekit import Analysis, load
from tracekit.model import Finding
from tracekit.simulate import Truth, simulate
from tracekit.simulate.job import job_of

MODEL = {"preset": "megatron-1.7b", "layers": 16, "hidden": 1536, "heads": 12, "vocabulary": 8192}
NOISE = {"compute": 0.02, "transfer": 0.05, "host": 0.1, "ends_us": 2}
STEPS = 8
LAYOUTS: Mapping[str, Mapping[str, Any]] = {
    "ddp": {"axes": "dp 4"},
    "ddp, accumulation": {"axes": "dp 4", "microbatches": 2},
    "fsdp": {"axes": "fsdp 4"},
    "dp × tp": {"axes": "dp 2 x tp 2"},
    "pp": {"axes": "pp 4", "microbatches": 8, "schedule": "1f1b"},
    "dp × pp": {"axes": "dp 2 x pp 4", "microbatches": 8, "schedule": "1f1b"},
    "dp × tp × pp": {"axes": "dp 2 x tp 2 x pp 2", "microbatches": 4, "schedule": "1f1b"},
}
SIZES = (0.05, 0.1, 0.2, 0.5)
CAUSES = {
    "slow-device": "device", "slow-host": "host", "data-loading": "data loading",
    "garbage-collection": "garbage collection", "slow-link": "link", "stage-imbalance": "work",
    "length-imbalance": "work", "exposed-communication": "overlap", "synchronizing-calls": "synchronisation",
    "late-transfers": "link", "skewed-clocks": "clock", "incomplete-data": "recording",
}  # fmt: skip
BY_NATURE = ("pipeline-bubble", "exposed-communication", "stage-imbalance")
"""What a layout costs without any fault."""
COST_NOTHING = ("clock", "recording")
COUNTS_FRAC, CAN_BE_SEEN_FRAC = 0.05, 0.01


@dataclass(frozen=True)
class Verdict:
    """What was put in, what it cost, and what was made of it; None where the question does not arise."""

    layout: str
    kind: str
    size: float
    cause: str
    cost_frac: float
    rank_right: bool | None
    cause_right: bool | None
    told: str
    cost_error: float | None
    false: tuple[str, ...]


def fault_texts(layout: str, seed: int, sizes: Sequence[float] = SIZES) -> Iterator[tuple[str, float, str]]:
    """Kind, size as a share, and spelling of each fault that the layout can have."""
    step_ms, calls = _healthy(layout)
    ranks, microbatches = job_of(_job(layout, 0)).ranks, LAYOUTS[layout].get("microbatches", 1)
    rank = 1 + seed % (ranks - 1)
    per_layer = MODEL["layers"] * microbatches / (LAYOUTS[layout]["axes"].count("pp") * 3 + 1)
    for frac in sizes:
        yield "slow_device", frac, f"slow_device:{rank}:{1 + frac:g}"
        yield "throttle", frac, f"throttle:{rank}:{1 + frac:g}"
        yield "slow_host", frac, f"slow_host:{rank}:{_ms(frac * step_ms / per_layer)}"
        yield "data_loader", frac, f"data_loader:{rank}:{_ms(frac * step_ms / microbatches)}"
        yield "gc", frac, f"gc:{rank}:{_ms(2 * frac * step_ms)}"
        yield "slow_link", frac, f"slow_link:{rank}:{_ms(frac * step_ms / calls)}"
        yield "degraded_link", frac, f"degraded_link:{rank}:{1 + 10 * frac:g}"
        yield "late_start", frac, f"late_start:{rank}:{_ms(frac * step_ms)}"
        yield "length_imbalance", frac, f"length_imbalance::{frac:g}"
    if "pp" in LAYOUTS[layout]["axes"]:
        yield from (
            ("stage_imbalance", frac, f"stage_imbalance:{rank}:{layers}") for frac, layers in ((0.25, 1), (0.5, 2))
        )
    yield "no_overlap", 1.0, "no_overlap"
    yield "sync_points", 1.0, "sync_points"
    yield "clock_skew", 1.0, f"clock_skew:{rank}:5"
    yield "clock_drift", 1.0, f"clock_drift:{rank}:200"
    yield "lost_events", 1.0, f"lost_events:{rank}:0.02"
    yield "missing_ranks", 1.0, f"missing_ranks:{rank}"


def _ms(value: float) -> str:
    return f"{max(value, 0.001):.3f}"


def _job(layout: str, seed: int, *faults: str) -> dict[str, Any]:
    return {
        "model": MODEL, "layout": dict(LAYOUTS[layout]), "steps": STEPS, "seed": seed, "noise": dict(NOISE),
        "faults": list(faults),
    }  # fmt: skip


@cache
def _healthy(layout: str) -> tuple[float, float]:
    """Milliseconds of a healthy step, and how many calls a rank makes in it."""
    truth = simulate(job_of(_job(layout, 0))).truth
    return truth.step_ns / 1e6, len(truth.calls) / truth.job.ranks / STEPS


@cache
def _by_nature(layout: str) -> frozenset[str]:
    """What the healthy job costs by its own nature, as the simulator counts."""
    truth = simulate(job_of(_job(layout, 0))).truth
    found = {"pipeline-bubble"} if truth.theory and truth.theory["of_makespan"] >= 0.1 else set()
    if truth.steps["exposed_comm_ns"].mean() >= CAN_BE_SEEN_FRAC * truth.step_ns:
        found.add("exposed-communication")
    if len(truth.pipeline) and truth.pipeline["imbalance_ns"].mean() >= CAN_BE_SEEN_FRAC * truth.step_ns:
        found.add("stage-imbalance")
    return frozenset(found)


def diagnosed(job: Mapping[str, Any]) -> tuple[Truth, tuple[Finding, ...]]:
    """The truth of a job and the findings on its traces."""
    with tempfile.TemporaryDirectory() as folder:
        truth = simulate(job_of(job), folder).truth
        return truth, Analysis(load(folder, cache=False)).findings


def judged(layout: str, seed: int, fault: tuple[str, float, str] | None) -> Verdict:
    """The verdict on one job."""
    truth, found = diagnosed(_job(layout, seed, *([fault[2]] if fault else [])))
    told = " + ".join(f"{one.code}{list(one.ranks) or ''}" for one in found if one.code != "cannot-tell")
    if fault is None or not truth.faults:
        false = tuple(one.code for one in found if one.cost_ns is not None and one.code not in _by_nature(layout))
        return Verdict(layout, "healthy", 0, "none", 0, None, None, told, None, false)
    [injected] = truth.faults
    untold = injected.cause == "link" and _meet_all_alike(truth)
    cost_frac = injected.cost_ns / truth.step_ns
    of_cause = [one for one in found if CAUSES.get(one.code) == injected.cause and _of_kind(one, fault[0])]
    named = [one for one in found if set(one.ranks) == set(injected.ranks)]
    right = [one for one in of_cause if one in named or not injected.ranks or one.code == "incomplete-data"]
    costs = [one.cost_ns for one in right if one.cost_ns is not None]
    known = {*_by_nature(layout), *(["exposed-communication"] if injected.cause == "link" else [])}
    false = tuple(one.code for one in found if one.cost_ns is not None and one not in right and one.code not in known)
    if untold:
        return Verdict(layout, fault[0], fault[1], injected.cause, cost_frac, None, None, told, None, false)
    error = abs(costs[0] - injected.cost_ns) / injected.cost_ns if costs and injected.cost_ns > 0 else None
    return Verdict(
        layout, fault[0], fault[1], injected.cause, cost_frac, bool(named) if injected.ranks else None, bool(right),
        told, error, false,
    )  # fmt: skip


def _of_kind(finding: Finding, kind: str) -> bool:
    """Whether unequal work is told as what it is, of stages or of samples."""
    work = kind.replace("_", "-")
    return CAUSES[finding.code] != "work" or finding.code == work


def _meet_all_alike(truth: Truth) -> bool:
    """Whether all calls are of all ranks, so that a slow link slows all of them alike and nothing tells whose it is."""
    return bool((truth.calls.groupby(["axis", "group"])["rank"].nunique() == truth.job.ranks).all())


def grid(seeds: int, sizes: Sequence[float] = SIZES) -> Iterator[tuple[str, int, tuple[str, float, str] | None]]:
    """All jobs: for each layout and seed healthy ones, as many as there are sizes, and one with each fault."""
    for layout in LAYOUTS:
        for seed in range(seeds):
            yield from ((layout, 100 * seed + nth, None) for nth in range(len(sizes)))
            yield from ((layout, seed, fault) for fault in fault_texts(layout, seed, sizes))


def verdicts(seeds: int, jobs: int, sizes: Sequence[float] = SIZES) -> list[Verdict]:
    """The verdicts on all jobs of the grid."""
    asked = list(grid(seeds, sizes))
    if jobs == 1:
        return [judged(*one) for one in asked]
    with ProcessPoolExecutor(jobs) as pool:
        return list(pool.map(_judged, asked, chunksize=4))


def _judged(asked: tuple[str, int, tuple[str, float, str] | None]) -> Verdict:
    return judged(*asked)


def table(told: Sequence[Verdict]) -> str:
    """The verdicts by fault, and what was told instead, as Markdown."""
    lines = [
        "| fault | jobs | cost 5 % or more | rank right | cause right | cost off, median | 90 % | falsely found |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    kinds = dict.fromkeys(one.kind for one in told)
    lines += [_line(kind, [one for one in told if one.kind == kind]) for kind in kinds]
    lines.append(_line("all that cost", [one for one in told if one.cause not in ("none", *COST_NOTHING)]))
    return "\n".join([*lines, "", *_confusion(told)])


def section(told: Sequence[Verdict], seeds: int, asked: Sequence[float] = SIZES) -> str:
    """The section of docs/accuracy.md."""
    sizes = ", ".join(f"{size:.0%}" for size in asked)
    words = "" if tuple(asked) == SIZES else f" --sizes {' '.join(map(str, asked))}"
    return f"""## Diagnosis: one fault put in, who and what is named

`python -m benchmarks.accuracy --diagnosis --seeds {seeds}{words} --write`: {len(told)} simulated jobs of {STEPS}
steps in {len(LAYOUTS)} layouts ({", ".join(LAYOUTS)}), kernels that vary by {NOISE["compute"]:.0%}, transfers by
{NOISE["transfer"]:.0%}, the host by {NOISE["host"]:.0%}; each with one fault, of {sizes}, or none.
Rank, cause and cost are judged for faults that cost {COUNTS_FRAC:.0%} of the step or more; those of clocks and of
recording cost nothing and are judged always. The cost is held to that of the same job simulated without the fault.
Falsely found is any other cause that is said to cost something, but for what the layout itself costs by the simulator's
account: bubble, exposed communication, unequal stages. Where every call is of all ranks (ddp, fsdp) a slow link slows
all alike: no trace tells whose link it is, or that it is one. It is told as exposed communication, and not judged.

{table(told)}"""


def _line(kind: str, mine: Sequence[Verdict]) -> str:
    costly = [one for one in mine if _counts(one)]
    errors = [one.cost_error for one in costly if one.cost_error is not None]
    cells = [
        kind, str(len(mine)), str(len(costly)), _share([one.rank_right for one in costly]),
        _share([one.cause_right for one in costly]),
        f"{np.median(errors):.1%}" if errors else "-", f"{np.quantile(errors, 0.9):.1%}" if errors else "-",
        _share([bool(one.false) for one in mine]),
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _counts(one: Verdict) -> bool:
    return one.cost_frac >= COUNTS_FRAC or one.cause in COST_NOTHING


def _share(answers: Iterable[bool | None]) -> str:
    told = [answer for answer in answers if answer is not None]
    return f"{sum(told) / len(told):.0%} of {len(told)}" if told else "-"


def _confusion(told: Sequence[Verdict]) -> Iterator[str]:
    """What was made of faults that cost enough and were not understood, and what was found falsely."""
    missed = Counter(
        (one.kind, one.layout, one.told or "nothing") for one in told
        if one.cause_right is False and _counts(one)
    )  # fmt: skip
    false = Counter((one.kind, one.layout, ", ".join(sorted(set(one.false)))) for one in told if one.false)
    for title, counted in (("Not understood", missed), ("Falsely found", false)):
        if counted:
            yield f"{title}:"
            yield ""
            for (kind, layout, what), count in sorted(counted.items()):
                yield f"- {kind} in {layout}, {count} times: {what}"
            yield ""
