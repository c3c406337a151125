"""How much of each rank's time is pipeline bubble, and how much of it must be?

Per rank and step of each pipeline of the layout (`group`: its ranks in the order of the stages, `stage` the rank's
place among them, 0 for the first). `window_ns` is the time from the first forward on any stage to the last backward on
any stage where annotations tell them (see `microbatches`), else the rank's step. `busy_ns` is, within it, compute, and
collectives launched inside a forward or backward without their waits; never sends and receives. `bubble_ns` = window −
busy. `bubble_frac` is its share of the window (the makespan), `bubble_ideal_frac` its ratio to `busy_ns` (the ideal
time). `theory_frac` and `theory_ideal_frac` are what the `schedule` must leave idle if all stages are alike: (p−1) /
(m+p−1) of the makespan and (p−1) / m of the ideal time for GPipe and 1F1B, with v·m for interleaved and 3·v·m for
zero-bubble schedules instead of m, where p is `ranks`, m `microbatches`, v `stages_per_rank`. The schedule is told by
the order of forwards and backwards on all ranks, or where no annotation tells them, by that of sends forward and back;
null where it is none of those known.

The bubble is told by phase: `warmup_ns` up to the rank's first backward, `cooldown_ns` after its last forward,
`steady_ns` between. And by cause, as a mean over the pipeline's ranks (the same on each of them, summing to the mean of
`bubble_ns`), where all ranks' forwards and backwards are known: `must_ns` is what the order of actions leaves idle with
equal stages and no transfers, by replaying it with the mean time of each kind of action; `imbalance_ns` is what stages'
own mean times add to the replayed makespan; `jitter_ns` what the actual times add, which differ between micro-batches
and hold gaps; `transfer_ns` is the rest: between what one stage has done and what the next begins. A part may be
negative where it makes up for another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from tracekit.actions import useful
from tracekit.axes import PIPELINE
from tracekit.errors import NotMeasured
from tracekit.intervals import Nanoseconds, Spans, length_within
from tracekit.model import Asked, Column, RankTables, Run
from tracekit.plan import pipeline, schedule
from tracekit.waiting import with_waits

COLUMNS = {
    "group": Column(),
    "rank": Column(),
    "stage": Column(),
    "step": Column(),
    "window_ns": Column("ns", better="down"),
    "busy_ns": Column("ns"),
    "bubble_ns": Column("ns", better="down"),
    "bubble_frac": Column("1", better="down"),
    "theory_frac": Column("1"),
    "bubble_ideal_frac": Column("1", better="down"),
    "theory_ideal_frac": Column("1"),
    "schedule": Column(),
    "microbatches": Column("1"),
    "ranks": Column("1"),
    "stages_per_rank": Column("1"),
    "warmup_ns": Column("ns", better="down"),
    "steady_ns": Column("ns", better="down"),
    "cooldown_ns": Column("ns", better="down"),
    "must_ns": Column("ns"),
    "imbalance_ns": Column("ns", better="down"),
    "jitter_ns": Column("ns", better="down"),
    "transfer_ns": Column("ns", better="down"),
}
STEP = ["group", "window", "step"]
CAUSES = ["must_ns", "imbalance_ns", "jitter_ns", "transfer_ns"]
PHASES = ["warmup_ns", "steady_ns", "cooldown_ns"]


def measure(asked: Asked) -> pd.DataFrame:
    """One row per pipeline, rank and step; NotMeasured where no ranks form a pipeline."""
    stages = _stages(asked)
    actions = _actions(asked, stages)
    windows = _windows(asked.run, stages, actions)
    run = with_waits(asked.run)
    told = run.map(partial(_of_rank, windows=windows, actions=actions))
    rows = windows.merge(told if "window" in told else told.assign(window=0), on=["rank", "window", "step"])
    plans = pd.DataFrame(list(_plans(rows, actions, asked.run)), columns=[*STEP, *PLAN])
    rows = rows.merge(plans, on=STEP).merge(_causes(rows, actions), on=STEP, how="left")
    rows = _with_shares(rows).astype(dict.fromkeys([*PHASES, *CAUSES], "Int64"))
    rows = rows.sort_values([*STEP, "stage"], kind="stable", ignore_index=True)
    return rows if run.several_windows else rows.drop(columns="window")


PLAN = ["schedule", "microbatches", "stages_per_rank", "theory_frac", "theory_ideal_frac"]


def _stages(asked: Asked) -> pd.DataFrame:
    """The ranks of each pipeline in its order: group, rank, stage, ranks."""
    try:
        places = asked["places"]
    except NotMeasured:
        places = pd.DataFrame(columns=["axis"])
    rows = places[places["axis"] == PIPELINE]
    if rows.empty:
        raise NotMeasured("the run has no pipeline: no stages in annotations, no group named so, no sends and receives")
    rows = rows.sort_values(["group", "place"])
    names = rows.groupby("group")["rank"].agg(lambda ranks: " ".join(map(str, ranks)))
    rows = rows.assign(group=rows["group"].map(names))
    return rows.rename(columns={"place": "stage", "size": "ranks"})[["group", "rank", "stage", "ranks"]]


def _actions(asked: Asked, stages: pd.DataFrame) -> pd.DataFrame:
    """The micro-batches' forwards and backwards of ranks in pipelines, each with its pipeline and the rank's place."""
    try:
        told = asked["microbatches"]
    except NotMeasured:
        told = pd.DataFrame(columns=["rank", "step", "stage", "action", "microbatch", "start_ns", "end_ns", "busy_ns"])
    told = told if "window" in told else told.assign(window=0)
    rows = told.merge(stages.rename(columns={"stage": "place"}), on="rank")
    return rows.assign(stage=rows["stage"].fillna(rows["place"])).sort_values("start_ns", kind="stable")


def _windows(run: Run, stages: pd.DataFrame, actions: pd.DataFrame) -> pd.DataFrame:
    """For each rank and step where its window begins and ends, and its first backward and last forward, if known."""
    actions = actions.astype({"start_ns": "Int64", "end_ns": "Int64"})  # floats, which else stand for null, are inexact
    forwards, backwards = actions[actions["action"] == "forward"], actions[actions["action"] != "forward"]
    whole = pd.DataFrame(
        {"begin_ns": forwards.groupby(STEP)["start_ns"].min(), "until_ns": backwards.groupby(STEP)["end_ns"].max()}
    ).dropna()
    whole = whole[whole["until_ns"] > whole["begin_ns"]]  # else the step, as where none are told
    own = pd.DataFrame(
        {
            "backward_ns": backwards.groupby(["rank", *STEP])["start_ns"].min(),
            "forward_ns": forwards.groupby(["rank", *STEP])["end_ns"].max(),
        }
    ).dropna()
    steps = run.steps[["rank", "window", "step", "start_ns", "end_ns"]].merge(stages, on="rank")
    rows = steps.merge(whole, on=STEP, how="left").merge(own, on=["rank", *STEP], how="left")
    known = rows["begin_ns"].notna()
    begin, until = rows["begin_ns"].where(known, rows["start_ns"]), rows["until_ns"].where(known, rows["end_ns"])
    return rows.assign(begin_ns=begin.astype("int64"), until_ns=until.astype("int64"), known=known)


def _of_rank(one: RankTables, windows: pd.DataFrame, actions: pd.DataFrame) -> pd.DataFrame:
    """Busy time in each step's window, and the bubble in its phases."""
    mine = windows[(windows["rank"] == one.rank) & (windows["window"] == one.window)]
    busy = useful(one, *_annotations(actions[(actions["rank"] == one.rank) & (actions["window"] == one.window)]))
    begin, until = mine["begin_ns"].to_numpy(), mine["until_ns"].to_numpy()
    rows = pd.DataFrame({"step": mine["step"].to_numpy(), "busy_ns": length_within(busy, begin, until)})
    known = (mine["known"] & mine["backward_ns"].notna()).to_numpy()
    backward = np.where(known, mine["backward_ns"].fillna(0).astype("int64"), begin).clip(begin, until)
    forward = np.where(known, mine["forward_ns"].fillna(0).astype("int64"), until).clip(backward, until)
    edges = [begin, backward, forward, until]
    for phase, start, end in zip(PHASES, edges, edges[1:], strict=False):
        rows[phase] = pd.array(_idle_within(busy, start, end), "Int64")
        rows[phase] = rows[phase].where(known)
    return rows


