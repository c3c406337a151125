"""Along which axes a job's ranks are split: data, tensor, pipeline, context, expert.

Groups of one axis partition the ranks, and a group of one axis shares at most one rank with a group of another. Only
expert groups lie across data groups. What tells an axis, the surest first: the group's name; the stages in a rank's
annotations; sends and receives; else the operations of a group and their place in the step.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import pandas as pd

DATA, TENSOR, PIPELINE, CONTEXT, EXPERT = "data", "tensor", "pipeline", "context", "expert"
AXES = (DATA, PIPELINE, CONTEXT, TENSOR, EXPERT)
"""In the order of the layout: neighbours along the later ones are nearer to each other."""
SHORT = {DATA: "dp", TENSOR: "tp", PIPELINE: "pp", CONTEXT: "cp", EXPERT: "ep"}
NAMED, STAGES, TRANSFERS, OPERATIONS, ASSUMED = 1.0, 1.0, 0.8, 0.6, 0.4
"""How sure an axis is that is told by this."""
MISFIT_FRAC = 0.5
"""What is left of that where the axes together do not make up the world."""
EARLY_FRAC = 0.3
"""A group that reduces before so much of a step's compute is done reduces in the forward, so not gradients."""
BYTES_MIN_FRAC = 0.01
"""Smaller calls than this share of a group's largest say nothing of its purpose: losses, norms, flags."""

ALL_RANKS = "all"
"""The group that the reader assumes where a file names none."""

_WORDS = {
    DATA: {"dp", "ddp", "data", "fsdp", "hsdp", "zero", "shard", "replicate"},
    TENSOR: {"tp", "tensor"},
    PIPELINE: {"pp", "pipe", "pipeline"},
    CONTEXT: {"cp", "context", "sp", "sequence", "ulysses"},
    EXPERT: {"ep", "expert", "moe"},
}
_OTHER_PURPOSES = {"embedding", "embeddings", "model"}

Members = tuple[int, ...]
Edges = Iterable[tuple[int, int]]


@dataclass(frozen=True)
class Axis:
    """One axis: its groups, each in the order of the axis; how sure it is, 0 to 1; and what told it."""

    name: str
    groups: tuple[Members, ...]
    confidence: float
    told_by: str

    @property
    def size(self) -> int:
        return len(self.groups[0])


def find(calls: pd.DataFrame, ranks: Sequence[int], world: int, stages: Mapping[int, int]) -> list[Axis]:
    """The axes, in the order of the layout.

    `calls` are `CALLS` with `progress`, the share of its step's compute that was done when a call began. `ranks` are
    those with files; `stages` the first pipeline stage of each rank whose annotations tell it.
    """
    found: list[Axis] = []
    for axis in sorted(_candidates(calls, ranks, stages), key=lambda one: -one.confidence):
        if all(axis.name != other.name and _can_cross(axis, other) for other in found):
            found.append(axis)
    size = 1
    for axis in found:
        size *= 1 if axis.name == EXPERT else axis.size
    return [_judged(axis, ranks, fits=size == world) for axis in sorted(found, key=lambda one: AXES.index(one.name))]


def name_of(group: str) -> str | None:
    """The axis that a group's name tells, if it tells just one."""
    words = set(re.findall(r"[a-z]+", group.lower()))
    told = [axis for axis, spellings in _WORDS.items() if words & spellings]
    return told[0] if len(told) == 1 else None


def members(calls: pd.DataFrame, ranks: Iterable[int]) -> dict[str, Members]:
    """The members of each group that calls name, in the order in which their lists tell them."""
    found: dict[str, Members] = {}
    for group, rows in calls.groupby("group", sort=False):
        lists = sorted((_listed(text) for text in rows["group_ranks"].unique()), key=len)
        untold = group == ALL_RANKS and rows["group_size"].isna().all()
        seen = sorted(set(ranks) if untold else set(rows["rank"].tolist()))
        found[str(group)] = tuple(lists[-1] or seen)
    return found


