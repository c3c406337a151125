"""What mending would buy: the answers that a replay gives.

S, the slowdown, is replayed / ideal; of a rank, a stage or a class it is that when all but it is ideal, and its waste
is 1 − 1/S. M_W is how much of what the ideal saves comes of the slowest workers alone: (T − T') / (T − T_ideal), T' the
step when just those are ideal. The slowest are 3 % of the workers, the count rounded up, ranked by the smaller of their
stage's and their data-parallel rank's S. M_S is the same of the last pipeline stage. All as in "Understanding
Stragglers in Large Model Training Using What-if Analysis" (OSDI 2025), from the means of the steps.

What "like its peers" means is tracekit's own: a rank's work takes the mean of the other ranks of its stage (of all
others where it has none), a stage's the mean of the other stages, a class its mean everywhere, transfers their median.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.errors import NotMeasured
from tracekit.model import Asked
from tracekit.plan.pipeline import bubble_of_ideal
from tracekit.replay.change import Change, all_changes
from tracekit.replay.graph import Scenario
from tracekit.replay.path import critical_path, shares
from tracekit.replay.replay import TRUSTED_FRAC, Replay
from tracekit.replay.work import CLASSES

SLOWEST_FRAC = 0.03
MANY_RANKS = 256
"""With more ranks than this each rank's own S is not replayed; those of stages and data-parallel ranks are."""

CHANGES = ["what", "words", "step_ns", "saved_ns", "saved_frac"]
STEPS = ["step", "measured_ns", "replayed_ns", "ideal_ns", "replay_error_frac", "slowdown"]


@dataclass(frozen=True)
class WhatIf:
    """All answers; tables are long, times are means over `steps` in nanoseconds.

    `changes` have `what, words, step_ns, saved_ns, saved_frac`, the most saved first; `by_rank`, `by_stage` and
    `by_class` have `slowdown` and `waste_frac`; `steps` what was measured and replayed of each. `m_workers` and
    `m_last_stage` are null where the run has no such thing or nothing to save.
    """

    step_ns: int
    measured_step_ns: int
    ideal_step_ns: int
    slowdown: float
    waste_frac: float
    replay_error_frac: float
    doubts: tuple[str, ...]
    changes: pd.DataFrame
    by_rank: pd.DataFrame
    by_stage: pd.DataFrame
    by_class: pd.DataFrame
    steps: pd.DataFrame
    path: pd.DataFrame
    path_shares: pd.DataFrame
    slowest_workers: tuple[int, ...]
    m_workers: float | None
    m_last_stage: float | None

    @property
    def trusted(self) -> bool:
        """Whether the replay with measured durations comes close enough to what was measured."""
        return self.replay_error_frac <= TRUSTED_FRAC


def what_if(replay: Replay, asked: Asked, changes: Sequence[Change] | None = None) -> WhatIf:
    """The answers for some changes, or for all that make sense; NotMeasured where the work takes no time."""
    chosen = all_changes(replay) if changes is None else list(changes)
    apart = _apart(replay)
    step_ns = replay.step_ns({"measured": replay.measured, "ideal": replay.ideal, **apart, **_named(chosen)})
    mean = {name: float(lengths.mean()) for name, lengths in step_ns.items()}
    if min(mean["measured"], mean["ideal"]) <= 0:
        raise NotMeasured("the run has no work that takes time in its complete steps: nothing could be mended")
    slowest, workers = _workers(replay, mean)
    last = [rank for rank, stage in replay.stage_of.items() if stage == max(replay.stage_of.values())]
    only = replay.step_ns({"workers": replay.only_ideal(workers), "stage": replay.only_ideal(last)})
    steps, path = _steps(replay, step_ns), critical_path(replay)
    saved = _saved(chosen, mean)
    if changes is None:
        saved = _with_microbatches(saved, asked, mean["measured"])
    return WhatIf(
        step_ns=round(mean["measured"]), measured_step_ns=round(float(steps["measured_ns"].mean())),
        ideal_step_ns=round(mean["ideal"]), slowdown=mean["measured"] / mean["ideal"],
        waste_frac=1 - mean["ideal"] / mean["measured"], replay_error_frac=_error(steps), doubts=_doubts(replay, steps),
        changes=saved, by_rank=_by(mean, "rank", replay.ranks), by_stage=_by(mean, "stage", _stages(replay)),
        by_class=_by(mean, "class", [*replay.classes, *replay.kinds]), steps=steps, path=path, path_shares=shares(path),
        slowest_workers=slowest, m_workers=_regained(mean, only["workers"]) if len(replay.ranks) > 1 else None,
        m_last_stage=_regained(mean, only["stage"]) if last else None,
    )  # fmt: skip


