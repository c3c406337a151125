"""The verdict that rules about the host share: a rank, or all, whose device is idle for one cause."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tracekit.errors import NotMeasured
from tracekit.evidence import Late, in_complete_steps, in_steps, late_ranks, ms, step_ns
from tracekit.model import Finding
from tracekit.replay.costs import Judged


@dataclass(frozen=True)
class Stall:
    """A cause: its column of `stalls`, what a host does, what all of them do, and in what that is.

    `of_all_frac` is the share of the step from which on what all ranks do alike is told: in every job a launch here and
    there is late. `recurs` that it need not show in most steps; else `recurs_frac` is from which share of the step on,
    as a mean over all steps, it need not. `latency` that each such gap costs a launch's latency on top, so that little
    idle time is told as well.
    """

    column: str
    does: str
    do_all: str
    where: str
    of_all_frac: float = 0.05
    recurs: bool = False
    recurs_frac: float = math.inf
    latency: bool = False


def findings(asked: Judged, code: str, stall: Stall, advice: str, to_all: str = "") -> Iterator[Finding]:
    """A finding per rank that stalls for this cause lastingly longer than its peers, and one for what all do alike.

    `to_all` is the advice for the latter, where it is another one.
    """
    rows = asked["stalls"]
    late = list(late_ranks(asked, rows, stall.column, recurs=stall.recurs))
    lasting, limit_ns = {one.rank for one in late}, stall.recurs_frac * step_ns(asked.run)
    now_and_then = late_ranks(asked, rows, stall.column, recurs=True)
    late += [one for one in now_and_then if one.rank not in lasting and one.excess_ns >= limit_ns]
    for one in late:
        yield _of_rank(asked, code, stall, one, advice)
    yield from _of_all(asked, code, stall, {one.rank for one in late}, to_all or advice)


def _of_rank(asked: Judged, code: str, stall: Stall, late: Late, advice: str) -> Finding:
    usual = ms(late.usual_ns) if late.usual_ns >= 1000 else "not at all"
    return Finding(
        code, "warning", f"rank {late.rank}'s device is idle while its host {stall.does}, and the other ranks wait",
        (late.rank,), late.steps, asked.costs.saved_ns(f"rank:{late.rank}", late.excess_ns),
        (
            f"its device is idle for {ms(late.excess_ns + late.usual_ns)} a step {stall.where}, its peers' {usual}; "
            f"that shows {in_steps(late)}",
        ),
        advice,
    )  # fmt: skip


def _of_all(asked: Judged, code: str, stall: Stall, told: set[int], advice: str) -> Iterator[Finding]:
    rows = in_complete_steps(asked["stalls"], asked.run)
    usual_ns = float(rows[~rows["rank"].isin(told)].groupby("rank")[stall.column].mean().median())
    if usual_ns > stall.of_all_frac * step_ns(asked.run):
        at_most_ns = usual_ns * (1 + (_latency_frac(asked) if stall.latency else 0))
        yield Finding(
            code, "warning", f"devices are idle while their hosts {stall.do_all}", (), (),
            asked.costs.saved_ns("ideal:host", at_most_ns),
            (
                f"half of the devices are idle for {ms(usual_ns)} a step or more {stall.where}",
                *([f"with the latency of the launches that follow, {ms(at_most_ns)}"] if stall.latency else []),
            ),
            advice,
        )  # fmt: skip


def _latency_frac(asked: Judged) -> float:
    """How long devices are idle for launches' latency, for each nanosecond in which they are idle for the host."""
    try:
        idle = in_complete_steps(asked["idle"], asked.run)[["launch_latency_ns", "host_late_ns"]].sum()
    except NotMeasured:
        return 0.0
    return float(idle["launch_latency_ns"] / max(float(idle["host_late_ns"]), 1))
