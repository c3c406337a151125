"""Which times in which nothing is seen of a rank's host and device are waits for other ranks.

A program may meet other ranks where its profiler does not look: a barrier through a store, a loss averaged over gloo, a
group whose other members have no file. Such a wait looks like the host's own work, but it ends on several ranks at
once, with calls of one kind, however far apart they were when it began. Where that is so they are taken to have met:
none goes on before the last of them has come, which need not have waited itself. What is longer than that is taken as
waiting for somebody unseen if it could be longer still without making any step longer. All other times, those that
decide a step's length among them, are taken as the host's own work.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pandas as pd

TOGETHER_NS = 10_000
TOGETHER_FRAC = 0.01
"""Times end together that end within this, or within this share of their length, of each other."""
APART = 4
"""They began apart if their beginnings are spread over so many times more than their ends."""
FREE_FRAC = 0.01
"""A time decides a step's length if it could be longer by less than this share of itself."""

COLUMNS = ["rank", "unseen", "call", "meeting", "latest_ns", "waited_ns", "step"]
NOBODY = pd.DataFrame(columns=COLUMNS, dtype="int64")


def met(times: pd.DataFrame, issued: pd.DataFrame) -> pd.DataFrame:
    """Who met unseen: `rank`, which of its `unseen` times ended so (-1 for who did not wait, with its `call`), the
    number of the `meeting`, when the last came (`latest_ns`), and how much of the time is waiting (`waited_ns`).

    `times` are `rank, unseen, call, what, begin_ns, end_ns, slack_ns`: with what kind of call each ends; `issued` are
    all calls, `rank, call, what, begin_ns`.
    """
    rows = list(_met(times, issued))
    return pd.concat(rows, ignore_index=True)[COLUMNS] if rows else NOBODY


def _met(times: pd.DataFrame, issued: pd.DataFrame) -> Iterator[pd.DataFrame]:
    calls = {what: rows.sort_values("begin_ns") for what, rows in issued.groupby("what")}
    nothing = issued.iloc[:0]
    for nth, cluster in enumerate(_clusters(times)):
        others = _others(cluster, calls.get(cluster["what"].iloc[0], nothing))
        everyone = pd.concat([cluster, others], ignore_index=True)
        spread = everyone[["begin_ns", "end_ns"]].max() - everyone[["begin_ns", "end_ns"]].min()
        apart = spread["begin_ns"] > APART * max(spread["end_ns"], TOGETHER_NS / APART)
        if apart and everyone["rank"].nunique() > 1:
            latest = int(everyone["begin_ns"].max())
            yield everyone.assign(meeting=nth, latest_ns=latest, waited_ns=_waited(everyone, latest))


def _clusters(times: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Times that end together, with one kind of call."""
    for _, rows in times.groupby("what"):
        rows = rows.sort_values("end_ns", kind="stable")
        length = (rows["end_ns"] - rows["begin_ns"]).to_numpy()
        near = np.maximum(TOGETHER_NS, TOGETHER_FRAC * np.minimum(length[1:], length[:-1]))
        cluster = np.cumsum(np.append(True, np.diff(rows["end_ns"].to_numpy()) > near))
        for _, members in rows.groupby(cluster):
            yield members


def _others(cluster: pd.DataFrame, calls: pd.DataFrame) -> pd.DataFrame:
    """Ranks that issued such a call then without having waited, and none before while the others waited.

    Who does is busy with calls all the time, and meets nobody by chance.
    """
    length = (cluster["end_ns"] - cluster["begin_ns"]).min()
    near = max(TOGETHER_NS, TOGETHER_FRAC * length)
    end = cluster["end_ns"].min()
    first, last = calls["begin_ns"].searchsorted([end - near, end + TOGETHER_NS])
    rows = calls.iloc[first:last]
    busy = calls.iloc[calls["begin_ns"].searchsorted(cluster["begin_ns"].min()) : first]["rank"]
    rows = rows[~rows["rank"].isin(cluster["rank"]) & ~rows["rank"].isin(busy)].drop_duplicates("rank")
    return rows.assign(end_ns=rows["begin_ns"], unseen=-1, slack_ns=0.0)


def _waited(everyone: pd.DataFrame, latest_ns: int) -> npt.NDArray[np.int64]:
    """Until the last came; to the end where that makes no step longer."""
    length = (everyone["end_ns"] - everyone["begin_ns"]).to_numpy()
    free = everyone["slack_ns"].to_numpy() > FREE_FRAC * length
    return np.where(free, length, np.minimum(latest_ns - everyone["begin_ns"].to_numpy(), length))
