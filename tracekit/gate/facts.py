"""What two runs must have in common so that their times can be compared; and whether they have it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tracekit.analysis import Analysis
from tracekit.compare.account import REST, Account
from tracekit.errors import NotMeasured
from tracekit.model import PYTHON, RankTables, Run

RUN_FILE = "run.json"
"""What the workloads write beside their traces; any job may: the keys that are read are optional."""
SURE = 0.8
"""An axis of the layout counts if it is told by names, stages or transfers; not where operations had to tell it."""
LIKE_FRAC = 0.3
"""Of one job's work less than this is done by kernels that the other has, too: they are different jobs."""
JOB = "job"
TOLD = ("schedule", "micro-batches", "bucket bytes")
"""Facts that are told where they explain something, and that no comparison fails for: a commit may change them."""
PLAIN = {
    "workload": "workload", "emulated_flop_per_s": "emulated speed", "activation_checkpointing": "checkpointing",
    "samples_per_step": "batch", "device": "device",
}  # fmt: skip
"""Keys of run.json that are facts as they stand."""


@dataclass(frozen=True)
class Differs:
    """A fact in which two runs differ; `allow` is what `--allow` takes to compare them all the same."""

    allow: str
    base: str
    new: str


def facts_of(analysis: Analysis) -> dict[str, str]:
    """The run's facts by name: world size, layout, device, model, versions, profiler settings, as far as known."""
    run = analysis.run
    told = _of_run(run) | _of_profiler(run) | _of_layout(analysis) | _of_run_file(run)
    return {name: value for name, value in told.items() if value}


def _of_run(run: Run) -> dict[str, str]:
    ranks = run.ranks
    return {
        "world size": str(run.world_size or ranks["rank"].nunique()),
        "ranks with a file": str(ranks["rank"].nunique()),
        "device": _all_of(ranks["device"].map(_device)),
        "backend": _all_of(ranks["backend"]),
    }


def _device(name: object) -> str:
    """A device's kind: `cuda:3` and `cuda:0` are alike."""
    return str(name).partition(":")[0]


def _all_of(values: Any) -> str:
    return ", ".join(sorted({str(value) for value in values.dropna() if str(value)}))


def _of_profiler(run: Run) -> dict[str, str]:
    """What was recorded: Python's stacks and memory events make a run slower by themselves."""
    rows = run.map(_recorded)
    told = {"memory": "profile memory", "stacks": "profile stacks"}
    facts = {fact: "yes" if rows[name].any() else "no" for name, fact in told.items()}
    return facts | {"steps annotated": "no" if "no-steps" in set(run.notes["code"]) else "yes"}


def _recorded(one: RankTables) -> Any:
    import pandas as pd

    return pd.DataFrame({"memory": [len(one.allocations) > 0], "stacks": [bool((one.host["kind"] == PYTHON).any())]})


def _of_layout(analysis: Analysis) -> dict[str, str]:
    try:
        axes = analysis["layout"]
    except NotMeasured:
        return {}
    sure = axes[axes["confidence"] >= SURE]
    return {"layout": " x ".join(f"{axis} {size}" for axis, size in sure[["axis", "size"]].itertuples(index=False))}


def _of_run_file(run: Run) -> dict[str, str]:
    told = run_file(run)
    if told is None:
        return {}
    facts = {fact: str(told[key]) for key, fact in PLAIN.items() if told.get(key) is not None}
    for name in ("model", "profiler", "versions"):
        values = told.get(name)
        if isinstance(values, Mapping):
            facts |= {f"{name} {key}": str(value) for key, value in values.items() if key != "active"}
        elif values is not None:
            facts[name] = str(values)
    layout = told.get("layout")
    if isinstance(layout, Mapping):
        keys = {"schedule": "schedule", "microbatches": "micro-batches", "bucket_bytes": "bucket bytes"}
        facts |= {fact: str(layout[key]) for key, fact in keys.items() if layout.get(key) is not None}
    axes = layout.get("axes") if isinstance(layout, Mapping) else None
    if isinstance(axes, list):
        facts["layout"] = " x ".join(f"{one.get('name')} {one.get('size')}" for one in axes if isinstance(one, Mapping))
    return facts


def run_file(run: Run) -> dict[str, Any] | None:
    """What `run.json` beside the traces says; None where there is none that can be read."""
    folders = {Path(str(file)).parent for file in run.ranks["file"]} | {Path(run.path)}
    for folder in sorted(folders):
        try:
            told = msgspec.json.decode((folder / RUN_FILE).read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(told, dict):
            return told
    return None


def differing(base: Mapping[str, str], new: Mapping[str, str]) -> list[Differs]:
    """The facts that both runs tell and that differ."""
    return [
        Differs(name, base[name], new[name])
        for name in base
        if name in new and base[name] != new[name] and name not in TOLD
    ]


def likeness(base: Account, new: Account) -> float:
    """The share of the work (the time of kernels) that both runs do with kernels of the same names, by the less."""
    one, other = _shares(base), _shares(new)
    return sum(min(share, other.get(name, 0.0)) for name, share in one.items())


def _shares(account: Account) -> dict[str, float]:
    work: dict[str, float] = {}
    for part in account.parts:
        if part.kind in ("compute", "comm") and part.name != REST:
            work[part.name] = work.get(part.name, 0.0) + part.total_ns
    whole = sum(work.values())
    return {name: ns / whole for name, ns in work.items()} if whole else {}


def other_job(base: Account, new: Account) -> list[Differs]:
    """Says so where two runs do too little with the same kernels to be the same job."""
    alike = likeness(base, new)
    if alike >= LIKE_FRAC or not _shares(base) or not _shares(new):
        return []
    largest = [max(_shares(account), key=lambda name: _shares(account)[name]) for account in (base, new)]
    return [
        Differs(JOB, f"mostly {largest[0]}", f"mostly {largest[1]}; {alike:.0%} of the work is in the same kernels")
    ]
