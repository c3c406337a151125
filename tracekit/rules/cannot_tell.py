"""What this run cannot tell, and how to record what would.

What it means: a cause needs peers to compare with, steps over which it lasts, or calls that can be matched; this run
lacks some of these, so that silence about them is no clean bill of health. Costs are a replay's answers; where none
comes out as the run was measured, they are upper bounds.
How to confirm: the lines under "Not measured" of `tracekit analyze`.
What to do: record every rank over at least three steps with `ProfilerStep` marks, on a PyTorch that writes NCCL's
arguments (2.4 and newer).
Published: tracekit's own.
"""

from __future__ import annotations

from collections.abc import Iterator

from tracekit.errors import NotMeasured
from tracekit.evidence import first_window
from tracekit.model import Finding
from tracekit.replay.costs import Judged

CODE = "cannot-tell"
MIN_STEPS = 3
NO_REPLAY = "a replay does not come out as the run was measured"
ADVICE = "record every rank over three steps or more, with ProfilerStep marks and NCCL's arguments"
REPLAY_ADVICE = "tracekit whatif says what the replay cannot explain; more of the host in the trace may tell"


def check(asked: Judged) -> Iterator[Finding]:
    """One finding with what is missing for which verdict; it costs the job nothing."""
    lacks = tuple(_lacks(asked))
    if lacks:
        yield Finding(
            CODE, "info", "some causes cannot be told from this run", (), (), None, lacks,
            REPLAY_ADVICE if all(NO_REPLAY in lack for lack in lacks) else ADVICE,
        )  # fmt: skip


def _lacks(asked: Judged) -> Iterator[str]:
    run = asked.run
    steps = first_window(run.steps[run.steps["complete"]])["step"].nunique()
    if run.ranks["rank"].nunique() == 1:
        yield "one rank only: who is slow, and who waits for whom, takes the traces of the other ranks"
    if steps < MIN_STEPS:
        told = f"{steps} complete step{'' if steps == 1 else 's'} only"
        yield f"{told}: what lasts cannot be told from what happened once"
    if not asked.costs.trusted:
        yield f"{NO_REPLAY}, so costs are at most what is told: what was seen to be amiss"
    if run.ranks["rank"].nunique() > 1:
        yield from _about_waits(asked)


def _about_waits(asked: Judged) -> Iterator[str]:
    try:
        waits = asked["waits"]
    except NotMeasured as why:
        yield f"no waits: {why}"
        return
    if "unmatched" in waits and waits["unmatched"].sum() > waits["calls"].sum() > 0:
        yield "more than half of the communication calls have no counterpart: waits are lower bounds"
