"""What stands under the table of ranks, as plain values: what is exposed, why ranks idle, which kernels take long.

Means are per complete step: first of each rank (in each window), then over the ranks, as the table's last row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured
from tracekit.idling import CAUSES
from tracekit.model import Run
from tracekit.report.account import in_complete_steps
from tracekit.split import UNKNOWN

Shares = dict[str, float]
"""Nanoseconds a step by name, the longest first, without those that are nothing."""


@dataclass(frozen=True)
class Kernel:
    """One kernel (or operator, or copy) over all ranks; calls and time are means per rank and step."""

    kind: str
    name: str
    calls: float
    per_step_ns: float
    mean_ns: float
    step_frac: float


@dataclass(frozen=True)
class Copies:
    """Copies in one direction, means per rank and step; None where a size is unknown."""

    direction: str
    copies: float
    byte_count: float | None
    bandwidth_gbs: float | None


@dataclass(frozen=True)
class Peak:
    """The most memory that tensors held on one device in any step, and where that was."""

    rank: int
    step: int
    device: str
    allocated_bytes: int
    reserved_bytes: int


def exposed_by(analysis: Analysis, measure: str, key: str) -> Shares:
    """Exposed communication a step by the `key` of `overlap_operation` or `overlap_group`."""
    rows = step_shares(analysis[measure], analysis.run, ["exposed_ns"])
    return _shares(rows.groupby(key)["exposed_ns"].sum())


def exposed_by_axis(analysis: Analysis) -> Shares:
    """Exposed communication a step by axis of the layout; nothing where no axis but "unknown" is found."""
    try:
        by_axis = exposed_by(analysis, "exposed", "axis")
    except NotMeasured:
        return {}
    return by_axis if set(by_axis) - {UNKNOWN} else {}


def blamed(analysis: Analysis) -> Shares:
    """Exposed waiting of all ranks by the rank that is blamed for it."""
    return _shares(analysis["blame"].groupby("blamed_rank")["exposed_wait_ns"].sum())


def waits_by_operation(analysis: Analysis) -> Shares:
    """Waiting of all ranks by operation; sends and receives wait for each other."""
    rows = analysis["collectives"]
    return _shares(rows.groupby(rows["op"].replace("send", "send/recv"))["wait_ns"].sum())


def bus_bandwidth(analysis: Analysis, from_bytes: int) -> Shares:
    """Bus bandwidth in GB/s by operation and link, of messages of at least so many bytes, what took longest first."""
    rows = analysis["bandwidth"]
    large = rows[(rows["from_bytes"] >= from_bytes) & (rows["algbw_gbs"] > 0)]
    told = large["op"].replace("send", "send/recv") + large["link"].map(lambda link: f" {link}").replace(" unknown", "")
    timed = large.assign(told=told, time_ns=large["bytes"] / large["algbw_gbs"])
    timed["moved"] = timed["busbw_gbs"] * timed["time_ns"]
    sums = timed.groupby("told")[["moved", "time_ns"]].sum().sort_values("time_ns", ascending=False)
    return {str(what): float(moved / ns) for what, moved, ns in sums.itertuples()}


def ends_apart_ns(run: Run, operations: Sequence[str]) -> list[int]:
    """For each matched call of several ranks how far apart its members end, on the one clock."""
    ended = run.calls["device_work"] & run.calls["arrival_ns"].isna()  # else the call's span is a program's wait for it
    calls = run.calls[run.calls["match"].notna() & run.calls["op"].isin(operations) & ended]
    ends = calls.groupby("match")["end_ns"]
    return [int(apart) for apart in ends.max() - ends.min()]


def idle_by_cause(analysis: Analysis) -> Shares:
    """Idle time a step by cause, named without `_ns`."""
    return _causes(step_shares(analysis["idle"], analysis.run, CAUSES)[list(CAUSES)].sum())


def most_idle(analysis: Analysis) -> tuple[int, Shares]:
    """The rank that idles most a step, and its idle time by cause; there has to be a complete step."""
    rows = in_complete_steps(analysis["idle"], analysis.run)
    rank = int(rows.groupby("rank")["idle_ns"].mean().idxmax())  # type: ignore[call-overload]
    return rank, _causes(rows.loc[rows["rank"] == rank, list(CAUSES)].mean())


def _causes(lengths: pd.Series) -> Shares:
    return _shares(lengths.rename(lambda name: str(name).removesuffix("_ns")))


def top_kernels(analysis: Analysis, limit: int) -> list[Kernel]:
    """The kernels with the most time a step, means over all ranks; which steps count is told by the measure."""
    rows = analysis["kernels"]
    ranks = len(rows[[key for key in ("rank", "window") if key in rows]].drop_duplicates())
    per_step = rows["per_step_ns"] / rows["total_ns"].where(rows["total_ns"] > 0)
    sums = (
        rows.assign(calls=(rows["calls"] * per_step).fillna(0))
        .groupby(["kind", "name"], observed=True)[["calls", "per_step_ns", "step_frac"]]
        .sum()
        .sort_values("per_step_ns", ascending=False, kind="stable")
    )
    return [
        Kernel(str(kind), str(name), calls / ranks, ns / ranks, ns / calls if calls else 0.0, frac / ranks)
        for (kind, name), calls, ns, frac in sums.head(limit).itertuples()
    ]


def copies(analysis: Analysis) -> list[Copies]:
    """Copies by direction, the most time first."""
    every = analysis["copies"]
    sized = every.assign(sized_ns=every["bytes"] / every["bandwidth_gbs"].where(every["bandwidth_gbs"] > 0))
    rows = step_shares(sized, analysis.run, ["copies", "bytes", "copy_ns", "sized_ns"])
    busy = rows.groupby("direction")["copy_ns"].sum().sort_values(ascending=False, kind="stable")
    return [_copies(str(direction), rows[rows["direction"] == direction]) for direction in busy.index]


def _copies(direction: str, rows: pd.DataFrame) -> Copies:
    byte_count = None if rows["bytes"].isna().any() else float(rows["bytes"].sum())
    timed = rows[rows["sized_ns"].notna()]
    sized_ns = float(timed["sized_ns"].sum())
    bandwidth = float(timed["bytes"].sum()) / sized_ns if sized_ns else None
    return Copies(direction, float(rows["copies"].sum()), byte_count, bandwidth)


def host(analysis: Analysis) -> dict[str, float]:
    """The host measure's columns, means per rank and step; without those that the trace does not show."""
    rows = in_complete_steps(analysis["host"], analysis.run)
    keys = [key for key in ("rank", "window") if key in rows]
    means = rows.drop(columns="step").astype("Float64").groupby(keys).mean().mean()
    return {str(name): float(value) for name, value in means.dropna().items()}


