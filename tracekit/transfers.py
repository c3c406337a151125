"""What matched calls move, how long that takes, over what kind of link, and the bandwidth that comes of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from tracekit.model import Run
from tracekit.plan.collectives import bus_factor

INSIDE_HOST, BETWEEN_HOSTS, UNKNOWN_LINK = "inside a host", "between hosts", "unknown"


def group_sizes(calls: pd.DataFrame) -> pd.Series:
    """How many ranks each call's group has: as its file tells, else as many as show the call; null where none tells."""
    shown = calls.groupby("match")["rank"].transform("nunique").astype("Int64")
    return calls["group_size"].fillna(shown)


def shared_calls(run: Run) -> pd.DataFrame:
    """The matched calls of a run whose calls carry waits, a row each; a send and its receive are one call, a `send`.

    `group`, `op`, `ranks` in the group; `bytes`, null where not told; `wait_ns` and `transfer_ns`, sums over the
    members, null where one's is unknown; `time_ns`, the shortest member's transfer, null where there is none; `link`.
    """
    calls = run.calls[run.calls["match"].notna()]
    calls = calls.assign(op=calls["op"].replace("recv", "send"), ranks=group_sizes(calls), host=_hosts(run, calls))
    members = calls.groupby("match")
    rows = members[["group", "op", "ranks"]].first()
    count, shortest = members.size(), members["transfer_ns"].min()
    for name in ("wait_ns", "transfer_ns"):
        rows[name] = members[name].sum().where(members[name].count() == count)
    return rows.assign(bytes=members["bytes"].max(), time_ns=shortest.where(shortest > 0), link=_links(members))


def _hosts(run: Run, calls: pd.DataFrame) -> pd.Series:
    """Each call's host, null where it is not told."""
    told = run.ranks.set_index(["rank", "window"])["host"].replace("", None)
    found = told.reindex(pd.MultiIndex.from_frame(calls[["rank", "window"]]))
    return found.set_axis(calls.index)


def _links(members: Any) -> pd.Series:
    """Whether the hosts of each call's members are one, several, or not told."""
    hosts, told, count = members["host"].nunique(), members["host"].count(), members.size()
    one, several = (hosts == 1) & (told == count), hosts > 1
    return pd.Series(np.select([several, one], [BETWEEN_HOSTS, INSIDE_HOST], UNKNOWN_LINK), hosts.index, dtype="str")


def speeds(calls: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Bandwidths of shared calls: `algbw_gbs`, `busbw_gbs` and `busbw_median_gbs` of those with a known size and time.

    Null where there are none.
    """
    sized = calls[calls["bytes"].notna() & calls["time_ns"].notna()].astype({"bytes": float, "time_ns": float})
    kinds = zip(sized["op"], sized["ranks"].astype(int), strict=True)
    bus_bytes = sized["bytes"] * [bus_factor(op, ranks) for op, ranks in kinds]
    sized = sized.assign(bus_bytes=bus_bytes, busbw_median_gbs=bus_bytes / sized["time_ns"])
    groups = sized.groupby(by)
    sums = groups[["bytes", "bus_bytes", "time_ns"]].sum()
    rows = pd.DataFrame({
        "algbw_gbs": sums["bytes"] / sums["time_ns"], "busbw_gbs": sums["bus_bytes"] / sums["time_ns"],
        "busbw_median_gbs": groups["busbw_median_gbs"].median(),
    })  # fmt: skip
    return rows.astype("Float64")
