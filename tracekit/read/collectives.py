"""Which calls of different ranks are one call.

In this order: by `Comms Id`, which names one call; by process group and sequence number, counted apart for collectives
and for sends and receives; by order in the group, counted from the end, which gives a first clock; and by nearest
overlapping ends on that clock (or on the files' own, if more calls meet there), so that a lost head, middle or tail
shifts nothing. A call is matched only if every member whose file is at hand shows it. `how` says what was used; what
stays unmatched has `none`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.read import clock
from tracekit.read.calls import ALL_RANKS
from tracekit.read.groups import Group, Local, find_groups

PEER_TO_PEER = ("send", "recv")
UNEQUAL_SIZES = ("all_to_all", "gather", "scatter", "sendrecv")
"""Operations whose size may differ between members."""
SHIFTS = (0, 1, -1, 2, -2, 3, -3, 4, -4)
"""By so many calls one rank's end may be missing when the order is counted from there."""
SHIFT_MIN_CALLS, SHIFT_BETTER = 4, 4.0
"""Another order than from the end needs so many shared calls, and ends that lie so many times closer together."""

Codes = npt.NDArray[np.int64]


def match(
    calls: pd.DataFrame, ranks: Sequence[int], hosts: Mapping[int, str | None], on_cpu: frozenset[int]
) -> tuple[pd.DataFrame, dict[int, clock.Clock], list[list[int]]]:
    """The calls with `group`, `match` and `how` across ranks, on one clock; the clocks; and the parts nothing ties.

    `calls` is of one window and on the files' own clocks.
    """
    groups = find_groups(calls, ranks)
    rows = _prepared(calls, groups)
    rows = _by_id(rows)
    rows = _by_sequence(rows)
    rows = _by_time(rows, _clocks(_by_order(rows), ranks, hosts, on_cpu)[0])
    clocks, parts = _clocks(rows, ranks, hosts, on_cpu)
    return _finished(calls, rows, clocks), clocks, parts


def _prepared(calls: pd.DataFrame, groups: Mapping[Local, Group]) -> pd.DataFrame:
    """What matching looks at: columns of the calls, their group as a number, and both ends of sends and receives."""
    which, mine = _group_of_each(calls, groups)
    numbers = {group: number for number, group in enumerate(dict.fromkeys(mine))}
    scopes = {at_hand: number for number, at_hand in enumerate({group.at_hand: None for group in numbers})}
    p2p = calls["op"].isin(PEER_TO_PEER).to_numpy()
    peers = _global_peers(calls, which, mine, p2p)
    sends = (calls["op"] == "send").to_numpy()
    rank = calls["rank"].to_numpy()
    return pd.DataFrame(
        {
            "rank": rank,
            "op": calls["op"].astype("category").cat.codes.to_numpy(),
            "unequal": calls["op"].isin(UNEQUAL_SIZES).to_numpy(),
            "named": calls["op"].to_numpy(object),
            "group": np.array([numbers[group] for group in mine], np.int64)[which],
            "scope": np.array([scopes[group.at_hand] for group in mine], np.int64)[which],
            "expected": np.array([len(group.at_hand) for group in mine], np.int64)[which],
            "alone": np.array([group.alone for group in mine], bool)[which],
            "label": np.array([group.name for group in mine], object)[which],
            "p2p": p2p,
            "source": np.where(sends, rank, peers),
            "destination": np.where(sends, peers, rank),
            "seq": calls["seq"],
            "bytes": calls["bytes"].fillna(-1).astype("int64"),
            "comms_id": calls["comms_id"],
            "start_ns": calls["arrival_ns"].fillna(calls["start_ns"]).astype("int64"),
            "end_ns": calls["end_ns"],
            "key": pd.Series(pd.NA, index=calls.index, dtype="Int64"),
            "how": "none",
        },
        index=calls.index,
    )