def peak_memory(analysis: Analysis) -> Peak:
    """The highest peak in any step of any rank, on devices other than the CPU if there are."""
    rows = analysis["memory"]
    on_device = rows[rows["device"] != "cpu"]
    most = (rows if on_device.empty else on_device).sort_values("peak_allocated_bytes", kind="stable").iloc[-1]
    return Peak(
        int(most["rank"]), int(most["step"]), str(most["device"]),
        int(most["peak_allocated_bytes"]), int(most["peak_reserved_bytes"]),
    )  # fmt: skip


def step_shares(rows: pd.DataFrame, run: Run, columns: Sequence[str]) -> pd.DataFrame:
    """The rows of complete steps, with columns weighted so that their sums are means per rank and step."""
    keys = [key for key in ("rank", "window") if key in rows]
    complete = run.steps[run.steps["complete"]].groupby(keys).size()
    weights = (1 / complete / max(len(complete), 1)).rename("weight").reset_index()
    kept = in_complete_steps(rows, run).merge(weights, on=keys)
    return kept.assign(**{column: kept[column].astype("Float64") * kept["weight"] for column in columns})


def _shares(sums: pd.Series) -> Shares:
    longest_first = sums[sums > 0].sort_values(ascending=False, kind="stable")
    return {str(name): float(ns) for name, ns in longest_first.items()}
