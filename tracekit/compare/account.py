"""What a run's step is made of, small enough to be kept: parts that add up to the step, and what each rank does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec
import pandas as pd

from tracekit.analysis import Analysis
from tracekit.compare.attribution import attributed, complete_steps, gaps_before
from tracekit.errors import NotMeasured
from tracekit.idling import idle_by_cause
from tracekit.model import COMM, COMPUTE, MEMORY, RankTables, Run, table

IDLE = "idle"
UNTOLD = "not told why"
LEAST_FRAC = 1e-5
"""Kernels that take less of the step than this are one part together."""
REST = "(all others)"
GAPS = 50
CAUSES = {"cause": "str", "ns": "float64"}
KINDS = {COMPUTE: "compute_ns", COMM: "exposed_comm_ns", MEMORY: "exposed_memory_ns", IDLE: "idle_ns"}
"""Kinds of parts, and the breakdown's column that each kind's parts add up to."""

LARGEST = 2.0**63
"""No figure of a run is larger: nanoseconds and bytes are counted in 64 bits."""
Figure = Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=LARGEST)]
"""Figures as files may hold them."""


@dataclass(frozen=True)
class Part:
    """One kernel, call, kind of copy or cause of idling; means over the ranks and their complete steps.

    `ns` is what it adds to the step: all parts together are the step. `total_ns` is how long its calls run, each for
    itself. `nth_ns` is `ns` of the first, second, ... call of the step. `place` is after how much of the step's work
    (0 to 1) it comes first.
    """

    kind: str
    name: str
    shape: str = ""
    calls: Amount = 0.0
    ns: Figure = 0.0
    total_ns: Amount = 0.0
    place: Figure = 0.0
    nth_ns: tuple[Figure, ...] = ()

    @property
    def each_ns(self) -> float:
        """How long one call runs."""
        return self.total_ns / self.calls if self.calls else 0.0


@dataclass(frozen=True)
class RankPart:
    """One rank's step and what it is made of; `own_ns` is null where waits are not measured."""

    rank: int
    step_ns: Amount
    compute_ns: Amount
    exposed_comm_ns: Amount
    exposed_memory_ns: Amount
    idle_ns: Amount
    own_ns: Figure | None = None
    kernel_calls: Amount = 0.0


@dataclass(frozen=True)
class Account:
    """A run's step, split; `gaps` (idle time by the work that ends it) is another view of what is idle."""

    step_ns: Amount
    parts: tuple[Part, ...]
    ranks: tuple[RankPart, ...]
    gaps: tuple[Part, ...] = ()


def account_of(analysis: Analysis) -> Account:
    """The run's account; NotMeasured where it has no steps."""
    run = analysis.run
    ranks = _ranks(analysis)
    rows = run.map(attributed)
    count = len(run.sources)
    parts = [*_parts(rows, count), *_idle(run, count)]
    step_ns = sum(part.ns for part in parts)
    return Account(step_ns, _sorted(_gathered(parts, step_ns)), ranks, _gaps(run, count))


def _parts(rows: pd.DataFrame, ranks: int) -> list[Part]:
    """The ranks' rows as means over all of them: what a rank lacks counts as 0."""
    keys = ["kind", "name", "shape"]
    by_nth = rows.groupby([*keys, "nth"], sort=True)[["calls", "ns", "total_ns"]].sum() / ranks
    places = rows.groupby(keys)["place"].min()
    sums = by_nth.groupby(level=keys).sum()
    orders = by_nth["ns"].groupby(level=keys).agg(tuple)
    told = sums.assign(place=places, nth=orders).reset_index()
    return [
        Part(
            kind, name, shape, float(calls), float(ns), float(total_ns), float(place),
            tuple(round(float(one), 1) for one in nth),
        )
        for kind, name, shape, calls, ns, total_ns, place, nth in told.itertuples(index=False)
    ]  # fmt: skip


