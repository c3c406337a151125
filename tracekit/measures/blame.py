"""Who makes whom wait?

Each wait of a rank is charged to the member that arrived last, except for the part of its lateness that its own waits
explain: that part is charged to whom it waited for, and so on, so that healthy neighbours of a slow rank only pass
blame through. What explains are the last one's exposed waits since these members' call before, the latest first; of
waits on several lanes at once one counts. A rank's rows sum to its `waits`: `wait_ns` is all of a wait in its step, and
`exposed_wait_ns` the part in which it computes nothing. A rank may be charged with its own wait, where it had kept the
one that then kept it. Waits below the error of the clocks are charged like others.
The passing through is tracekit's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.intervals import Nanoseconds, Spans, length_within, union
from tracekit.model import Asked, Column, RankTables, Run
from tracekit.waiting import arrivals_ns, exposed_wait, measured, waits_in_steps

COLUMNS = {
    "rank": Column(),
    "blamed_rank": Column(),
    "wait_ns": Column("ns", better="down"),
    "exposed_wait_ns": Column("ns", better="down"),
}
WAITS = ["wait_ns", "exposed_wait_ns"]

Charged = npt.NDArray[np.float64]


def measure(asked: Asked) -> pd.DataFrame:
    """One row per rank that waits and rank that is to blame, the longest first; NotMeasured where no wait is known."""
    run = measured(asked.run)
    waits, spans = run.map(_waits), run.map(_exposed)
    windows = sorted(set(run.ranks["window"]))
    parts = [_of_window(run, window, _in(waits, window), _in(spans, window)) for window in windows]
    rows = pd.concat(parts, ignore_index=True)
    return rows if run.several_windows else rows.drop(columns="window")


def _waits(one: RankTables) -> pd.DataFrame:
    return waits_in_steps(one).groupby("match")[WAITS].sum().reset_index()


def _exposed(one: RankTables) -> pd.DataFrame:
    spans = exposed_wait(one)
    return pd.DataFrame({"start_ns": spans.starts, "end_ns": spans.ends})


def _in(rows: pd.DataFrame, window: int) -> pd.DataFrame:
    return rows[rows["window"] == window] if "window" in rows else rows


def _of_window(run: Run, window: int, waits: pd.DataFrame, exposed: pd.DataFrame) -> pd.DataFrame:
    ranks = np.unique(run.ranks.loc[run.ranks["window"] == window, "rank"])
    calls = run.calls[(run.calls["window"] == window) & run.calls["wait_ns"].notna()]
    spans = {
        int(rows["rank"].iloc[0]): union(rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy())
        for _, rows in exposed.groupby("rank")
    }
    return _rows(_charged(_explained(_chains(calls, waits), spans), ranks), ranks).assign(window=window)


def _chains(calls: pd.DataFrame, waits: pd.DataFrame) -> pd.DataFrame:
    """The waits in the order in which they end, with the end of these members' call before."""
    by_match = calls.assign(arrival_ns=arrivals_ns(calls)).groupby("match")
    each = pd.DataFrame({"arrival_ns": by_match["arrival_ns"].max(), "over_ns": by_match["end_ns"].max()})
    each["members"] = _members(calls)
    mine = calls[["rank", "match", "start_ns", "last_rank"]].merge(waits, on=["rank", "match"])
    mine = mine.join(each[["arrival_ns", "members"]], on="match").sort_values("start_ns")
    ended = each[["members", "over_ns"]].sort_values("over_ns")
    ended["before_ns"] = ended["over_ns"].astype("Int64")
    chains = pd.merge_asof(mine, ended, left_on="start_ns", right_on="over_ns", by="members")
    chains["before_ns"] = chains["before_ns"].fillna(calls["start_ns"].min()).astype("int64")
    return chains.sort_values(["arrival_ns", "match"], ignore_index=True)


def _members(calls: pd.DataFrame) -> pd.Series:
    """A number for each match, the same for those in which the same ranks meet, whatever their groups."""
    alike = ["group", "count", "lowest", "highest"]
    matches = calls.groupby("match").agg(
        group=("group", "first"), count=("rank", "size"), lowest=("rank", "min"), highest=("rank", "max")
    )
    kind = matches.groupby(alike).ngroup()
    one_of_each = calls[calls["match"].isin(kind.drop_duplicates().index)].sort_values("rank")
    ranks = one_of_each.groupby("match")["rank"].agg(tuple)
    members = pd.Series(pd.factorize(ranks)[0], index=kind[ranks.index])
    return kind.map(members)


