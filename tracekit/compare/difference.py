"""Two accounts side by side: what is paired, what is not, and parts that add up to the difference of the steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from tracekit.compare.account import KINDS, Account, Part, RankPart

NEAR = 0.05
"""Kernels of different names may be one another's successor if they come this close to each other in the step."""
CALLS_FRAC = 0.02
"""... and their calls differ by no more than this."""


@dataclass(frozen=True)
class Changed:
    """A pair of parts, or one without a counterpart; `how` is paired, renamed, new or gone.

    Renamed is what has another name or shape at the same place in the step.
    `by_calls_ns` is what the change of their number makes of the difference, `by_each_ns` what the change of each call
    makes (longer, or less hidden): together `changed_ns`.
    """

    kind: str
    name: str
    shape: str
    how: str
    base: Part
    new: Part

    @property
    def changed_ns(self) -> float:
        """What it adds to the difference of the steps."""
        return self.new.ns - self.base.ns

    @property
    def by_calls_ns(self) -> float:
        """The part of it that more or fewer calls explain, each as long as in the base."""
        if self.how in ("new", "gone"):
            return self.changed_ns
        return (self.new.calls - self.base.calls) * self.base.ns / self.base.calls if self.base.calls else 0.0

    @property
    def by_each_ns(self) -> float:
        """The part of it that longer or shorter, or less hidden, calls explain."""
        return self.changed_ns - self.by_calls_ns

    @property
    def nth(self) -> tuple[int, ...]:
        """Which calls of the step, from 1, make most of the change; none where they all do, or cannot be paired."""
        pairs = list(zip(self.base.nth_ns, self.new.nth_ns, strict=False))
        if len(self.base.nth_ns) != len(self.new.nth_ns) or len(pairs) < 3:
            return ()
        moved = sorted(((new - base, at) for at, (base, new) in enumerate(pairs, 1)), key=lambda one: -abs(one[0]))
        found: list[int] = []
        for change, at in moved[: len(moved) // 3]:
            found.append(at)
            if abs(sum(moved[n][0] for n in range(len(found)))) >= 0.9 * abs(self.changed_ns) and change:
                return tuple(sorted(found))
        return ()


@dataclass(frozen=True)
class RankChange:
    """One rank of both runs."""

    rank: int
    base: RankPart
    new: RankPart

    def changed(self, name: str) -> float | None:
        """New minus base of a field of `RankPart`; None where one is not measured."""
        one, other = getattr(self.base, name), getattr(self.new, name)
        return None if one is None or other is None else float(other - one)


@dataclass(frozen=True)
class Difference:
    """What changed from the base to the new run, the largest first; `parts` add up to `changed_ns`."""

    base: Account
    new: Account
    parts: tuple[Changed, ...]
    gaps: tuple[Changed, ...]
    ranks: tuple[RankChange, ...]

    @property
    def changed_ns(self) -> float:
        """How much longer the mean step takes."""
        return self.new.step_ns - self.base.step_ns

    def by_kind(self) -> dict[str, float]:
        """The difference by kind of part: compute, comm (what nothing hides), memory, idle."""
        return {kind: sum(part.changed_ns for part in self.parts if part.kind == kind) for kind in KINDS}

    @property
    def unpaired(self) -> tuple[Changed, ...]:
        """What only one of the runs has."""
        return tuple(part for part in self.parts if part.how in ("new", "gone"))


def difference(base: Account, new: Account) -> Difference:
    """Pairs parts by kind, name and shape; what is left over by its order in the step, with another name or shape; and
    then all that is left of one name on either side.
    """
    return Difference(
        base,
        new,
        _largest_first(_paired(base.parts, new.parts)),
        _largest_first(_paired(base.gaps, new.gaps)),
        _ranks(base.ranks, new.ranks),
    )


def _paired(base: tuple[Part, ...], new: tuple[Part, ...]) -> list[Changed]:
    old = {_key(part): part for part in base}
    pairs = [Changed(*_key(part), "paired", old.pop(_key(part)), part) for part in new if _key(part) in old]
    paired = {_key(pair.new) for pair in pairs}
    left = [part for part in new if _key(part) not in paired]
    successors = _successors(list(old.values()), left)
    pairs += [_succession(was, became) for was, became in successors]
    gone, added = (
        _without(old.values(), {id(was) for was, _ in successors}),
        _without(left, {id(one) for _, one in successors}),
    )
    reshaped = {_name(part) for part in gone} & {_name(part) for part in added}
    pairs += [_succession(_together(name, gone), _together(name, added)) for name in sorted(reshaped)]
    gone, added = ([part for part in some if _name(part) not in reshaped] for some in (gone, added))
    pairs += [Changed(*_key(part), "gone", part, _nothing(part)) for part in gone]
    return pairs + [Changed(*_key(part), "new", _nothing(part), part) for part in added]


def _without(parts: Iterable[Part], ids: set[int]) -> list[Part]:
    return [part for part in parts if id(part) not in ids]


def _together(name: tuple[str, str], parts: list[Part]) -> Part:
    """The parts of one name as one: kernels whose shapes change from step to step are paired by no shape."""
    mine = [part for part in parts if _name(part) == name]
    if len(mine) == 1:
        return mine[0]
    calls, ns, total_ns = (sum(getattr(part, field) for part in mine) for field in ("calls", "ns", "total_ns"))
    return Part(*name, f"{len(mine)} shapes", calls, ns, total_ns, min(part.place for part in mine))


def _name(part: Part) -> tuple[str, str]:
    return part.kind, part.name


def _succession(was: Part, became: Part) -> Changed:
    name = was.name if was.name == became.name else f"{was.name} → {became.name}"
    shape = was.shape if was.shape == became.shape else f"{was.shape or '?'} → {became.shape or '?'}"
    return Changed(became.kind, name, shape, "renamed", was, became)


def _successors(gone: list[Part], added: list[Part]) -> list[tuple[Part, Part]]:
    """Pairs of leftovers of one kind and number of calls at about one place in the step, of one name or of one shape.

    Those of one name come first (another shape: a batch was split, say), then the nearest.
    """
    near = sorted(
        (was.name != became.name, abs(was.place - became.place), i, j)
        for i, was in enumerate(gone)
        for j, became in enumerate(added)
        if _could_succeed(was, became)
    )
    found: list[tuple[Part, Part]] = []
    taken: set[tuple[str, int]] = set()
    for _, _, i, j in near:
        if ("gone", i) not in taken and ("added", j) not in taken:
            taken |= {("gone", i), ("added", j)}
            found.append((gone[i], added[j]))
    return found


def _could_succeed(was: Part, became: Part) -> bool:
    return (
        was.kind == became.kind
        and (was.shape == became.shape or was.name == became.name)
        and was.kind in ("compute", "comm")
        and abs(was.calls - became.calls) <= CALLS_FRAC * max(was.calls, became.calls)
        and abs(was.place - became.place) <= NEAR
    )


def _key(part: Part) -> tuple[str, str, str]:
    return part.kind, part.name, part.shape


def _nothing(part: Part) -> Part:
    return Part(part.kind, part.name, part.shape)


def _largest_first(pairs: Iterable[Changed]) -> tuple[Changed, ...]:
    return tuple(sorted(pairs, key=lambda pair: (-abs(pair.changed_ns), pair.kind, pair.name, pair.shape)))


def _ranks(base: tuple[RankPart, ...], new: tuple[RankPart, ...]) -> tuple[RankChange, ...]:
    """Ranks that both runs have, the one whose own time grew most first."""
    old = {rank.rank: rank for rank in base}
    both = [RankChange(rank.rank, old[rank.rank], rank) for rank in new if rank.rank in old]
    return tuple(sorted(both, key=lambda one: (-(one.changed("own_ns") or 0.0), one.rank)))


RANK_PARTS = tuple(one.name for one in fields(RankPart) if one.name != "rank")
