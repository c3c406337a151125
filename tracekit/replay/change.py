"""What might be mended: each change as a scenario of the replay.

Spelled as on the command line: `rank:3`, `stage:3`, `class:forward` and `axis:data` are made like their peers; `comm`,
`collectives`, `host`, `stages` and an axis are made ideal; links are made so many times as fast.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from tracekit.errors import WrongUse
from tracekit.replay.graph import Scenario
from tracekit.replay.pace import BALANCED, EVEN, IDEAL, LIKE_PEERS, LIKE_STAGES, MEASURED
from tracekit.replay.replay import Replay
from tracekit.replay.work import CLASSES

FIXES = ("rank", "stage", "class", "axis")
IDEALS = ("comm", "collectives", "host", "work", "lengths", "stages", "axis:NAME")

Held = TypeVar("Held", int, str)


@dataclass(frozen=True)
class Change:
    """One change: its name as spelled, what it is in words, and the scenario."""

    what: str
    words: str
    scenario: Scenario


def fix(replay: Replay, spelled: str) -> Change:
    """Something made like its peers; WrongUse where the run has no such thing."""
    kind, _, name = spelled.partition(":")
    if kind not in FIXES or not name:
        raise WrongUse(f"--fix takes {', '.join(f'{one}:NAME' for one in FIXES)}, not {spelled!r}")
    if kind == "rank":
        rank = _one_of(name, replay.ranks, "rank")
        return Change(spelled, f"rank {rank} worked like its peers", _at(replay, LIKE_PEERS, [rank]))
    if kind == "stage":
        stage = _one_of(name, sorted(set(replay.stage_of.values())), "stage")
        ranks = [rank for rank, place in replay.stage_of.items() if place == stage]
        return Change(spelled, f"stage {stage} worked like the other stages", _at(replay, LIKE_STAGES, ranks))
    if kind == "class":
        chosen = _one_of(name, replay.classes, "class of work")
        number = replay.pace.only(CLASSES.index(chosen))
        return Change(spelled, f"{chosen} took its mean time everywhere", replay.variant(number))
    of_axis = _kinds_of(replay, name)
    scenario = replay.scenario(
        measured=lambda _, one: float(one not in of_axis), median=lambda _, one: float(one in of_axis)
    )
    return Change(spelled, f"communication of the {name} axis took its median time", scenario)


def ideal(replay: Replay, spelled: str) -> Change:
    """Something made ideal; WrongUse where the run has no such thing."""
    if spelled == "comm":
        return Change(
            "comm", "communication took no time, and collectives waited for nobody", replay.calls_free(waiting=False)
        )
    if spelled == "collectives":
        words = "transfers took no time (members would still wait for each other)"
        return Change("collectives", words, replay.calls_free(waiting=True))
    if spelled == "host":
        return Change("host", "the host took no time", replay.host_free())
    if spelled == "work":
        return Change("work", "each class of work took its mean time everywhere", replay.variant(IDEAL))
    if spelled == "lengths":
        words = "each class of device work took the mean time of its stage, as with samples of one length"
        return Change("lengths", words, replay.variant(EVEN))
    if spelled == "stages":
        if not replay.stage_of:
            raise WrongUse("--ideal stages: the run has no pipeline stages")
        return Change("stages", "all pipeline stages were equally long", replay.variant(BALANCED))
    if spelled.startswith("axis:"):
        of_axis = _kinds_of(replay, spelled.removeprefix("axis:"))
        scenario = replay.scenario(measured=lambda _, one: float(one not in of_axis))
        return Change(spelled, f"transfers of the {spelled.removeprefix('axis:')} axis took no time", scenario)
    raise WrongUse(f"--ideal takes {', '.join(IDEALS)}, not {spelled!r}")


def links(replay: Replay, spelled: str) -> Change:
    """Links so many times as fast, as in `2x`; WrongUse for anything else."""
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)x?", spelled)
    times = float(found[1]) if found else 0.0
    if not times:
        raise WrongUse(f"--links takes how many times as fast links are, as in 2x, not {spelled!r}")
    return Change(f"links:{times:g}x", f"links were {times:g} times as fast", replay.links(times))


def together(replay: Replay, changes: Collection[Change]) -> Change | None:
    """All changes at once, of transfers one after another; None where two of them set the durations of one rank."""
    variant = np.full(len(replay.ranks), MEASURED, np.int64)
    measured, median, free = replay.measured.measured.copy(), replay.measured.median.copy(), False
    for change in changes:
        own = change.scenario
        if ((variant != MEASURED) & (own.variant != MEASURED) & (variant != own.variant)).any():
            return None
        variant = np.where(own.variant != MEASURED, own.variant, variant)
        measured, median = measured * own.measured, median * own.measured + own.median
        free |= own.free
    words = "all of these were so"
    return Change(" + ".join(one.what for one in changes), words, Scenario(variant, measured, median, free))


def all_changes(replay: Replay) -> list[Change]:
    """Every change that makes sense for the run."""
    spelled = [f"rank:{rank}" for rank in replay.ranks] if len(replay.ranks) > 1 else []
    stages = sorted(set(replay.stage_of.values()))
    spelled += [f"stage:{stage}" for stage in stages] if len(stages) > 1 else []
    spelled += [f"class:{name}" for name in replay.classes]
    axes = sorted({kind.rsplit(" ", 1)[0] for kind in replay.kinds})
    spelled += [f"axis:{axis}" for axis in axes]
    ideals = ["host"] + (["comm", "collectives"] if replay.kinds else [])
    ideals += ["stages"] if len(stages) > 1 else []
    changes = [fix(replay, one) for one in spelled] + [ideal(replay, one) for one in ideals]
    return changes + ([links(replay, "2x")] if replay.kinds else [])


def _at(replay: Replay, variant: int, ranks: Collection[int]) -> Scenario:
    """Some ranks at a variant, with transfers of their own at the median."""
    held = frozenset(ranks)
    scenario = replay.scenario(lambda rank: variant if rank in held else MEASURED)
    mine: Callable[[int, str], float] = lambda rank, _: float(rank in held)  # noqa: E731
    other = replay.scenario(measured=lambda rank, _: float(rank not in held), median=mine)
    return replace(scenario, measured=other.measured, median=other.median)


def _one_of(name: str, held: Collection[Held], kind: str) -> Held:
    found = next((one for one in held if str(one) == name), None)
    if found is None:
        raise WrongUse(f"the run has no {kind} {name}; it has {', '.join(map(str, held)) or 'none'}")
    return found


def _kinds_of(replay: Replay, axis: str) -> frozenset[str]:
    found = frozenset(kind for kind in replay.kinds if kind.rsplit(" ", 1)[0] == axis)
    if not found:
        axes = sorted({kind.rsplit(" ", 1)[0] for kind in replay.kinds})
        raise WrongUse(f"the run has no communication of an axis {axis}; it has {', '.join(axes) or 'none'}")
    return found