def _group_of_each(calls: pd.DataFrame, groups: Mapping[Local, Group]) -> tuple[Codes, list[Group]]:
    """The group of each local group of the calls, and for each call its place among these."""
    columns = ["rank", "group", "group_ranks"]
    which = np.asarray(calls.groupby(columns, dropna=False, sort=False).ngroup(), np.int64)
    firsts = calls[columns].drop_duplicates().itertuples(index=False)
    return which, [groups[rank, group, text if isinstance(text, str) else None] for rank, group, text in firsts]


def _global_peers(calls: pd.DataFrame, which: Codes, groups: Sequence[Group], p2p: npt.NDArray[np.bool_]) -> Codes:
    """The peers of sends and receives as ranks of the job (a file may count within the group); -1 where unknown."""
    peers = calls["peer"].fillna(-1).to_numpy(np.int64).copy()
    for place in np.flatnonzero(p2p).tolist():
        members = groups[which[place]].members
        if members and peers[place] not in members and 0 <= peers[place] < len(members):
            peers[place] = members[peers[place]]
    return peers


def _open(rows: pd.DataFrame) -> pd.Series:
    """Calls that still look for their peers."""
    return rows["key"].isna() & ~rows["alone"] & (rows["expected"] > 1)


def _keyed(rows: pd.DataFrame, among: pd.Series, by: list[str], how: str) -> pd.DataFrame:
    """Matches calls that agree in some columns, if each expected member has just one of them.

    Where ranks have several calls that agree (coalesced ones share a number), the first belongs to the first.
    """
    some = rows[among]
    if not len(some):
        return rows
    turn = some.sort_values("start_ns").groupby(["rank", *by], dropna=False, sort=False).cumcount()
    key = some.assign(turn=turn).groupby([*by, "turn"], dropna=False, sort=False).ngroup()
    members = some.groupby(key.to_numpy())["rank"].transform("nunique").to_numpy()
    wanted = np.where(some["p2p"], 2, some["expected"])
    whole = members == wanted
    base = 0 if rows["key"].isna().all() else int(rows["key"].max()) + 1
    found = some.index[whole]
    keys, hows = rows["key"].copy(), rows["how"].copy()
    keys[found], hows[found] = key[whole] + base, how
    return rows.assign(key=keys, how=hows)


def _by_id(rows: pd.DataFrame) -> pd.DataFrame:
    told = _open(rows) & rows["comms_id"].notna()
    repeated = rows[told].duplicated(["rank", "comms_id"], keep=False)
    return _keyed(rows, told & ~repeated.reindex(rows.index, fill_value=False), ["comms_id"], "id")


def _by_sequence(rows: pd.DataFrame) -> pd.DataFrame:
    told = _open(rows) & rows["seq"].notna()
    rows = _keyed(rows, told & ~rows["p2p"], ["group", "seq", "op"], "seq")
    ends_known = rows["p2p"] & (rows["source"] >= 0) & (rows["destination"] >= 0)
    by = ["group", "source", "destination"]
    alike = _counted_alike(rows, _open(rows) & told & ends_known, by)
    rows = _keyed(rows, alike, [*by, "seq"], "seq")
    return _by_turn(rows, _open(rows) & ends_known, by)


def _counted_alike(rows: pd.DataFrame, among: pd.Series, by: list[str]) -> pd.Series:
    """Which sends and receives bear numbers that both ends count alike.

    One counter may run over all of a rank's peers (PyTorch's does): then numbers of two ends that are equal are so by
    chance. They tell something if the end that shows fewer has none that the other lacks.
    """
    each = rows.loc[among, ["rank", *by, "seq"]].drop_duplicates()
    fewest = each.groupby([*by, "rank"]).size().groupby(by).min()
    shared = each.groupby([*by, "seq"]).size().eq(2).groupby(by).sum()
    alike = (shared >= fewest).rename("alike").reset_index()
    told = rows[by].merge(alike, on=by, how="left")["alike"].fillna(False).astype(bool)
    return among & told.set_axis(rows.index)


