"""Which process groups there are across the ranks: the same group may have another name on each of them.

A group's name is local to its rank. What ranks share is its members: NCCL's arguments list them (or the file's
`pg_config` does, where the list was cut). Ranks may have several groups of the same members; these are told apart by
name where the names agree, else by the order in which they are first used.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tracekit.model import listed
from tracekit.read.calls import ALL_RANKS

Local = tuple[int, str, str | None]
"""A group as one rank's file names it: rank, group, text of its members."""


@dataclass(frozen=True)
class Group:
    """A process group of the job. `members` is None where no file tells them all."""

    name: str
    members: tuple[int, ...] | None
    at_hand: frozenset[int]
    """Members whose files are at hand."""

    @property
    def alone(self) -> bool:
        """Whether it has one member only, so that its calls wait for nobody."""
        return self.members is not None and len(self.members) == 1


def members_of(text: object, size: Any) -> tuple[int, ...] | None:
    """The members that a text such as `[0, 1, 2, 3]` lists; None where it lists none or was cut."""
    if not isinstance(text, str):
        return None
    found = tuple(int(number) for number in re.findall(r"\d{1,9}", text))
    cut = "..." in text or not text.rstrip().endswith("]") or (pd.notna(size) and size != len(found))
    return None if cut or not found else found


def find_groups(calls: pd.DataFrame, ranks: Iterable[int]) -> dict[Local, Group]:
    """The group of each local group of the calls (rank, group, group_ranks); `ranks` are those with files."""
    at_hand = frozenset(ranks)
    columns = ["rank", "group", "group_ranks", "group_size"]
    first = calls[columns].drop_duplicates(["rank", "group", "group_ranks"])
    by_members: dict[tuple[int, ...] | None, list[Local]] = defaultdict(list)
    for rank, group, text, size in first.itertuples(index=False):
        members = (rank,) if pd.notna(size) and size == 1 else members_of(text, size)
        local = (rank, group, text if isinstance(text, str) else None)
        by_members[tuple(sorted(members)) if members else None].append(local)
    named: list[tuple[str, tuple[int, ...] | None, list[Local]]] = []
    for key, locals_ in by_members.items():
        named += [(name, key, part) for name, part in _told_apart(locals_)]
    return _groups(named, at_hand)


def _told_apart(locals_: list[Local]) -> list[tuple[str, list[Local]]]:
    """Local groups of the same members as groups: one where each rank has one, else by name, else by order of use."""
    per_rank: dict[int, list[Local]] = defaultdict(list)
    for local in locals_:
        per_rank[local[0]].append(local)
    if all(len(mine) == 1 for mine in per_rank.values()):
        return [(locals_[0][1], locals_)]
    common = set.intersection(*({group for _, group, _ in mine} for mine in per_rank.values()))
    parts: dict[str, list[Local]] = defaultdict(list)
    for mine in per_rank.values():
        rest = [local for local in mine if local[1] not in common]
        for number, local in enumerate(rest):
            parts[f"\0{number}"].append(local)
        for local in mine:
            if local[1] in common:
                parts[local[1]].append(local)
    return [(part[0][1], part) for part in parts.values()]


def _groups(
    named: list[tuple[str, tuple[int, ...] | None, list[Local]]], at_hand: frozenset[int]
) -> dict[Local, Group]:
    """Groups with names that are told apart: members are added where a name means several."""
    counts: dict[str, int] = defaultdict(int)
    for name, _, _ in named:
        counts[name] += 1
    groups = {}
    for name, members, locals_ in named:
        told = f"{name} {listed(members)}" if counts[name] > 1 and members else name
        if members is None:
            here = at_hand if name == ALL_RANKS else frozenset(rank for rank, _, _ in locals_)
        else:
            here = at_hand & frozenset(members)
        group = Group(told, members, here)
        groups.update(dict.fromkeys(locals_, group))
    return groups
