"""Do transfers take longer wherever one rank takes part?

Each matched call's time is its shortest member's transfer. Calls of one operation, size, count of members and kind of
link are alike; within a step, the median time of those among the same members is compared with that of all other
members whose calls are alike, over the run. A rank's `factor` is the least of these ratios over the sets of members
that it is in (`groups` of them): a slow link slows every group of its rank, and a healthy neighbour meets others at
full speed. `slower_ns` is what the rank's calls take longer than alike ones by, 0 for a faster rank. Where a rank is in
one group only, that group's members cannot be told apart; where no calls are alike, nothing can be told.
The reasoning is tracekit's own.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from tracekit.errors import NotMeasured
from tracekit.model import NO_STEP, Asked, Column
from tracekit.transfers import shared_calls
from tracekit.waiting import why_not, with_waits

COLUMNS = {
    "rank": Column(),
    "step": Column(),
    "groups": Column("1"),
    "factor": Column("1", better="down"),
    "slower_ns": Column("ns", better="down"),
}
ALIKE = ["op", "bytes", "ranks", "link", "window"]
KEYS = ["window", "step"]


def measure(asked: Asked) -> pd.DataFrame:
    """One row per rank and step with calls that can be compared; NotMeasured where there are none."""
    run = with_waits(asked.run)
    met = shared_calls(run)
    met = met[met["time_ns"].notna() & (met["bytes"] > 0).fillna(False)]
    if met.empty:
        raise NotMeasured(why_not(run) if met.empty and run.calls["match"].isna().all() else _UNSIZED)
    members = run.calls[run.calls["match"].isin(met.index) & (run.calls["step"] != NO_STEP)]
    met = met.join(_who(members), how="inner").astype({"time_ns": float, "bytes": "int64"})
    usual = met.groupby([*ALIKE, "members", "step"])["time_ns"].agg(["median", "size"]).reset_index()
    told = usual.assign(other_ns=_of_others(usual)).dropna(subset="other_ns")
    told = told.assign(factor=told["median"] / told["other_ns"])
    if told.empty:
        raise NotMeasured("the run has no two groups whose calls are alike, so no transfer can be compared")
    rows = _by_rank(told, members.assign(members=met["members"].reindex(members["match"]).to_numpy()))
    return rows if run.several_windows else rows.drop(columns="window")


_UNSIZED = "the run has no matched call whose size and transfer its traces tell"


def _who(members: pd.DataFrame) -> pd.DataFrame:
    """Each match's step, window, and number of the set of ranks that meet in it."""
    by_match = members.sort_values("rank").groupby("match")
    told = by_match.agg(step=("step", "min"), window=("window", "min"), ranks=("rank", tuple))
    return told[["step", "window"]].assign(members=pd.factorize(told["ranks"])[0])


def _of_others(usual: pd.DataFrame) -> pd.Series:
    """For each row the median, over the run, of the sets of members that are not its own; null where none is alike."""
    over_run = usual.groupby([*ALIKE, "members"])["median"].median().rename("own_ns").reset_index()
    parts = over_run.groupby(ALIKE)["own_ns"]
    over_run["other_ns"] = parts.transform(lambda values: [_median(values.drop(label)) for label in values.index])
    keyed = usual[[*ALIKE, "members"]].merge(over_run, on=[*ALIKE, "members"], how="left")
    return keyed["other_ns"].set_axis(usual.index)


def _median(values: pd.Series) -> float:
    return float(values.median()) if len(values) else float("nan")


def _by_rank(told: pd.DataFrame, members: pd.DataFrame) -> pd.DataFrame:
    weight = told["other_ns"] * told["size"]
    sums = told.assign(weight=weight, weighted=told["factor"] * weight).groupby(["members", *KEYS])
    groups = sums[["weight", "weighted"]].sum().reset_index()
    groups["factor"] = groups["weighted"] / groups["weight"]
    groups["slower_ns"] = groups["weighted"] - groups["weight"]
    of_rank = members[["rank", "members"]].drop_duplicates().merge(groups, on="members")
    rows = of_rank.groupby(["rank", *KEYS])
    told = rows.agg(
        groups=("members", "nunique"), factor=("factor", "min"), slower_ns=("slower_ns", "sum")
    ).reset_index()
    return told.assign(slower_ns=np.rint(told["slower_ns"].clip(lower=0)).astype("int64"))