def _listed(text: object) -> list[int]:
    """The members that a text lists; none where it was cut."""
    whole = isinstance(text, str) and text.rstrip().endswith("]") and "..." not in text
    return [int(number) for number in re.findall(r"\d{1,9}", str(text))] if whole else []


def _candidates(calls: pd.DataFrame, ranks: Sequence[int], stages: Mapping[int, int]) -> list[Axis]:
    """All that might be an axis; of equally sure ones those that are told more directly stand first."""
    of_group = {group: told for group, told in members(calls, ranks).items() if len(told) > 1}
    named: dict[str, list[Members]] = defaultdict(list)
    for group, told in of_group.items():
        if axis := name_of(group):
            named[axis].append(told)
    edges = _edges(calls)
    sets = [(axis, groups, NAMED, "name") for axis, groups in named.items()]
    staged, sent = _by_stages(stages, edges), _by_transfers(edges)
    sets.append((PIPELINE, staged, STAGES, "stages"))
    sets += [(axis, groups, TRANSFERS, "transfers") for axis, groups in sent.items()]
    pipelines = [set(group) for group in staged or sent[PIPELINE]]
    unnamed = calls[calls["group"].isin([group for group in of_group if not _has_purpose(group)])]
    # Ranks of one pipeline hold different layers: what they sum up (tied embeddings, norms) is no axis of its own.
    lengthwise = [group for group, ranks in of_group.items() if any(set(ranks) <= whole for whole in pipelines)]
    unnamed = unnamed[~unnamed["group"].isin(lengthwise)]
    sets += [(axis, groups, sure, "operations") for axis, groups, sure in _by_operations(unnamed, of_group)]
    made = ((axis, _partition(groups), sure, how) for axis, groups, sure, how in sets)
    return [Axis(axis, _ordered(axis, parts, stages, edges), sure, how) for axis, parts, sure, how in made if parts]


def _has_purpose(group: str) -> bool:
    words = set(re.findall(r"[a-z]+", group.lower()))
    return bool(words & _OTHER_PURPOSES) or any(words & spellings for spellings in _WORDS.values())


def _edges(calls: pd.DataFrame) -> list[tuple[int, int]]:
    """From whom to whom something is sent, in the order in which that first begins."""
    told = calls[calls["op"].isin(["send", "recv"]) & calls["peer"].notna()].sort_values("start_ns", kind="stable")
    own, other, sends = told["rank"].tolist(), told["peer"].tolist(), (told["op"] == "send").tolist()
    ends = ((a, int(b)) if sending else (int(b), a) for a, b, sending in zip(own, other, sends, strict=True))
    return list(dict.fromkeys(ends))


def _by_stages(stages: Mapping[int, int], edges: Edges) -> list[Members]:
    """Ranks that hold different stages: those joined by transfers, else the n-th of each stage together."""
    if len(set(stages.values())) < 2:
        return []
    joined = [group for group in _joined(edges) if {stages.get(rank) for rank in group} == set(stages.values())]
    if joined:
        return joined
    of_stage: dict[int, list[int]] = defaultdict(list)
    for rank in sorted(stages):
        of_stage[stages[rank]].append(rank)
    equally = len({len(held) for held in of_stage.values()}) == 1
    return list(zip(*(of_stage[stage] for stage in sorted(of_stage)), strict=True)) if equally else []


def _by_transfers(edges: Sequence[tuple[int, int]]) -> dict[str, list[Members]]:
    """Ranks that send to each other: a pipeline sends there and back, a ring of context parallelism one way round."""
    groups = _joined(edges)
    ring = {group for group in groups if len(group) > 2 and _is_ring(group, edges)}
    return {CONTEXT: sorted(ring), PIPELINE: [group for group in groups if group not in ring]}


def _is_ring(group: Members, edges: Iterable[tuple[int, int]]) -> bool:
    inside = [edge for edge in edges if edge[0] in group]
    return len(inside) == len(group) == len({a for a, _ in inside}) == len({b for _, b in inside})