def _idle(run: Run, ranks: int) -> list[Part]:
    rows = run.map(_idle_of_rank)
    sums = rows.groupby("cause")["ns"].sum() / ranks
    return [Part(IDLE, str(cause), ns=float(ns)) for cause, ns in sums.items() if ns]


def _idle_of_rank(one: RankTables) -> pd.DataFrame:
    complete = complete_steps(one)
    if not len(complete):
        return table(CAUSES)
    kept = one.steps.index.isin(complete.index)
    if one.on_cpu:
        lengths = complete["end_ns"] - complete["start_ns"]
        busy = attributed(one)["ns"].sum()
        return table(CAUSES, [(UNTOLD, float(lengths.mean() - busy))])
    causes = {name: one.per_step(spans)[kept].mean() for name, spans in idle_by_cause(one).items()}
    names = [name.removesuffix("_ns").replace("_", " ") for name in causes]
    return table(CAUSES, zip(names, causes.values(), strict=True))


def _gaps(run: Run, ranks: int) -> tuple[Part, ...]:
    if (run.ranks["device"] == "cpu").all():
        return ()
    rows = run.map(gaps_before)
    sums = (rows.groupby("name")[["gaps", "ns"]].sum() / ranks).nlargest(GAPS, "ns")
    return tuple(
        Part("gap", str(name), "", float(count), float(ns), float(ns)) for name, count, ns in sums.itertuples()
    )


def _ranks(analysis: Analysis) -> tuple[RankPart, ...]:
    run = analysis.run
    columns = ["step_ns", *KINDS.values()]
    rows = _mean_of_ranks(analysis["breakdown"], run, columns)
    own: dict[int, float] = {}
    try:
        means = _mean_of_ranks(analysis["ranks"], run, ["own_ns"])["own_ns"]
        own = dict(zip(means.index.tolist(), means.tolist(), strict=True))
    except NotMeasured:
        pass
    calls = _calls_of_ranks(analysis)
    return tuple(
        RankPart(rank, step, compute, comm, memory, idle, own.get(rank), calls.get(rank, 0.0))
        for rank, (step, compute, comm, memory, idle) in zip(rows.index.tolist(), rows.to_numpy().tolist(), strict=True)
    )


def _calls_of_ranks(analysis: Analysis) -> dict[int, float]:
    """How many compute kernels (or operators) each rank runs per step."""
    rows = analysis["kernels"]
    compute = rows[rows["kind"] == COMPUTE]
    run = analysis.run
    steps = run.steps.groupby("rank")["complete"].agg(lambda complete: complete.sum() or len(complete))
    per_step = compute.groupby("rank")["calls"].sum() / steps
    return dict(zip(per_step.index.tolist(), per_step.fillna(0.0).tolist(), strict=True))


def _mean_of_ranks(rows: pd.DataFrame, run: Run, columns: list[str]) -> pd.DataFrame:
    """Means of each rank over its complete steps, or over all where it has none; windows count alike."""
    keys = [key for key in ("rank", "window", "step") if key in rows]
    told = rows.merge(run.steps[[*keys, "complete"]], on=keys)
    any_complete = told.groupby("rank")["complete"].transform("any")
    kept = told[told["complete"] | ~any_complete]
    return kept.groupby("rank")[columns].mean()


def _gathered(parts: list[Part], step_ns: float) -> list[Part]:
    """Tiny parts of a kind together, so that an account stays small."""
    large = [part for part in parts if part.ns >= LEAST_FRAC * step_ns or part.total_ns >= LEAST_FRAC * step_ns]
    held = {id(part) for part in large}
    for kind in KINDS:
        small = [part for part in parts if part.kind == kind and id(part) not in held]
        if small:
            sums = (sum(getattr(part, name) for part in small) for name in ("calls", "ns", "total_ns"))
            large.append(Part(kind, REST, "", *sums))
    return large


def _sorted(parts: list[Part]) -> tuple[Part, ...]:
    return tuple(sorted(parts, key=lambda part: (-part.ns, part.kind, part.name, part.shape)))
