"""A rank for which all others wait, though nothing on the rank itself says why.

What it means: the others' waits are this rank's doing, step after step, but it computes as fast as they do and its host
is no later than theirs: between its call and the transfer something holds it up. A slow network path or a busy NIC, a
communication library's thread that gets no core, a clock that was not put right. (Stages of a pipeline wait for each
other in any case: there only what is beyond their bubble counts.)
How to confirm: `tracekit explain blame`, beside `pace` and `stalls`, which show nothing on that rank; the rank's calls
in `tracekit export --perfetto` begin later than they were issued; nccl-tests or iperf between its host and another.
What to do: test the link and the NIC; give the communication threads cores of their own; check the hosts' clocks.
Published: tracekit's own; by elimination, as in "Understanding Stragglers in Large Model Training Using What-if
Analysis" (OSDI 2025), 5.
"""

from __future__ import annotations

from collections.abc import Iterator

from tracekit.errors import NotMeasured
from tracekit.evidence import LEAST_COST_FRAC, MIN_STEPS, first_window, in_complete_steps, lasting, ms, step_ns
from tracekit.model import Finding
from tracekit.replay.costs import Judged

CODE = "late-transfers"
MOST_FRAC = 0.6
"""Of all waiting that is this rank's doing;"""
LEAST_FRAC = 0.03
"""as a share of the step, what the others wait for it,"""
EXPLAINED_FRAC = 0.5
"""unless so much of that is explained by its compute, its copies and its host, beside those of the ranks that wait."""
EXPLAINING = (("breakdown", ["compute_ns", "exposed_memory_ns"]), ("stalls", ["stalled_ns"]))
"""More compute explains it as well as slower compute does: then other rules tell."""


def check(asked: Judged) -> Iterator[Finding]:
    """One finding for the rank that is to blame for most waiting without a reason of its own."""
    blame = first_window(asked["blame"])
    blame = blame[blame["rank"] != blame["blamed_rank"]]
    by_rank = blame.groupby("blamed_rank")["exposed_wait_ns"].sum()
    steps = first_window(asked.run.steps[asked.run.steps["complete"]])["step"].nunique()
    if by_rank.sum() <= 0 or steps < MIN_STEPS:
        return
    waited_ns = float(by_rank.max())
    rank = int(blame.loc[blame["blamed_rank"] == by_rank.idxmax(), "blamed_rank"].iloc[0])
    waiters = sorted(set(blame.loc[blame["blamed_rank"] == rank, "rank"].tolist()))
    late_ns = waited_ns / steps / len(waiters) - _bubble_ns(asked, waiters)
    if waited_ns < MOST_FRAC * by_rank.sum() or late_ns < LEAST_FRAC * step_ns(asked.run):
        return
    lasts = _lasts(asked, waiters)
    explained_ns = sum(_excess_ns(asked, measure, columns, rank, waiters) for measure, columns in EXPLAINING)
    if not lasts:
        return
    unexplained_ns = late_ns - explained_ns
    if explained_ns > EXPLAINED_FRAC * late_ns or unexplained_ns < LEAST_COST_FRAC * step_ns(asked.run):
        return
    share = waited_ns / float(by_rank.sum())
    yield Finding(
        CODE, "warning", f"the others wait for rank {rank}, which computes and launches no later than they do",
        (rank,), lasts, round(unexplained_ns),
        (
            f"{share:.0%} of all exposed waiting is for it, {ms(late_ns)} a step on each rank that waits",
            f"its compute and its host explain {ms(explained_ns)} of that",
        ),
        "look at what lies between its calls and their transfers: the link, the NIC, cores for communication threads",
    )  # fmt: skip


def _lasts(asked: Judged, waiters: list[int]) -> tuple[int, ...]:
    """The steps in which the waiters wait long, if that lasts."""
    rows = in_complete_steps(asked["ranks"], asked.run)
    waits_ns = rows[rows["rank"].isin(waiters)].groupby("step")["wait_ns"].mean()
    return lasting(waits_ns > LEAST_FRAC * step_ns(asked.run))


def _bubble_ns(asked: Judged, waiters: list[int]) -> float:
    """How long the waiters' bubble is in a step: stages of a pipeline wait for each other in any case."""
    try:
        rows = in_complete_steps(asked["pipeline"], asked.run)
    except NotMeasured:
        return 0.0
    return float(rows.loc[rows["rank"].isin(waiters), "bubble_ns"].mean())


def _excess_ns(asked: Judged, measure: str, columns: list[str], rank: int, waiters: list[int]) -> float:
    """How much more of something the rank has in a step than the median of those that wait; 0 where nothing tells."""
    try:
        rows = in_complete_steps(asked[measure], asked.run)
    except NotMeasured:
        return 0.0
    means = rows[columns].sum(axis=1).groupby(rows["rank"]).mean()
    return max(0.0, float(means.get(rank, 0.0)) - float(means[means.index.isin(waiters)].median()))