def _by_operations(calls: pd.DataFrame, of_group: Mapping[str, Members]) -> list[tuple[str, list[Members], float]]:
    """Axes of groups whose names tell nothing, by what they do and when."""
    found: dict[tuple[str, float], list[Members]] = defaultdict(list)
    for group, rows in calls.groupby("group", sort=False):
        large = rows[~(rows["bytes"] < BYTES_MIN_FRAC * rows["bytes"].max()).fillna(False)]
        ops = set(large["op"])
        sure = OPERATIONS if rows["group_size"].notna().any() or group != ALL_RANKS else ASSUMED
        reduces = large[large["op"].isin(["all_reduce", "reduce_scatter"])]
        if len(reduces):
            early = reduces["progress"].quantile(0.25) < EARLY_FRAC and "all_to_all" not in ops
            found[TENSOR if early else DATA, sure].append(of_group[str(group)])
        elif "all_gather" in ops:
            found[DATA, ASSUMED].append(of_group[str(group)])
        if "all_to_all" in ops:
            found[EXPERT, ASSUMED].append(of_group[str(group)])
    return [(axis, groups, sure) for (axis, sure), groups in found.items()]


def _partition(groups: Iterable[Members]) -> list[Members]:
    """Disjoint groups of one size: groups that overlap are joined, and those of an unusual size left out."""
    parts = _joined(pair for group in groups for pair in pairwise(group))
    told = {frozenset(group): group for group in groups}
    parts = [told.get(frozenset(part), part) for part in parts]
    usual = Counter(map(len, parts)).most_common(1)
    return [part for part in parts if len(part) == usual[0][0]]


def _joined(edges: Edges) -> list[Members]:
    """The sets of ranks that edges join, each in order of rank, by their lowest rank."""
    root: dict[int, int] = {}

    def top(rank: int) -> int:
        root.setdefault(rank, rank)
        while root[rank] != rank:
            rank = root[rank]
        return rank

    for one, other in edges:
        low, high = sorted((top(one), top(other)))
        root[high] = low
    ranks = sorted(root, key=lambda rank: (top(rank), rank))
    return [tuple(part) for _, part in groupby(ranks, key=top)]


def _ordered(
    axis: str, groups: Sequence[Members], stages: Mapping[int, int], edges: Sequence[tuple[int, int]]
) -> tuple[Members, ...]:
    """The groups by their lowest rank; of a pipeline, the ranks of each by stage."""
    if axis != PIPELINE:
        return tuple(sorted(groups, key=min))
    return tuple(sorted((_by_stage(group, stages, edges) for group in groups), key=min))


def _by_stage(group: Members, stages: Mapping[int, int], edges: Sequence[tuple[int, int]]) -> Members:
    """By the stages that annotations tell, else along the transfers: what is sent first is sent forward."""
    if len({stages.get(rank) for rank in group} - {None}) == len(group):
        return tuple(sorted(group, key=lambda rank: stages[rank]))
    inside = [edge for edge in edges if edge[0] in group and edge[1] in group]
    forward = {a: b for nth, (a, b) in enumerate(inside) if (b, a) not in inside[:nth]}
    path = [inside[0][0]] if inside else []
    while path and forward.get(path[-1]) not in (None, *path):
        path.append(forward[path[-1]])
    return tuple(path) if len(path) == len(group) else group


def _can_cross(one: Axis, other: Axis) -> bool:
    """Whether no two ranks are neighbours along both axes; experts lie across data."""
    if EXPERT in (one.name, other.name):
        return True
    return all(len(set(group) & set(another)) < 2 for group in one.groups for another in other.groups)


def _judged(axis: Axis, ranks: Sequence[int], *, fits: bool) -> Axis:
    """The axis with its confidence: what told it, times the share of ranks that it places, less if it does not fit."""
    placed = {rank for group in axis.groups for rank in group}
    covered = sum(rank in placed for rank in ranks) / len(ranks)
    return Axis(axis.name, axis.groups, axis.confidence * covered * (1 if fits else MISFIT_FRAC), axis.told_by)