def _explained(chains: pd.DataFrame, exposed: dict[int, Spans]) -> pd.DataFrame:
    """The chains with `explained_ns`, what the last member's own waits explain, and `since_ns`, when these begin."""
    explained_ns, since_ns = np.zeros((2, len(chains)), np.int64)
    for last, spans in exposed.items():
        rows = np.flatnonzero(chains["last_rank"] == last)
        mine = chains.iloc[rows]
        waited_ns = length_within(spans, mine["before_ns"], mine["arrival_ns"])
        explained_ns[rows] = np.minimum(waited_ns, mine["wait_ns"])
        since_ns[rows] = _beginning(spans, mine["arrival_ns"].to_numpy(), explained_ns[rows])
    return chains.assign(explained_ns=explained_ns, since_ns=since_ns)


def _beginning(spans: Spans, until_ns: Nanoseconds, length_ns: Nanoseconds) -> Nanoseconds:
    """The start of the span in which the last so many nanoseconds of the set before each time begin."""
    before_each = np.cumsum(spans.ends - spans.starts) - (spans.ends - spans.starts)
    left_ns = length_within(spans, np.full(len(until_ns), spans.starts[0]), until_ns) - length_ns
    return spans.starts[np.maximum(np.searchsorted(before_each, left_ns, side="right") - 1, 0)]


def _charged(chains: pd.DataFrame, ranks: npt.NDArray[np.int64]) -> Charged:
    """Nanoseconds by rank that waits and rank that is charged: all of the waits, and what of them is exposed.

    Waits are charged in the order in which they end, so that those that explain come before those that they explain.
    """
    charged = np.zeros((len(WAITS), len(ranks), len(ranks)))
    waits = chains[WAITS].to_numpy(np.float64).T
    waiter, last = (np.searchsorted(ranks, chains[name].astype("int64")) for name in ("rank", "last_rank"))
    passed = (chains["explained_ns"] / chains["wait_ns"]).to_numpy()
    before: dict[int, Charged] = {}
    for begins, first, end in _in_time(chains):
        if begins:
            before[first] = charged[1, last[first]].copy()
            continue
        shares = _passed_on(charged[1, last[first]], [before.pop(row, None) for row in range(first, end)])
        shares *= passed[first:end, None]
        shares[:, last[first]] += 1 - shares.sum(axis=1)
        charged[:, waiter[first:end]] += shares * waits[:, first:end, None]
    return charged


def _in_time(chains: pd.DataFrame) -> Iterator[tuple[bool, int, int]]:
    """What happens in order of time: what explains a row begins, or the rows from one to another are over."""
    explained = np.flatnonzero(chains["explained_ns"] > 0)
    match = chains["match"].to_numpy(np.int64)
    first = np.flatnonzero(np.diff(match, prepend=-1))
    end = np.append(first[1:], len(match))
    times = np.concatenate((chains["since_ns"].to_numpy()[explained], chains["arrival_ns"].to_numpy()[first]))
    froms, tos = np.concatenate((explained, first)).tolist(), np.concatenate((explained + 1, end)).tolist()
    for place in np.argsort(times, kind="stable").tolist():
        yield place < len(explained), froms[place], tos[place]


def _passed_on(now: Charged, before: Sequence[Charged | None]) -> Charged:
    """To whom the last member's own waits since then were charged, as shares; nothing where it did not wait."""
    since = np.array([np.zeros(len(now)) if one is None else now - one for one in before])
    total = since.sum(axis=1, keepdims=True)
    shares: Charged = np.divide(since, total, out=np.zeros_like(since), where=total > 0)
    return shares


def _rows(charged: Charged, ranks: npt.NDArray[np.int64]) -> pd.DataFrame:
    """The charges as rows of whole nanoseconds, each rank's with the sum that they had."""
    whole = np.diff(np.rint(np.cumsum(charged, axis=2)), axis=2, prepend=0).astype(np.int64)
    rank, blamed = np.nonzero(whole[0])
    rows = pd.DataFrame({
        "rank": ranks[rank], "blamed_rank": ranks[blamed], **dict(zip(WAITS, whole[:, rank, blamed], strict=True)),
    })  # fmt: skip
    return rows.sort_values(["rank", "wait_ns"], ascending=[True, False], kind="stable", ignore_index=True)
