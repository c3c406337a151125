"""How ranks are arranged along the axes of a split. Imports no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from .errors import WrongUse


@dataclass(frozen=True)
class Layout:
    """Axis name -> size, the last axis fastest, as in a `DeviceMesh`.

    `data_axes` are those along which ranks read different samples. `details` go to run.json as they are: schedule,
    micro-batches, buckets, sharding.
    """

    axes: dict[str, int]
    data_axes: tuple[str, ...] = ("dp",)
    details: dict[str, Any] = field(default_factory=dict)

    def check(self, world_size: int) -> None:
        """Raise WrongUse unless the sizes multiply to the number of ranks."""
        if math.prod(self.axes.values()) != world_size:
            product = " × ".join(f"{name} {size}" for name, size in self.axes.items())
            raise WrongUse(f"{product} is {math.prod(self.axes.values())} ranks, but there are {world_size}")

    def place(self, rank: int) -> dict[str, int]:
        """This rank's index on each axis."""
        place = {}
        for name, size in reversed(self.axes.items()):
            rank, place[name] = divmod(rank, size)
        return {name: place[name] for name in self.axes}

    def groups(self, axis: str) -> list[list[int]]:
        """The ranks that differ along this axis only, one list per group."""
        groups: dict[tuple[tuple[str, int], ...], list[int]] = {}
        for rank in range(math.prod(self.axes.values())):
            others = tuple((name, index) for name, index in self.place(rank).items() if name != axis)
            groups.setdefault(others, []).append(rank)
        return list(groups.values())

    def shards(self) -> int:
        """How many ways the data is split."""
        return math.prod(self.axes.get(axis, 1) for axis in self.data_axes)

    def shard(self, rank: int) -> int:
        """Which part of the data this rank reads."""
        place, shard = self.place(rank), 0
        for axis in self.data_axes:
            shard = shard * self.axes.get(axis, 1) + place.get(axis, 0)
        return shard
