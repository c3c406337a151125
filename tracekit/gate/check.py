"""Two sides of runs, under budgets -> Verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tracekit.compare import Difference, difference
from tracekit.errors import WrongUse
from tracekit.gate import facts
from tracekit.gate.budgets import FINDINGS, Budget, chosen, gated
from tracekit.gate.facts import Differs
from tracekit.gate.history import Drift, drift
from tracekit.gate.judge import Judged, Outcome, all_judged
from tracekit.gate.metrics import HEADLINES, KEYED_HEADLINES, Series
from tracekit.gate.reasons import Reason, reasons
from tracekit.gate.summary import STEP, Found, Summary

FINE, WORSE, CANNOT_TELL, NOT_COMPARABLE = 0, 1, 2, 3
WATCHED_FRAC = 0.02
"""Metrics that are not gated are called worse or better beyond so much of themselves."""
FINDING_FRAC = 0.02
"""A new finding that costs less of the step is no reason to fail."""
GRAVITY: tuple[Outcome, ...] = ("worse", "unsure", "better", "same")
Unsure = Literal["", "fail", "pass"]


@dataclass(frozen=True)
class Verdict:
    """What the gate says, and why.

    `outcome` is the gravest of the gated metrics' and findings', or "not comparable". `gated` are the metrics with a
    budget, `watched` the others; `reasons` explain a step that takes longer; `changed` is the difference of the two
    accounts (the latest run of each side). `new_findings` is null where either side was not searched for findings.
    """

    outcome: Outcome | Literal["not comparable"]
    exit_code: int
    base: tuple[Summary, ...]
    new: tuple[Summary, ...]
    gated: tuple[Judged, ...] = ()
    watched: tuple[Judged, ...] = ()
    new_findings: tuple[Found, ...] | None = None
    gone_findings: tuple[Found, ...] = ()
    differs: tuple[Differs, ...] = ()
    allowed: tuple[Differs, ...] = ()
    reasons: tuple[Reason, ...] = ()
    changed: Difference | None = None
    drift: Drift | None = None
    notes: tuple[str, ...] = ()


def check(
    base: Sequence[Summary],
    new: Sequence[Summary],
    *,
    budgets: Iterable[str] = (),
    unsure: Unsure = "",
    allow: Iterable[str] = (),
    noise_frac: float | None = None,
    drifts: bool = False,
) -> Verdict:
    """Judges the new runs against those of the base; `drifts` where the base is a history in order.

    Raises WrongUse for budgets that mean nothing here, NotMeasured for those of which neither side has the input.
    """
    if not base or not new:
        raise WrongUse("a check takes at least one run on each side")
    asked, allowing = list(budgets), [name.strip().lower() for name in allow]
    chosen_budgets = chosen(asked)
    known = _known(base, new)
    limits_of = gated(chosen_budgets, asked, known)
    differs = _differs(base[-1], new[-1])
    allowed = [one for one in differs if _allows(allowing, one.allow)]
    blocking = tuple(one for one in differs if one not in allowed)
    changed = difference(base[-1].account, new[-1].account)
    if blocking:
        return Verdict(
            "not comparable", NOT_COMPARABLE, tuple(base), tuple(new), differs=blocking, allowed=tuple(allowed),
            changed=changed,
        )  # fmt: skip
    sides = [one.metrics for one in base], [one.metrics for one in new]
    step = _mean(sides[0], STEP)
    limits = {name: budget.limit(_mean(sides[0], name), known[name]) for name, budget in limits_of.items()}
    judged = _without_yielding(all_judged(*sides, limits, step, gated=True, noise_frac=noise_frac), limits_of)
    others = {
        name: max(WATCHED_FRAC * abs(_mean(sides[0], name)), 0.001 * step if known[name].unit == "ns" else 0.0)
        for name in _others(known, limits)
        if all(any(name in one for one in side) for side in sides)
    }
    watched = all_judged(*sides, others, step, gated=False, noise_frac=noise_frac)
    fresh, gone = _findings(base, new, chosen_budgets, _least_cost(step, [*judged, *watched]))
    drifting = drift([*base, *new], STEP) if drifts else None
    why = reasons(changed, [*judged, *watched], (base[-1].facts, new[-1].facts))
    outcome = _gravest([one.outcome for one in judged], bool(fresh), _too_much(drifting, limits_of.get(STEP)))
    return Verdict(
        outcome, _exit_code(outcome, judged, unsure), tuple(base), tuple(new), tuple(judged), tuple(watched), fresh,
        gone, (), tuple(allowed), why if outcome in ("worse", "unsure") else (), changed,
        drifting, tuple(_notes(base, new, judged)),
    )  # fmt: skip


def _without_yielding(judged: list[Judged], budgets: Mapping[str, Budget]) -> list[Judged]:
    """The gated metrics; where the step is better, without shares that nobody asked to be gated.

    Less compute to hide communication under, or to fill a pipeline with, is no regression.
    """
    if not any(one.metric == STEP and one.outcome == "better" for one in judged):
        return judged
    return [one for one in judged if not budgets[one.metric].yields]


def _known(base: Sequence[Summary], new: Sequence[Summary]) -> dict[str, Series]:
    found: dict[str, Series] = {}
    for one in (*base, *new):
        found |= one.metrics
    return found


def _mean(side: Sequence[Mapping[str, Series]], name: str) -> float:
    values = [sum(one[name].values) / len(one[name].values) for one in side if name in one and one[name].values]
    return sum(values) / len(values) if values else 0.0


def _others(known: Mapping[str, Series], limits: Mapping[str, float]) -> list[str]:
    """Metrics that people know by name, with all their keys."""
    stems = {*HEADLINES.values(), *KEYED_HEADLINES.values()}
    return [name for name in known if name.partition("[")[0] in stems and name not in limits]


def _differs(base: Summary, new: Summary) -> list[Differs]:
    told = facts.differing(base.facts, new.facts)
    return [*told, *facts.other_job(base.account, new.account)]


def comparable_ones(summaries: Sequence[Summary], new: Summary) -> list[Summary]:
    """Those of a history that tell the same facts as the new run; all of them where none does, to say what differs."""
    alike = [one for one in summaries if not _differs(one, new)]
    return alike or list(summaries)


def _allows(allowing: Sequence[str], name: str) -> bool:
    """`--allow versions` allows all that begins so, `--allow all` everything."""
    return any(name.lower() == one or name.lower().startswith(f"{one} ") or one == "all" for one in allowing)


def _findings(
    base: Sequence[Summary], new: Sequence[Summary], budgets: Sequence[Budget], least_ns: float
) -> tuple[tuple[Found, ...] | None, tuple[Found, ...]]:
    """Findings that every new run has and no run of the base, and the reverse; none where they are not gated.

    A finding is known again by its code: which rank is the slow one may differ from run to run of healthy jobs. It must
    cost `least_ns` a step, if it says what it costs: less than the noise is found on one day and not on the other.
    """
    off = any(budget.name == FINDINGS and budget.off for budget in budgets)
    if off or any(one.findings is None for one in (*base, *new)):
        return None, ()
    old = {found.code for one in base for found in one.findings or ()}
    now = [{found.code for found in one.findings or ()} for one in new]
    fresh = tuple(
        found for found in new[-1].findings or ()
        if found.severity != "info" and found.code not in old and all(found.code in one for one in now)
        and (not found.cost_ns or found.cost_ns >= least_ns)
    )  # fmt: skip
    gone = tuple(found for found in base[-1].findings or () if all(found.code not in one for one in now))
    return fresh, gone


def _least_cost(step: float, judged: Sequence[Judged]) -> float:
    """What a new finding must cost: a change of the step that would have been told, and `FINDING_FRAC` of the step."""
    told = [one.detectable for one in judged if one.metric == STEP and one.detectable is not None]
    return max([FINDING_FRAC * step, *told])


def _too_much(drifting: Drift | None, budget: Budget | None) -> bool:
    """Whether a slow rise makes more than the budget of the step allows."""
    return drifting is not None and budget is not None and drifting.whole_frac > (budget.relative or 0.0)


def _gravest(outcomes: Sequence[Outcome], fresh: bool, drifted: bool) -> Outcome:
    if fresh or drifted or not outcomes:
        return "worse" if fresh or drifted else "unsure"
    return next(outcome for outcome in GRAVITY if outcome in outcomes)


def _exit_code(outcome: Outcome, judged: Sequence[Judged], unsure: Unsure) -> int:
    """0 fine; 1 worse, or unsure if that shall fail; 2 where nothing could be told and nobody said that it is fine."""
    if outcome == "worse" or (outcome == "unsure" and unsure == "fail"):
        return WORSE
    if unsure != "pass" and (not judged or any(one.blind for one in judged)):
        return CANNOT_TELL
    return FINE


def _notes(base: Sequence[Summary], new: Sequence[Summary], judged: Sequence[Judged]) -> list[str]:
    told = []
    if any(one.noise.startswith("assumed") for one in judged):
        told.append(
            "noise between runs is assumed (1 % of the step, or more): ten runs on both sides, or a history, measure it"
        )
    more = sorted({code for one in new for code in one.notes} - {code for one in base for code in one.notes})
    if more:
        told.append(f"notes that the base does not have: {', '.join(more)}")
    if {one.tracekit for one in base} != {one.tracekit for one in new}:
        told.append(f"the base was measured by tracekit {base[-1].tracekit}, the new run by {new[-1].tracekit}")
    return told
