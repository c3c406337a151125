"""Why a run got slower, in a few sentences: from the difference of two accounts, which ranks, kernels, calls, gaps.

The rank whose own time (step minus waits for others) grew is the one to look at: the others only wait for it, which
shows as exposed communication of theirs. Where no rank grew by itself, what is exposed more is communication that used
to hide, or transfers that take longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tracekit.compare import Changed, Difference, RankChange, RankPart
from tracekit.compare.difference import RANK_PARTS
from tracekit.gate.facts import TOLD
from tracekit.gate.judge import Judged

LEAST_FRAC = 0.1
"""A cause that explains less of the change is not told."""
SLOWER_FRAC = 0.8
"""This much of the compute's growth must come from each call, not from their number, to say that kernels are slower."""
KERNELS = 3
LONGEST_NAME = 50
AHEAD = 1.5
"""One rank stands out if its own time grew so many times as much as the mean."""


@dataclass(frozen=True)
class Reason:
    """One cause: `cause` is compute, work, host, overlap, communication, wait, copies, bubble, memory or idle.

    `ns` is how much of the change it explains, per step; `ranks` those that it concerns, none for all alike.
    """

    cause: str
    ns: float
    sentence: str
    ranks: tuple[int, ...] = ()


def reasons(
    changed: Difference, judged: Sequence[Judged], facts: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})
) -> tuple[Reason, ...]:
    """What explains that the step takes longer, or that shares of it got worse, the largest first.

    `facts` are those of the base and of the new run.
    """
    shares = [*_bubble(changed, judged, *facts), *_overlap(changed, judged)]
    if changed.changed_ns <= 0:
        return tuple(shares)
    found = [*shares, *_own(changed), *_communication(changed, shares), *_copies(changed)]
    kept = [one for one in found if one in shares or one.ns >= LEAST_FRAC * changed.changed_ns]
    return tuple(sorted(kept, key=lambda one: -one.ns)) or (_least_told(changed),)


def _own(changed: Difference) -> Iterator[Reason]:
    """Compute and idling, of the ranks whose own time grew."""
    ranks = _grown(changed)
    for name, told in (("compute_ns", _compute), ("idle_ns", _idle)):
        grown = [rank for rank in ranks if (rank.changed(name) or 0) >= LEAST_FRAC * changed.changed_ns]
        if grown:
            ns = sum(rank.changed(name) or 0.0 for rank in grown) / len(grown)
            all_of_them = len(grown) >= len(changed.ranks)
            yield told(changed, ns, () if all_of_them else tuple(sorted(rank.rank for rank in grown)), grown)


def _grown(changed: Difference) -> list[RankChange]:
    """The ranks whose own time grew the most: one, some, or all alike. Without waits measured, all."""
    if not changed.ranks:
        return [_mean_rank(changed)]
    own = [(rank.changed("own_ns"), rank) for rank in changed.ranks]
    if any(ns is None for ns, _ in own) or len(own) < 2:
        return [rank for _, rank in own]
    most = max(ns or 0.0 for ns, _ in own)
    return [rank for ns, rank in own if most > 0 and (ns or 0.0) >= most / AHEAD]


def _mean_rank(changed: Difference) -> RankChange:
    """The mean of the ranks of either run, for runs that have none in common."""
    base, new = (
        RankPart(0, *(sum(getattr(rank, name) or 0.0 for rank in side.ranks) / len(side.ranks) for name in RANK_PARTS))
        for side in (changed.base, changed.new)
    )
    return RankChange(0, base, new)


def _compute(changed: Difference, ns: float, ranks: tuple[int, ...], grown: list[RankChange]) -> Reason:
    calls_before = sum(rank.base.kernel_calls for rank in grown) / len(grown)
    calls_now = sum(rank.new.kernel_calls for rank in grown) / len(grown)
    before, now = (sum(getattr(rank, side).compute_ns for rank in grown) for side in ("base", "new"))
    parts = [part for part in changed.parts if part.kind == "compute" and part.changed_ns > 0]
    each = sum(part.by_each_ns for part in parts)
    whole = sum(part.changed_ns for part in parts)
    who = _who(ranks)
    if abs(calls_now - calls_before) <= 0.01 * calls_before and each >= SLOWER_FRAC * whole:
        sentence = f"compute {_times(before, now)} as long{who}: the same kernels, each slower{_led_by(parts)}"
        return Reason("compute", ns, sentence, ranks)
    sentence = f"more compute{who}: {calls_before:,.0f} → {calls_now:,.0f} kernels a step{_led_by(parts)}"
    return Reason("work", ns, sentence, ranks)