def _by_turn(rows: pd.DataFrame, among: pd.Series, by: list[str]) -> pd.DataFrame:
    """Matches sends and receives between the same two ranks in their order, counted from the end."""
    some = rows[among].sort_values("start_ns")
    from_end = some.groupby(["rank", *by]).cumcount(ascending=False)
    turned = rows.assign(from_end=from_end.reindex(rows.index, fill_value=-1))
    return _keyed(turned, among, [*by, "from_end"], "order").drop(columns="from_end")


def _by_order(rows: pd.DataFrame) -> pd.DataFrame:
    """Matches collectives without numbers in the group's order, counted from the end, for a first clock."""
    among = _open(rows) & ~rows["p2p"] & rows["seq"].isna() & _at_the_same_time(rows)
    sized = rows.assign(size=np.where(rows["unequal"], -1, rows["bytes"]))
    some = sized[among].sort_values("start_ns")
    from_end = some.groupby(["rank", "group", "op", "size"]).cumcount(ascending=False)
    from_end = from_end + _shifts(some.assign(from_end=from_end)).reindex(from_end.index, fill_value=0)
    turned = sized.assign(from_end=from_end.reindex(rows.index, fill_value=-99))
    return _keyed(turned, among, ["group", "op", "size", "from_end"], "order").drop(columns=["from_end", "size"])


def _at_the_same_time(rows: pd.DataFrame) -> pd.Series:
    """Whether the rank's calls are near the lowest rank's in time: only then does order hint at one run."""
    spans = rows.groupby("rank").agg(start_ns=("start_ns", "min"), end_ns=("end_ns", "max"))
    if not len(spans):
        return pd.Series(False, index=rows.index)
    lowest, lengths = spans.iloc[0], spans["end_ns"] - spans["start_ns"]
    apart = np.maximum(spans["start_ns"] - lowest["end_ns"], lowest["start_ns"] - spans["end_ns"])
    return rows["rank"].map(apart <= np.maximum(lengths, lengths.iloc[0])).astype(bool)


def _shifts(some: pd.DataFrame) -> pd.Series:
    """By how many calls each rank's order from the end has to be shifted, since its file ends earlier or later."""
    shift = pd.Series(0, index=some.index)
    for _, group in some.groupby("group", sort=False):
        largest = group.groupby(["op", "size"])["rank"].transform("size")
        usual = group[largest == largest.max()]
        usual = usual[(usual["op"] == usual["op"].iloc[0]) & (usual["size"] == usual["size"].iloc[0])]
        ends = {rank: one.sort_values("from_end")["end_ns"].to_numpy() for rank, one in usual.groupby("rank")}
        lowest = ends[min(ends)]
        for rank, mine in ends.items():
            best = _best_shift(lowest, mine)
            if best:
                shift[group.index[group["rank"] == rank]] = best
    return shift


def _best_shift(lowest: Codes, mine: Codes) -> int:
    """The shift at which the ends of two ranks' calls, from the last on, keep the steadiest distance.

    0 unless another is far better.
    """
    spread = {}
    for shift in SHIFTS:
        some, others = mine[max(-shift, 0) :], lowest[max(shift, 0) :]
        shared = min(len(some), len(others))
        if shared >= SHIFT_MIN_CALLS:
            apart = some[:shared] - others[:shared]
            spread[shift] = float(np.median(np.abs(apart - np.median(apart))))
    if 0 not in spread:
        return 0
    best = min(spread, key=lambda shift: (spread[shift], abs(shift)))
    return best if spread[best] * SHIFT_BETTER < spread[0] else 0


def _clocks(
    rows: pd.DataFrame, ranks: Sequence[int], hosts: Mapping[int, str | None], on_cpu: frozenset[int]
) -> tuple[dict[int, clock.Clock], list[list[int]]]:
    matched = rows[["rank", "start_ns", "end_ns"]].assign(op=rows["named"], match=rows["key"])
    return clock.solve(ranks, clock.ties(matched), clock.bounds(matched), dict(hosts), on_cpu)


