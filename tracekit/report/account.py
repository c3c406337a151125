"""What the screen of `tracekit analyze` says, as plain values: an analysis reduced to means over complete steps."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pandas as pd

from tracekit.analysis import Analysis, measure_names
from tracekit.errors import NotMeasured
from tracekit.measures.breakdown import PARTS
from tracekit.model import Run


@dataclass(frozen=True)
class Facts:
    """What was read."""

    path: str
    files: int
    ranks: tuple[int, ...]
    world_size: int | None
    hosts: tuple[str, ...]
    devices: tuple[str, ...]
    backends: tuple[str, ...]
    windows: int
    steps: int
    complete_steps: int
    events: int
    dropped: int


@dataclass(frozen=True)
class NoteGroup:
    """The notes of one code: on which ranks, how often, and what the first of them says."""

    code: str
    severity: str
    ranks: tuple[int, ...]
    notes: int
    count: int
    message: str


def facts(run: Run) -> Facts:
    """What was read, over all ranks. Steps are told apart by number and window; complete ones are so on each rank."""
    ranks, steps = run.ranks, run.steps
    of_step = steps.groupby(["window", "step"])["complete"].all()
    return Facts(
        path=run.path,
        files=ranks["file"].nunique(),
        ranks=tuple(sorted(set(ranks["rank"].tolist()))),
        world_size=run.world_size,
        hosts=_told(ranks["host"]),
        devices=_told(ranks["device"]),
        backends=_told(ranks["backend"]),
        windows=ranks["window"].nunique(),
        steps=len(of_step),
        complete_steps=int(of_step.sum()),
        events=int(ranks["events"].sum()),
        dropped=int(ranks["dropped"].sum()),
    )


def _told(names: pd.Series) -> tuple[str, ...]:
    return tuple(sorted({str(name) for name in names.dropna() if name}))


def in_complete_steps(rows: pd.DataFrame, run: Run) -> pd.DataFrame:
    """The rows of a measure that belong to complete steps."""
    keys = [key for key in ("rank", "window", "step") if key in rows]
    complete = run.steps.loc[run.steps["complete"], keys]
    return rows.merge(complete, on=keys)


def rank_means(analysis: Analysis) -> pd.DataFrame:
    """The breakdown's mean per rank (and window, where there are several) over complete steps, the worst first.

    The worst is the rank with the most time of its own, `own_ns`: what is left of the step without waits for other
    ranks, or without exposed communication where waits are not measured (`waits_known` tells). A rank that the others
    wait for shows few waits, those that wait show many. Null for a rank of which no wait is known while others' are.
    `steps` is how many were averaged.
    """
    rows = in_complete_steps(analysis["breakdown"], analysis.run)
    keys = [key for key in ("rank", "window") if key in rows]
    per_rank = rows.groupby(keys)
    means = per_rank[["step_ns", *PARTS, "comm_ns", "overlap_ns"]].mean()
    means.insert(0, "steps", per_rank.size())
    if waits_known(analysis):
        means["own_ns"] = in_complete_steps(analysis["ranks"], analysis.run).groupby(keys)["own_ns"].mean()
    else:
        means["own_ns"] = means["step_ns"] - means["exposed_comm_ns"]
    return means.sort_values("own_ns", ascending=False, kind="stable").reset_index()


def waits_known(analysis: Analysis) -> bool:
    """Whether it is measured how long ranks wait for each other."""
    return _why_not(analysis, "ranks") is None


def notes_by_code(run: Run) -> list[NoteGroup]:
    """The run's notes, those of one code and severity together, in the order of the table (the gravest first).

    What is only for information tells its rank instead of its file.
    """
    groups = run.notes.groupby(["severity", "code"], sort=False)
    return [
        NoteGroup(
            code=str(code),
            severity=str(severity),
            ranks=tuple(sorted({int(rank) for rank in rows["rank"].dropna()})),
            notes=len(rows),
            count=int(rows["count"].sum()),
            message=_without_file(str(rows["message"].iloc[0]), run) if severity == "info" else rows["message"].iloc[0],
        )
        for (severity, code), rows in groups
    ]


def _without_file(message: str, run: Run) -> str:
    """The message without the name of a rank's file in front: the rank tells which it is."""
    name, colon, rest = message.partition(": ")
    return rest if colon and name in {re.split(r"[/\\]", file)[-1] for file in run.ranks["file"]} else message


def not_measured(analysis: Analysis) -> dict[str, str]:
    """Why each measure that the run has no input for is absent."""
    reasons = ((name, _why_not(analysis, name)) for name in measure_names())
    return {name: why for name, why in reasons if why is not None}


def _why_not(analysis: Analysis, name: str) -> str | None:
    try:
        analysis[name]
    except NotMeasured as why:
        return str(why)
    return None
