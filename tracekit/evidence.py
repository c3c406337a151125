"""How rules weigh what measures tell: over complete steps, against peers in the same role, and only what lasts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tracekit import axes
from tracekit.errors import NotMeasured
from tracekit.model import Asked, Run

LEAST_COST_FRAC = 0.01
"""Below this share of the step nothing is said."""
MOST_STEPS_FRAC, LAST_STEPS_FRAC, MIN_STEPS = 0.6, 0.2, 2
"""What lasts shows in this share of the steps, or in all of the last ones; never in one step alone."""


@dataclass(frozen=True)
class Late:
    """A rank that something keeps from working: by how much per step, on the steps' mean, and in which steps."""

    rank: int
    excess_ns: float
    usual_ns: float
    steps: tuple[int, ...]
    of_steps: int


def first_window(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of a run's first window."""
    return rows[rows["window"] == rows["window"].min()] if "window" in rows else rows


def in_complete_steps(rows: pd.DataFrame, run: Run) -> pd.DataFrame:
    """The first window's rows of steps that are complete on their rank."""
    complete = first_window(run.steps.loc[run.steps["complete"]])[["rank", "step"]]
    return first_window(rows).merge(complete, on=["rank", "step"])


def step_ns(run: Run) -> float:
    """The mean length of a complete step; NotMeasured where there is none."""
    steps = first_window(run.steps[run.steps["complete"]])
    if steps.empty:
        raise NotMeasured("the run has no complete step")
    return float((steps["end_ns"] - steps["start_ns"]).mean())


def roles(asked: Asked) -> Mapping[int, int]:
    """The place along the pipeline of each rank, by which ranks have the same role.

    Empty, so that all ranks are peers, where the run has no pipeline or some place of it one rank only.
    """
    try:
        places = asked["places"]
    except NotMeasured:
        return {}
    stage = places[(places["axis"] == axes.PIPELINE) & places["rank"].isin(asked.run.ranks["rank"])]
    role = dict(zip(stage["rank"].tolist(), stage["place"].tolist(), strict=True))
    return role if stage["place"].duplicated(keep=False).all() else {}


def by_rank(rows: pd.DataFrame) -> Iterator[tuple[int, pd.DataFrame]]:
    """Each rank with its rows, indexed by step and in its order."""
    for _, own in rows.groupby("rank"):
        yield int(own["rank"].iloc[0]), own.sort_values("step").set_index("step")


def late_ranks(asked: Asked, rows: pd.DataFrame, column: str, *, recurs: bool = False) -> Iterator[Late]:
    """The ranks whose `column` is more than their peers' usual one by a share of a step that counts, and lastingly so.

    `rows` have rank and step. A rank's excess in a step is what it has beyond the median of its peers' medians. What
    `recurs` need not last, but come back.
    """
    rows = in_complete_steps(rows, asked.run)
    limit_ns = LEAST_COST_FRAC * step_ns(asked.run)
    role = roles(asked)
    usual = {rank: float(own[column].median()) for rank, own in by_rank(rows)}
    for rank, own in by_rank(rows):
        others = [value for one, value in usual.items() if one != rank and role.get(one, 0) == role.get(rank, 0)]
        if not others:
            continue
        usual_ns = float(np.quantile(others, 0.5, method="higher"))  # of two the longer: one quick peer is no rule
        excess_ns = own[column].astype(float) - usual_ns
        steps = (recurring if recurs else lasting)(excess_ns > limit_ns)
        mean_ns = float(excess_ns.clip(lower=0).mean())
        if steps and mean_ns > limit_ns:
            yield Late(rank, mean_ns, usual_ns, steps, len(excess_ns))


def lasting(shows: pd.Series) -> tuple[int, ...]:
    """The steps in which something shows (indexed by step, in order), if it lasts; else none.

    That is in most steps, or in all of the last ones.
    """
    steps = tuple(int(step) for step in shows.index[shows])
    if len(steps) >= max(MIN_STEPS, MOST_STEPS_FRAC * len(shows)):
        return steps
    at_end = len(shows) - int(np.flatnonzero(np.append(True, ~shows.to_numpy(bool)))[-1])
    return (
        tuple(int(step) for step in shows.index[-at_end:])
        if at_end >= max(MIN_STEPS, LAST_STEPS_FRAC * len(shows))
        else ()
    )


def recurring(shows: pd.Series) -> tuple[int, ...]:
    """The steps in which something shows, if it comes back, however seldom; else none."""
    steps = tuple(shows.index[shows].tolist())
    return steps if len(steps) >= MIN_STEPS else ()


def ms(length_ns: float) -> str:
    """A length of time for a sentence: `12.3 ms`."""
    value = length_ns / 1e6
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.3g} ms"


def in_steps(late: Late) -> str:
    """In how many steps something shows, for a sentence: `in 4 of 6 steps`."""
    return f"in {len(late.steps)} of {late.of_steps} steps"
