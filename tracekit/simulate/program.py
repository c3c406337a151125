"""What a rank's host thread does in one step, instruction by instruction.

A `Launch` puts a kernel or copy on a lane (a stream of the device), a `Call` a send, receive or collective. Both begin
when the lane is free and the work that they wait for (`after`) is done; a call's transfer begins when its last member
has come as far. Work is numbered by `slot`, from 0 in each step; `after` below 0 is the last work of lane -1 - n.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

from tracekit.plan.schedule import Action
from tracekit.simulate.kernels import COMPUTE as COMPUTE_KIND
from tracekit.simulate.kernels import Kernel

COMPUTE, TENSOR, DATA = 0, 1, 2
"""Lanes that each rank has; others follow: one to and one from each rank with which it exchanges arrays."""
NO_MICROBATCH = -1


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel or copy."""

    slot: int
    lane: int
    kernel: Kernel
    ns: int
    after: tuple[int, ...]
    microbatch: int
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """A collective over the rank's group of an axis, or a send or receive to or from a place of its pipeline.

    `bytes` is the whole array. `channel` is from where to where in the pipeline, which both ends of a send name alike.
    """

    slot: int
    lane: int
    axis: str
    op: str
    bytes: int
    after: tuple[int, ...]
    peer: int = -1
    channel: tuple[int, int] = (-1, -1)


@dataclass(frozen=True, slots=True)
class Busy:
    """The host is busy with something else; without a name, nothing in the trace tells."""

    name: str
    ns: int


@dataclass(frozen=True, slots=True)
class Sync:
    """The host waits until the work of these slots is done."""

    name: str
    after: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Enter:
    """An annotation begins; of a pipeline's action, with the action."""

    name: str
    action: Action | None = None


@dataclass(frozen=True, slots=True)
class Leave:
    """The annotation that began last ends."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Memory is allocated, or freed where `bytes` is negative."""

    bytes: int


Instruction = Launch | Call | Busy | Sync | Enter | Leave | Hold


@dataclass(frozen=True)
class Program:
    """A step's instructions; `on_autograd` tells which of them autograd's thread carries out."""

    instructions: tuple[Instruction, ...]
    on_autograd: tuple[bool, ...]
    slots: int
    lanes: int

    @cached_property
    def work(self) -> tuple[Launch | Call, ...]:
        """What runs on the device, by slot."""
        return tuple(one for one in self.instructions if isinstance(one, Launch | Call))

    @cached_property
    def actions(self) -> tuple[tuple[Action, range], ...]:
        """The pipeline's actions, in order, with the slots launched in each."""
        found, slot, begun = list[tuple[Action, range]](), 0, list[tuple[Action | None, int]]()
        for one in self.instructions:
            if isinstance(one, Launch | Call):
                slot += 1
            elif isinstance(one, Enter):
                begun.append((one.action, slot))
            elif isinstance(one, Leave):
                action, first = begun.pop()
                if action:
                    found.append((action, range(first, slot)))
        return tuple(found)


@dataclass
class Recorder:
    """Takes down a program."""

    no_overlap: bool = False
    late_ns: int = 0
    _done: list[Instruction] = field(default_factory=list)
    _autograd: list[bool] = field(default_factory=list)
    _lanes: dict[object, int] = field(default_factory=dict)
    _tails: dict[int, int] = field(default_factory=dict)
    _slots: int = 0
    _backward: bool = False
    _unheeded: set[int] = field(default_factory=set)
    microbatch: int = NO_MICROBATCH

    def program(self) -> Program:
        """All that was taken down."""
        return Program(tuple(self._done), tuple(self._autograd), self._slots, DATA + 1 + len(self._lanes))

    def launch(self, kernel: Kernel, ns: int, after: Sequence[int] = (), size: int = 0) -> int:
        """A kernel or copy on the compute lane; its slot."""
        if kernel.kind == COMPUTE_KIND and self._unheeded:
            after, self._unheeded = (*after, *(self.tail(lane) for lane in sorted(self._unheeded))), set()
        return self._slot(Launch(self._slots, COMPUTE, kernel, ns, tuple(after), self.microbatch, size), COMPUTE)

    def collective(self, axis: str, op: str, size: int, after: Sequence[int] = ()) -> int:
        """A collective of the rank's group along the axis; its slot."""
        self._come_late()
        lane = self.lane(axis)
        if self.no_overlap:
            after = (*after, self.tail(COMPUTE))
            self._unheeded.add(lane)
        return self._slot(Call(self._slots, lane, axis, op, size, tuple(after)), lane)

    def transfer(self, op: str, peer: int, channel: tuple[int, int], size: int, after: Sequence[int] = ()) -> int:
        """A send to, or receive from, a place of the pipeline; its slot."""
        self._come_late()
        lane = self._lane(channel)
        return self._slot(Call(self._slots, lane, "pipeline", op, size, tuple(after), peer, channel), lane)

    def lane(self, axis: str) -> int:
        """The lane of an axis's collectives."""
        return {"tensor": TENSOR, "data": DATA}.get(axis) or self._lane(axis)

    def _lane(self, key: object) -> int:
        return self._lanes.setdefault(key, DATA + 1 + len(self._lanes))

    def tail(self, lane: int) -> int:
        """The lane's last work: its slot, or -1 - lane where this step has none yet."""
        return self._tails.get(lane, -1 - lane)

    def tails(self) -> tuple[int, ...]:
        """The last work of all lanes that this step has used."""
        return tuple(self._tails.values())

    def busy(self, name: str, ns: float) -> None:
        """The host does something else, if that takes any time."""
        if ns > 0:
            self._add(Busy(name, round(ns)))

    def sync(self, name: str, after: Sequence[int]) -> None:
        """The host waits for the device."""
        self._add(Sync(name, tuple(after)))

    def hold(self, size: int) -> None:
        """Memory is allocated or freed."""
        if size:
            self._add(Hold(size))

    @contextmanager
    def inside(self, name: str, action: Action | None = None) -> Iterator[None]:
        """An annotation around what is taken down meanwhile."""
        self._add(Enter(name, action))
        yield
        self._add(Leave())

    @contextmanager
    def autograd(self) -> Iterator[None]:
        """Work that autograd's thread launches."""
        self._backward = True
        yield
        self._backward = False

    def _come_late(self) -> None:
        late_ns, self.late_ns = self.late_ns, 0
        self.busy("", late_ns)

    def _slot(self, work: Launch | Call, lane: int) -> int:
        self._add(work)
        self._tails[lane] = self._slots
        self._slots += 1
        return work.slot

    def _add(self, instruction: Instruction) -> None:
        self._done.append(instruction)
        self._autograd.append(self._backward)