def _annotations(actions: pd.DataFrame) -> tuple[Nanoseconds, Nanoseconds]:
    """The annotations' own spans, each once, in order of start."""
    if actions.empty:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    spans = actions[["host_start_ns", "host_end_ns"]].drop_duplicates().sort_values("host_start_ns")
    return spans["host_start_ns"].to_numpy(np.int64), spans["host_end_ns"].to_numpy(np.int64)


def _idle_within(busy: Spans, starts: Nanoseconds, ends: Nanoseconds) -> Nanoseconds:
    return np.asarray(ends - starts - length_within(busy, starts, ends))


def _with_shares(rows: pd.DataFrame) -> pd.DataFrame:
    window_ns = rows["until_ns"] - rows["begin_ns"]
    bubble_ns = window_ns - rows["busy_ns"]
    return rows.assign(
        window_ns=window_ns,
        bubble_ns=bubble_ns,
        bubble_frac=bubble_ns / window_ns,
        bubble_ideal_frac=bubble_ns / rows["busy_ns"].where(rows["busy_ns"] > 0),
    )


@dataclass(frozen=True)
class _Found:
    """A schedule that was found; `name` is None where it is none of those known."""

    name: str | None
    microbatches: int | None
    stages_per_rank: int | None


def _plans(rows: pd.DataFrame, actions: pd.DataFrame, run: Run) -> Iterator[tuple[object, ...]]:
    """The schedule of each pipeline and step, and what theory makes of it."""
    told = dict(list(actions.groupby(STEP)))
    calls = run.calls[(run.calls["op"] == "send") & run.calls["peer"].notna()].sort_values("start_ns", kind="stable")
    for key, ranks in rows.groupby(STEP):
        size = int(ranks["ranks"].iloc[0])
        mine = told.get(key)
        found = _by_actions(mine, size) if mine is not None else _by_sends(calls, ranks, size)
        yield (*key, found.name, found.microbatches, found.stages_per_rank, *_theory(found, size))