def _idle(changed: Difference, ns: float, ranks: tuple[int, ...], _: list[RankChange]) -> Reason:
    causes = [part for part in changed.parts if part.kind == "idle" and part.changed_ns > 0]
    cause = f", {causes[0].name}" if causes and causes[0].name != "not told why" else ""
    gaps = [gap for gap in changed.gaps if gap.changed_ns > 0.2 * ns]
    before = f"; longest gaps before {short_name(gaps[0].name)}" if gaps else ""
    return Reason("host", ns, f"more idling, nothing launched to run{_who(ranks)}{cause}{before}", ranks)


def _communication(changed: Difference, shares: Sequence[Reason]) -> Iterator[Reason]:
    """Exposed communication: waits, less those that the bubble explains, and longer transfers.

    What was hidden before is told by `_overlap`, where overlap is measured and got worse.
    """
    exposed = changed.by_kind()["comm"]
    parts = [part for part in changed.parts if part.kind == "comm" and part.changed_ns > 0]
    waited = max(0.0, _waited(changed))
    rest = exposed - waited - sum(one.ns for one in shares if one.cause == "overlap")
    if rest > 0 and parts:
        yield Reason("communication", rest, f"communication that nothing hides takes longer{_led_by(parts)}")
    bubble = sum(one.ns for one in shares if one.cause == "bubble")
    if waited > bubble:
        yield Reason("wait", waited - bubble, f"ranks wait longer for each other{_led_by(parts)}")


def _waited(changed: Difference) -> float:
    """How much longer ranks wait, on average; 0 where it is not measured."""
    waits = [
        (rank.changed("step_ns") or 0.0) - (rank.changed("own_ns") or 0.0)
        for rank in changed.ranks
        if rank.changed("own_ns") is not None
    ]
    return sum(waits) / len(waits) if waits else 0.0


def _copies(changed: Difference) -> Iterator[Reason]:
    parts = [part for part in changed.parts if part.kind == "memory" and part.changed_ns > 0]
    if parts:
        yield Reason("copies", changed.by_kind()["memory"], f"copies that nothing hides take longer{_led_by(parts)}")


def _bubble(
    changed: Difference, judged: Sequence[Judged], base: Mapping[str, str], new: Mapping[str, str]
) -> Iterator[Reason]:
    one = _worse("pipeline.bubble_frac", judged)
    if one is not None and one.base is not None and one.new is not None:
        ns = one.new * changed.new.step_ns - one.base * changed.base.step_ns
        told = [f"{name} {base[name]} → {new[name]}" for name in TOLD if name in base and base[name] != new.get(name)]
        after = f" ({', '.join(told)})" if told else ""
        sentence = f"the pipeline's bubble is {one.base:.0%} → {one.new:.0%} of the makespan{after}"
        yield Reason("bubble", ns, sentence)


def _overlap(changed: Difference, judged: Sequence[Judged]) -> Iterator[Reason]:
    one = _worse("overlap.overlap_frac", judged)
    if one is not None and one.base is not None and one.new is not None:
        parts = [part for part in changed.parts if part.kind == "comm" and part.changed_ns > 0]
        comm = sum(part.new.total_ns for part in changed.parts if part.kind == "comm")
        ns = max(0.0, min(changed.by_kind()["comm"], (one.base - one.new) * comm))
        sentence = f"communication that compute hid is exposed: {one.base:.0%} → {one.new:.0%} hidden{_led_by(parts)}"
        yield Reason("overlap", ns, sentence)


def _worse(metric: str, judged: Sequence[Judged]) -> Judged | None:
    return next((one for one in judged if one.metric == metric and one.outcome == "worse"), None)


def _led_by(parts: Sequence[Changed]) -> str:
    told = [f"{_short(part)} +{part.changed_ns / 1e6:,.2f} ms" for part in parts[:KERNELS]]
    return f" ({', '.join(told)})" if told else ""


def _short(part: Changed) -> str:
    which = f", call {' and '.join(map(str, part.nth[:3]))} of the step" if part.nth else ""
    return f"{short_name(part.name)}{f' {part.shape}' if part.shape else ''}{which}"


def short_name(name: str) -> str:
    """A kernel's name without the result's type and PyTorch's namespaces, no longer than a sentence can hold."""
    for noise in ("void ", "at::native::", "(anonymous namespace)::"):
        name = name.replace(noise, "")
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def _who(ranks: tuple[int, ...]) -> str:
    if not ranks:
        return ""
    return f" on rank {ranks[0]}" if len(ranks) == 1 else f" on ranks {', '.join(map(str, ranks))}"


def _times(before: float, now: float) -> str:
    return f"{now / before:.2f} times" if before else "now"


def _least_told(changed: Difference) -> Reason:
    part = changed.parts[0]
    return Reason(part.kind, part.changed_ns, f"many small changes; the largest is {_short(part)}")
