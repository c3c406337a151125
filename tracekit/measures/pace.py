"""Does the same kernel take longer on one rank than on the others?

For each rank and step: each kernel's (on a CPU trace, operator's) median duration is compared, by name, with that of
the rank's peers over all complete steps: ranks at the same place of the pipeline or, where a place has one rank only,
all other ranks. `factor` is the median of these ratios, each name with the weight of its time, and `spread` their
median absolute deviation: a slow device slows all its kernels by about one factor, so that its spread is small beside
its excess. `slower_ns` is what the rank's compute (`compute_ns`, the sum of its kernels) would be shorter by at its
peers' pace, 0 for a faster rank. `work_factor` compares how many kernels there are in the same way: more of them is
more work, not a slow device. `peers` is how many ranks were compared with. That one factor tells a slow device from
more work is the reasoning of "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI 2025),
there by operation.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.errors import NotMeasured
from tracekit.evidence import roles
from tracekit.model import COMPUTE, NO_STEP, Asked, Column, RankTables

COLUMNS = {
    "rank": Column(),
    "step": Column(),
    "peers": Column("1"),
    "compute_ns": Column("ns", better="down"),
    "factor": Column("1", better="down"),
    "spread": Column("1"),
    "slower_ns": Column("ns", better="down"),
    "work_factor": Column("1"),
}
KEYS = ["window", "step"]


def measure(asked: Asked) -> pd.DataFrame:
    """One row per rank and step that computes; NotMeasured where no rank has peers that run the same kernels."""
    run = asked.run
    if run.ranks["rank"].nunique() == 1:
        raise NotMeasured("the run has no second rank whose kernels could be compared")
    times = run.map(_of_rank)
    times = times if "window" in times else times.assign(window=0)
    complete = run.steps.loc[run.steps["complete"], ["rank", *KEYS]]
    times = times.merge(complete, on=["rank", *KEYS])
    if times.empty:
        raise NotMeasured("the run has no complete step with compute")
    role = roles(asked)
    rows = pd.concat([_compared(part, role) for _, part in times.groupby("window")], ignore_index=True)
    if rows.empty:
        raise NotMeasured("the run has no two ranks that run the same kernels")
    return rows if run.several_windows else rows.drop(columns="window")


def _of_rank(one: RankTables) -> pd.DataFrame:
    """Per step and name: how many kernels, their median and their sum."""
    work = one.work[(one.work["kind"] == COMPUTE) & (one.work["step"] != NO_STEP)]
    length = work["end_ns"] - work["start_ns"]
    parts = length.groupby([work["step"], work["name"]], observed=True)
    rows = parts.agg(count="size", median_ns="median", total_ns="sum").reset_index()
    return rows.astype({"name": "str"})


def _compared(times: pd.DataFrame, role: Mapping[int, int]) -> pd.DataFrame:
    times = times.assign(role=[role.get(rank, 0) for rank in times["rank"].tolist()])
    usual = times.groupby(["role", "name", "rank"])[["median_ns", "count"]].median().reset_index()
    others = usual.groupby(["role", "name"], group_keys=False)[usual.columns.tolist()].apply(_of_others)
    told = times.merge(others, on=["role", "name", "rank"])
    told = told[(told["peer_ns"] > 0) & (told["peers"] > 0)]
    rows = [_row(key, part) for key, part in told.groupby(["rank", *KEYS])]
    return pd.DataFrame(rows, columns=["rank", *KEYS, *list(COLUMNS)[2:]])


def _of_others(rows: pd.DataFrame) -> pd.DataFrame:
    """For each rank the median of the other ranks."""
    return rows.assign(
        peers=len(rows) - 1,
        peer_ns=_median_of_others(rows["median_ns"].to_numpy(float)),
        peer_count=_median_of_others(rows["count"].to_numpy(float)),
    ).drop(columns=["median_ns", "count"])


def _median_of_others(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """For each value the median of all others; NaN where there is none."""
    count = len(values)
    if count == 1:
        return np.full(1, np.nan)
    order = np.argsort(values, kind="stable")
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    ordered, middle = values[order], (count - 1) // 2
    low, high = (middle - 1, middle) if (count - 1) % 2 == 0 else (middle, middle)
    one, other = (nth + (place <= nth) for nth in (low, high))
    return np.asarray((ordered[one] + ordered[other]) / 2)


def _row(key: tuple[Hashable, ...], part: pd.DataFrame) -> tuple[object, ...]:
    weight, ratio = part["total_ns"].to_numpy(float), (part["median_ns"] / part["peer_ns"]).to_numpy()
    factor = _weighted_median(ratio, weight)
    spread = _weighted_median(np.abs(ratio - factor), weight)
    work = _weighted_median((part["count"] / part["peer_count"]).to_numpy(), weight)
    compute_ns = int(part["total_ns"].sum())
    slower_ns = round(compute_ns * (1 - 1 / factor)) if factor > 1 else 0
    return (*key, int(part["peers"].max()), compute_ns, factor, spread, slower_ns, work)


def _weighted_median(values: npt.NDArray[np.float64], weights: npt.NDArray[np.float64]) -> float:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])