def _by_time(rows: pd.DataFrame, first: Mapping[int, clock.Clock]) -> pd.DataFrame:
    """Matches the collectives that are left by their times on a first clock, which their order gave.

    Where ranks show unequal numbers of calls, order may mislead, so the files' own clocks are tried too: they are right
    if more calls find their members on them.
    """
    found = _by_ends(rows, first)
    if not any(one.offset_ns for one in first.values()) or not _unequal_counts(rows):
        return found
    plain = _by_ends(rows, dict.fromkeys(first, clock.Clock(0, None)))
    return plain if plain["key"].notna().sum() > found["key"].notna().sum() else found


def _unequal_counts(rows: pd.DataFrame) -> bool:
    """Whether of the collectives that are left some group's members show more than others."""
    left = rows[_open(rows) & ~rows["p2p"]]
    counts = left.groupby(["group", "op", "rank"]).size().groupby(["group", "op"])
    return bool((counts.nunique() > 1).any() or (counts.size() < left.groupby(["group", "op"])["expected"].max()).any())


def _by_ends(rows: pd.DataFrame, clocks: Mapping[int, clock.Clock]) -> pd.DataFrame:
    """Matches the collectives that are left by nearest overlapping ends, per operation, and where known per size.

    A call that some ranks have by number and others, whose launch their file does not show, only by its kernel, is one
    call too. What is left is matched by its place before the next matched call.
    """
    offset = rows["rank"].map({rank: one.offset_ns for rank, one in clocks.items()}).to_numpy(np.int64)
    rows = rows.assign(aligned_start_ns=rows["start_ns"] - offset, aligned_end_ns=rows["end_ns"] - offset)
    sized = _open(rows) & ~rows["p2p"] & ~rows["unequal"] & (rows["bytes"] >= 0)
    rows = _nearest_ends(rows, sized, ["op", "scope", "bytes"])
    rows = _nearest_ends(rows, _open(rows) & ~rows["p2p"], ["op", "scope"])
    return _before_the_next(rows)


def _nearest_ends(rows: pd.DataFrame, among: pd.Series, by: list[str]) -> pd.DataFrame:
    found = [_paired(some) for _, some in rows[among].groupby(by, sort=False)]
    labels = [members.ravel() for members in found]
    if not any(map(len, labels)):
        return rows
    base = 0 if rows["key"].isna().all() else int(rows["key"].max()) + 1
    sizes = np.concatenate([np.full(len(members), members.shape[1]) for members in found])
    places = rows.index.get_indexer(pd.Index(np.concatenate(labels)))
    keys, hows = rows["key"].array.copy(), rows["how"].to_numpy(object, copy=True)
    keys[places], hows[places] = np.repeat(np.arange(len(sizes)) + base, sizes), "ends"
    return rows.assign(key=keys, how=hows)


def _before_the_next(rows: pd.DataFrame) -> pd.DataFrame:
    """Matches what is left by its place, counted back from the next matched call of its operation, if it overlaps."""
    left = _open(rows) & ~rows["p2p"]
    if not left.any():
        return rows
    mine = rows[~rows["p2p"] & ~rows["alone"]].sort_values("aligned_end_ns")
    following = mine["key"].groupby([mine["rank"], mine["op"], mine["scope"]]).bfill().fillna(-1)
    placed = rows.assign(following=following.reindex(rows.index).fillna(-1).astype("int64"))
    some = placed[left].sort_values("aligned_end_ns")
    back = some.groupby(["rank", "op", "scope", "following"]).cumcount(ascending=False)
    placed = placed.assign(back=back.reindex(rows.index, fill_value=-1))
    found = _keyed(placed, left, ["op", "scope", "following", "back"], "order")
    new = left & found["key"].notna()
    first_end = found[new].groupby("key")["aligned_end_ns"].transform("min")
    last_start = found[new].groupby("key")["aligned_start_ns"].transform("max")
    apart = first_end.index[last_start >= first_end]  # members of a collective overlap: these are not one
    keys, hows = found["key"].copy(), found["how"].copy()
    keys[apart], hows[apart] = pd.NA, "none"
    return found.assign(key=keys, how=hows)


