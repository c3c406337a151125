"""Where does each rank stand in the job's layout?

One row per rank and axis (data, pipeline, context, tensor, expert): the axis' `group` that the rank is in, numbered
from 0 by lowest rank, and its `place` there, from 0. Places along the pipeline are in the order of its stages, along
other axes in the order in which the group lists its members. `size` is the number of ranks in the group. Ranks whose
files are missing have rows too where the groups list them. How axes are found, and what `confidence` means, is told by
`layout`, which sums this up; `told_by` is what told the axis: name, stages, transfers or operations.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from tracekit import axes
from tracekit.errors import NotMeasured
from tracekit.intervals import length_within
from tracekit.model import COMPUTE, Asked, Column, RankTables

COLUMNS = {
    "rank": Column(),
    "axis": Column(),
    "group": Column(),
    "place": Column(),
    "size": Column("1"),
    "confidence": Column("1"),
    "told_by": Column(),
}


def measure(asked: Asked) -> pd.DataFrame:
    """One row per rank and axis; NotMeasured where no ranks form any."""
    run = asked.run
    ranks = sorted(set(run.ranks["rank"].tolist()))
    world = max(run.world_size or 0, len(ranks))
    calls = run.calls.assign(progress=_progress(asked))
    rows = [
        (rank, axis.name, nth, place, axis.size, axis.confidence, axis.told_by)
        for axis in axes.find(calls, ranks, world, _stages(asked))
        for nth, group in enumerate(axis.groups)
        for place, rank in enumerate(group)
    ]
    if not rows:
        raise NotMeasured("the run has no ranks that communicate with each other in process groups")
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _stages(asked: Asked) -> dict[int, int]:
    """The first stage of each rank whose annotations tell it."""
    try:
        told = asked["microbatches"].dropna(subset="stage")
    except NotMeasured:
        return {}
    lowest = told.groupby("rank")["stage"].min()
    return {int(rank): int(stage) for rank, stage in zip(lowest.index, lowest, strict=True)}


def _progress(asked: Asked) -> pd.Series:
    """For each call the share of its step's compute that was done when it began; null outside all steps."""
    keys = ["rank", "window"]
    calls = asked.run.calls[keys].assign(nth=asked.run.calls.groupby(keys).cumcount())
    told = asked.run.map(_of_rank)
    joined = calls.merge(told if "window" in told else told.assign(window=0), on=[*keys, "nth"], how="left")
    return joined["progress"].set_axis(calls.index)


def _of_rank(one: RankTables) -> pd.DataFrame:
    start_ns = one.calls["start_ns"].to_numpy()
    nth = one.nth_step(start_ns)
    inside = nth >= 0
    begin = np.append(one.steps["start_ns"].to_numpy(), 0)[nth]
    end = np.append(one.steps["end_ns"].to_numpy(), 0)[nth]
    compute = one.busy(COMPUTE)
    done, whole = length_within(compute, begin, np.where(inside, start_ns, begin)), length_within(compute, begin, end)
    progress = np.where(inside & (whole > 0), done / np.maximum(whole, 1), np.nan)
    return pd.DataFrame({"nth": np.arange(len(start_ns)), "progress": progress})