def _by_actions(actions: pd.DataFrame, ranks: int) -> _Found:
    orders: list[list[schedule.Action]] = [[] for _ in range(ranks)]
    for place, action in zip(actions["place"], _as_actions(actions), strict=True):
        orders[place].append(action)
    stages = max(len({action.stage for action in order}) for order in orders)
    return _Found(schedule.recognised(orders), actions["microbatch"].nunique(), stages)


def _as_actions(rows: pd.DataFrame) -> list[schedule.Action]:
    told = zip(rows["action"].tolist(), rows["stage"].tolist(), rows["microbatch"].tolist(), strict=True)
    return [schedule.Action(action, int(stage), microbatch) for action, stage, microbatch in told]


def _by_sends(sends: pd.DataFrame, ranks: pd.DataFrame, size: int) -> _Found:
    places = dict(zip(ranks["rank"].tolist(), ranks["stage"].tolist(), strict=True))
    step, window = ranks["step"].iloc[0], ranks["window"].iloc[0]
    mine = sends[(sends["step"] == step) & (sends["window"] == window)]
    ends = zip(mine["rank"].tolist(), mine["peer"].tolist(), strict=True)
    inside = [(places[a], places[b]) for a, b in ends if a in places and b in places]
    return _Found(*(schedule.recognised_by_sends(inside, size) or (None, None, None)))


def _theory(found: _Found, ranks: int) -> tuple[float | None, float | None]:
    if not found.name or not found.microbatches or not found.stages_per_rank:
        return None, None
    job = (found.name, ranks, found.microbatches, found.stages_per_rank)
    return pipeline.bubble_of_makespan(*job), pipeline.bubble_of_ideal(*job)


def _causes(rows: pd.DataFrame, actions: pd.DataFrame) -> pd.DataFrame:
    """The mean bubble of each pipeline and step told by cause, where the actions of all its ranks are known."""
    told = dict(list(actions.groupby(STEP)))
    causes = [(*key, *_explained(ranks, told[key])) for key, ranks in rows.groupby(STEP) if _all_known(ranks)]
    return pd.DataFrame(causes, columns=[*STEP, *CAUSES]).astype({"window": "int64", "step": "int64"})


def _all_known(ranks: pd.DataFrame) -> bool:
    return len(ranks) == ranks["ranks"].iloc[0] and bool(ranks["forward_ns"].notna().all())


def _explained(ranks: pd.DataFrame, actions: pd.DataFrame) -> tuple[int, int, int, int]:
    """What the order must leave idle, what imbalance adds, what jitter adds, and the rest of the mean bubble."""
    busy = actions["busy_ns"].astype(float)
    bubble_ns = float((ranks["until_ns"] - ranks["begin_ns"] - ranks["busy_ns"]).mean())
    alike = busy.groupby(actions["action"]).transform("mean")
    balanced = _makespan(actions, alike)
    imbalanced = _makespan(actions, busy.groupby([actions["action"], actions["stage"]]).transform("mean"))
    actual = _makespan(actions, (actions["end_ns"] - actions["start_ns"]).astype(float))
    must, imbalance, jitter = balanced - float(alike.sum()) / len(ranks), imbalanced - balanced, actual - imbalanced
    return round(must), round(imbalance), round(jitter), round(bubble_ns - must - imbalance - jitter)


def _makespan(actions: pd.DataFrame, durations: pd.Series) -> float:
    return schedule.makespan(zip(actions["rank"].tolist(), _as_actions(actions), durations.tolist(), strict=True))