def _named(changes: Iterable[Change]) -> dict[str, Scenario]:
    return {f"change {one.what}": one.scenario for one in changes}


def _stages(replay: Replay) -> list[int]:
    return sorted(set(replay.stage_of.values()))


def _apart(replay: Replay) -> dict[str, Scenario]:
    """Each rank, stage, data-parallel rank and class with all but it ideal."""
    found: dict[str, Scenario] = {}
    if len(replay.ranks) <= MANY_RANKS:
        found |= {f"rank {rank}": replay.all_ideal_but([rank]) for rank in replay.ranks}
    for name, place_of in (("stage", replay.stage_of), ("data", replay.data_of)):
        for place in sorted(set(place_of.values())):
            found[f"{name} {place}"] = replay.all_ideal_but([rank for rank, own in place_of.items() if own == place])
    found |= {f"class {CLASSES[cls]}": replay.ideal_but_class(cls) for cls in replay.pace.classes}
    return found | {f"class {kind}": replay.ideal_but_kind(kind) for kind in replay.kinds}


def _by(mean: Mapping[str, float], key: str, names: Iterable[int | str]) -> pd.DataFrame:
    """S and waste of each, the slowest first."""
    rows = [(name, mean[f"{key} {name}"] / mean["ideal"]) for name in names if f"{key} {name}" in mean]
    table = pd.DataFrame(rows, columns=[key, "slowdown"])
    table["waste_frac"] = 1 - 1 / table["slowdown"]
    return table.sort_values("slowdown", ascending=False, kind="stable", ignore_index=True)


def _workers(replay: Replay, mean: Mapping[str, float]) -> tuple[tuple[int, ...], list[int]]:
    """The lowest rank of each of the slowest workers, the slowest first, and all their ranks.

    A worker is a place along the pipeline and among data-parallel ranks; where a run has neither, a rank.
    """
    workers: dict[tuple[int, int], list[int]] = {}
    for rank in replay.ranks:
        place = replay.stage_of.get(rank, -1), replay.data_of.get(rank, -1)
        workers.setdefault(place if place != (-1, -1) else (-1, -1 - rank), []).append(rank)

    def slowdown(place: tuple[int, int]) -> float:
        told = [mean.get(f"{name} {at}", math.inf) for name, at in zip(("stage", "data"), place, strict=True)]
        alone = mean.get(f"rank {workers[place][0]}", 0.0)
        return min(told) if min(told) < math.inf else alone

    ranked = sorted(workers, key=slowdown, reverse=True)[: math.ceil(SLOWEST_FRAC * len(workers))]
    return tuple(workers[place][0] for place in ranked), [rank for place in ranked for rank in workers[place]]


def _regained(mean: Mapping[str, float], lengths: npt.NDArray[np.float64]) -> float | None:
    """The share of what the ideal saves; null where it saves nothing."""
    saved = mean["measured"] - mean["ideal"]
    return (mean["measured"] - float(lengths.mean())) / saved if saved > 0 else None