def _paired(some: pd.DataFrame) -> Codes:
    """Index labels of calls of one operation that end together, one of each expected rank: a row a call."""
    parts = {int(one["rank"].iloc[0]): one.sort_values("aligned_end_ns") for _, one in some.groupby("rank")}
    lowest = min(parts)
    first = parts[lowest]
    members, known = [first.index.to_numpy()], [np.ones(len(first), bool)]
    for rank, other in parts.items():
        if rank != lowest:
            partner = _mutual(first, other)
            members.append(other.index.to_numpy()[partner])
            known.append(partner >= 0)
    whole = np.all(known, axis=0) & (first["expected"].to_numpy() == len(members))
    return np.asarray(np.stack(members, axis=1)[whole], np.int64)


def _mutual(first: pd.DataFrame, other: pd.DataFrame) -> npt.NDArray[np.int64]:
    """For each call of the first rank the place of the other's that ends nearest, if both overlap and hold it so."""
    ends, their_ends = first["aligned_end_ns"].to_numpy(), other["aligned_end_ns"].to_numpy()
    starts, their_starts = first["aligned_start_ns"].to_numpy(), other["aligned_start_ns"].to_numpy()
    there, back = _nearest(ends, their_ends), _nearest(their_ends, ends)
    overlap = (starts < their_ends[there]) & (their_starts[there] < ends)
    return np.where(overlap & (back[there] == np.arange(len(ends))), there, -1)


def _nearest(times: Codes, among: Codes) -> Codes:
    """The place of the nearest of some ordered times for each of others."""
    after = np.clip(np.searchsorted(among, times), 1, max(len(among) - 1, 1))
    before = after - 1
    after = np.minimum(after, len(among) - 1)
    return np.where(np.abs(among[before] - times) <= np.abs(among[after] - times), before, after)


def _finished(calls: pd.DataFrame, rows: pd.DataFrame, clocks: Mapping[int, clock.Clock]) -> pd.DataFrame:
    """The calls on one clock, with the groups' names across ranks and matches numbered in order of start."""
    offset = rows["rank"].map({rank: one.offset_ns for rank, one in clocks.items()}).to_numpy(np.int64)
    start_ns, end_ns = calls["start_ns"] - offset, calls["end_ns"] - offset
    first = start_ns.groupby(rows["key"]).transform("min")
    order = rows.assign(first=first).loc[rows["key"].notna()].sort_values(["first", "key"])["key"].drop_duplicates()
    number = pd.Series(np.arange(len(order)), index=order.to_numpy(), dtype="Int64")
    return calls.assign(
        start_ns=start_ns,
        end_ns=end_ns,
        arrival_ns=calls["arrival_ns"] - offset,
        group=_group_names(rows),
        peer=_known_peers(calls, rows),
        match=rows["key"].map(number).astype("Int64"),
        how=rows["how"].astype("str"),
    )


def _group_names(rows: pd.DataFrame) -> pd.Series:
    """The group of each call; of one whose own file names none, that of the calls it is matched with."""
    told = rows["label"].where(rows["label"] != ALL_RANKS)
    by_match = told.groupby(rows["key"]).transform("first")
    return told.fillna(by_match).fillna(ALL_RANKS).astype("str")


def _known_peers(calls: pd.DataFrame, rows: pd.DataFrame) -> pd.Series:
    """Peers as ranks of the job: the other end of each send and receive."""
    other = pd.Series(np.where(calls["op"] == "send", rows["destination"], rows["source"]), index=calls.index)
    return other.astype("Int64").mask(~rows["p2p"] | (other < 0))
