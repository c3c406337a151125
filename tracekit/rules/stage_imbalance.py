"""A pipeline stage that has more to do than the others.

What it means: per micro-batch this stage computes longer, on all of its ranks and with kernels that are as fast as
anywhere: it has more layers, or the embedding, the output layer or the loss on top. All stages run at its pace.
How to confirm: `tracekit explain stages`; the count of layers per stage; forward and backward of the last stage.
What to do: fewer layers on that stage; the output layer split over tensor ranks (vocabulary parallel) or placed on a
stage of its own; more virtual stages.
Published: "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI 2025), 5.2, the most frequent
cause there; Llama 3's report (2024), 3.3.2 (one layer less on the first and last stage).
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from tracekit.errors import NotMeasured
from tracekit.evidence import LEAST_COST_FRAC, in_complete_steps, lasting, ms, step_ns
from tracekit.model import Finding
from tracekit.replay.costs import Judged

CODE = "stage-imbalance"
LEAST_FACTOR = 1.05
"""A stage that takes so many times the mean of the others is out of balance: a layer of twenty is 5 %;"""
COMPUTES_FRAC = 0.5
"""if so much of what it takes longer is compute;"""
SLOW_DEVICE_FACTOR = 1.03
"""unless its kernels are slower than those of its like, by so much."""


def check(asked: Judged) -> Iterator[Finding]:
    """A finding for the longest stage, its cost what a step would save if it were as long as the others."""
    rows = in_complete_steps(asked["stages"].dropna(subset="stage"), asked.run)
    rows = rows.assign(own_ns=_on_rank(rows))
    places = _places(asked, rows)
    by_place = rows.assign(place=places).groupby(["place", "step"])["own_ns"].mean().unstack("place")
    if by_place.shape[1] < 2:
        return
    longest = by_place.mean().idxmax()
    others = by_place.drop(columns=longest).mean(axis=1)
    factors = by_place[longest] / others
    steps = lasting(factors > LEAST_FACTOR)
    ranks = tuple(sorted(set(rows.loc[places == longest, "rank"].tolist())))
    if not steps or _is_slow_device(asked, ranks):
        return
    factor, excess_ns = float(factors.median()), float((by_place[longest] - others).mean())
    microbatches = float(rows["microbatches"].max())
    if _computes_more_ns(asked, ranks) < COMPUTES_FRAC * excess_ns * microbatches:
        return
    cost_ns = asked.costs.saved_ns(f"stage:{longest}", excess_ns * microbatches)
    if cost_ns < LEAST_COST_FRAC * step_ns(asked.run):
        return
    each = ", ".join(f"{place}: {ms(value)}" for place, value in by_place.mean().items())
    yield Finding(
        CODE, "warning", f"pipeline stage {longest} has {factor:.2f} times the work of the others", ranks, steps,
        cost_ns,
        (f"forward and backward of a micro-batch take, by place in the pipeline, {each}", *_pace(asked, ranks)),
        f"move layers from stage {longest} to the others, or split what only it has",
    )  # fmt: skip


def _computes_more_ns(asked: Judged, ranks: tuple[int, ...]) -> float:
    """How much more the ranks compute in a step than the others: what they have beside that waits for a slow link."""
    rows = in_complete_steps(asked["breakdown"], asked.run)
    mine = rows["rank"].isin(ranks)
    return float(rows.loc[mine, "compute_ns"].mean() - rows.loc[~mine, "compute_ns"].mean())


def _on_rank(rows: pd.DataFrame) -> pd.Series:
    """A micro-batch's time on all stages of the rank together."""
    each = rows["forward_each_ns"] + rows["backward_each_ns"]
    return each.groupby([rows["rank"], rows["step"]]).transform("sum")


def _places(asked: Judged, rows: pd.DataFrame) -> pd.Series:
    try:
        told = asked["places"]
        place = told[told["axis"] == "pipeline"].set_index("rank")["place"]
    except NotMeasured:
        place = rows.groupby("rank")["stage"].min()
    return rows["rank"].map(place)


def _is_slow_device(asked: Judged, ranks: tuple[int, ...]) -> bool:
    """Whether the stage is long because some rank's same kernels are slow, not because there are more of them."""
    try:
        pace = in_complete_steps(asked["pace"], asked.run)
    except NotMeasured:
        return False
    factor = pace[pace["rank"].isin(ranks)].groupby("rank")["factor"].median()
    return bool((factor > SLOW_DEVICE_FACTOR).all()) if len(ranks) == 1 else bool((factor > SLOW_DEVICE_FACTOR).any())


def _pace(asked: Judged, ranks: tuple[int, ...]) -> Iterator[str]:
    try:
        pace = in_complete_steps(asked["pace"], asked.run)
    except NotMeasured:
        return
    factor = float(pace.loc[pace["rank"].isin(ranks), "factor"].median())
    yield f"kernel by kernel it takes {factor:.2f} times as long as the same ones elsewhere: it has more of them to do"