def _saved(changes: Sequence[Change], mean: Mapping[str, float]) -> pd.DataFrame:
    base = mean["measured"]
    rows = [(one.what, one.words, mean[f"change {one.what}"]) for one in changes]
    table = pd.DataFrame(
        [(what, words, round(ns), round(base) - round(ns), (base - ns) / base) for what, words, ns in rows],
        columns=CHANGES,
    )
    return table.sort_values("saved_ns", ascending=False, kind="stable", ignore_index=True)


def _with_microbatches(changes: pd.DataFrame, asked: Asked, step_ns: float) -> pd.DataFrame:
    """With twice the micro-batches of the same batch, where the schedule is known.

    By arithmetic, no replay: the part of the bubble that the schedule must leave idle shrinks as its theory says.
    """
    try:
        rows = asked["pipeline"].dropna(subset=["must_ns", "schedule", "microbatches", "stages_per_rank"])
    except NotMeasured:
        return changes
    if rows.empty:
        return changes
    columns = ("schedule", "ranks", "microbatches", "stages_per_rank", "must_ns")
    saved = [_less_bubble(*row) for row in zip(*(rows[name].tolist() for name in columns), strict=True)]
    gain = float(np.mean(saved))
    count = int(rows["microbatches"].iloc[0])
    words = f"the same batch came in {2 * count} micro-batches instead of {count}"
    one = ("microbatches:2x", words, round(step_ns - gain), round(step_ns) - round(step_ns - gain), gain / step_ns)
    table = pd.concat([changes, pd.DataFrame([one], columns=CHANGES)], ignore_index=True)
    return table.sort_values("saved_ns", ascending=False, kind="stable", ignore_index=True)


def _less_bubble(schedule: str, ranks: int, microbatches: int, stages_per_rank: int, must_ns: int) -> float:
    """How much less of a bubble twice the micro-batches leave."""
    now = bubble_of_ideal(schedule, ranks, int(microbatches), int(stages_per_rank))
    then = bubble_of_ideal(schedule, ranks, 2 * int(microbatches), int(stages_per_rank))
    return float(must_ns) * (1 - then / now) if now and then is not None else 0.0


def _steps(replay: Replay, step_ns: Mapping[str, npt.NDArray[np.float64]]) -> pd.DataFrame:
    measured = replay.graph.measured_step_ns[replay.counted]
    replayed, ideal = step_ns["measured"], step_ns["ideal"]
    error = np.abs(replayed - measured) / np.where(measured > 0, measured, np.nan)
    slowdown = replayed / np.where(ideal > 0, ideal, np.nan)
    columns = (replay.step_numbers, np.rint(measured), np.rint(replayed), np.rint(ideal), error, slowdown)
    table = pd.DataFrame(dict(zip(STEPS, columns, strict=True)))
    return table.astype(dict.fromkeys(["measured_ns", "replayed_ns", "ideal_ns"], "int64"))


def _error(steps: pd.DataFrame) -> float:
    """How far the replayed steps are from the measured, all steps together."""
    return float((steps["replayed_ns"] - steps["measured_ns"]).abs().sum() / steps["measured_ns"].sum())


def _doubts(replay: Replay, steps: pd.DataFrame) -> tuple[str, ...]:
    """Why the replay is not to be trusted, where it is not."""
    if _error(steps) <= TRUSTED_FRAC:
        return ()
    doubts = []
    late = replay.unexplained_ns
    if late.sum() > 0:
        worst = replay.ranks[int(np.argmax(late))]
        doubts.append(
            f"work begins {late.sum() / len(steps) / 1e6:.3g} ms per step later than lanes, launches and waits "
            f"explain, most of it on rank {worst}"
        )
    alone = int((replay.run.calls["match"].isna()).sum())
    if alone:
        doubts.append(f"{alone} of {len(replay.run.calls)} communication calls have no counterpart at hand")
    if replay.graph.broken:
        doubts.append(f"{replay.graph.broken} dependencies go round in a circle: the ranks' clocks do not agree")
    return tuple(doubts) or ("the trace does not tell what the steps waited for",)
