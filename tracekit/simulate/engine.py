"""When everything happens: each rank's programs carried out, in integer nanoseconds.

No queue of events is needed, since nothing competes: each time is the latest of those that it waits for. A rank's host
goes through its programs until it needs the end of a call that is not known yet, because other members have not come so
far; then it is laid aside until the last member comes. A send whose lane is not free yet holds up only what comes after
it on that lane. What is drawn at random is drawn by rank, step and place in the program (of a call: by its group and
number), so that it does not depend on the order of computing, and a fault removed changes nothing else.
"""

from __future__ import annotations

from array import array
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tracekit.errors import TracekitError
from tracekit.plan.collectives import quickest
from tracekit.plan.hardware import Link
from tracekit.simulate import faults
from tracekit.simulate.costs import Costs
from tracekit.simulate.job import Job
from tracekit.simulate.kernels import COMPUTE as COMPUTE_KIND
from tracekit.simulate.program import (
    NO_MICROBATCH,
    Busy,
    Call,
    Instruction,
    Launch,
    Leave,
    Program,
    Sync,
)
from tracekit.simulate.training import programs, tied

UNKNOWN = -1
BETWEEN_STEPS_NS, LEAVE_NS = 3_000, 500
COMPUTE_NOISE, HOST_NOISE, LENGTHS, TRANSFER_NOISE, END_NOISE = range(5)
"""What random numbers are for; each has a stream of its own."""

Ints = npt.NDArray[np.int64]


class Stuck(TracekitError):
    """The job waits for itself: a defect of the order of actions."""


@dataclass(frozen=True)
class Group:
    """Ranks that communicate, with the link that each has there."""

    number: int
    axis: str
    members: tuple[int, ...]
    link: Link


@dataclass(frozen=True)
class Rank:
    """What happened on one rank.

    `host` holds each instruction's begin and end on the host, of all steps; the others hold, for each piece of work (a
    slot of a step, and the steps before it), its launch, its start, when its transfer began (a call's; else its start)
    and its end.
    """

    rank: int
    programs: Sequence[Program]
    host_starts: Ints
    host_ends: Ints
    launches: Ints
    starts: Ints
    begins: Ints
    ends: Ints
    numbers: Ints
    """Of calls, the number in their group (of sends and receives, on their channel)."""


@dataclass(frozen=True)
class World:
    """All ranks, and the groups that they form."""

    job: Job
    ranks: list[Rank]
    groups: dict[str, list[Group]]
    group_of: dict[str, dict[int, Group]]
    """By axis, the group of each rank that has one."""


def groups_of(job: Job) -> dict[str, list[Group]]:
    """The groups of each axis that has more than one rank."""
    found, number = dict[str, list[Group]](), 1
    for axis in ("data", "tensor", "pipeline"):
        if job.layout.size(axis) > 1:
            found[axis] = []
            for members in job.layout.groups(axis):
                found[axis].append(Group(number, axis, tuple(members), job.cluster.link(members)))
                number += 1
    if tied(job):
        pipelines = found["pipeline"]
        ends = [(group.members[0], group.members[-1]) for group in pipelines]
        found["embedding"] = [
            Group(number + nth, "embedding", pair, job.cluster.link(list(pair))) for nth, pair in enumerate(ends)
        ]
    return found


def carried_out(costs: Costs) -> World:
    """All that happens in the job; Stuck where it cannot go on."""
    job = costs.job
    groups = groups_of(job)
    group_of = {axis: _by_rank(of_axis) for axis, of_axis in groups.items()}
    engine = _Engine(job, group_of)
    for rank, steps in programs(costs):
        engine.hosts.append(_Host(job, rank, steps))
    engine.run()
    return World(job, [host.record() for host in engine.hosts], groups, group_of)


def _by_rank(groups: Sequence[Group]) -> dict[int, Group]:
    return {rank: group for group in groups for rank in group.members}


class _Host:
    """A rank's host thread, as far as it has come, and the state of its device."""

    def __init__(self, job: Job, rank: int, steps: Sequence[Program]) -> None:
        self.job, self.rank, self.programs = job, rank, steps
        self.step, self.at, self.now, self.base = 0, 0, 0, 1
        self.tails = [0] * max(program.lanes for program in steps)
        # Slot 0 stands for the time before the job: done at 0.
        self.launches, self.starts, self.begins, self.ends = (array("q", [0]) for _ in range(4))
        self.numbers = array("q", [0])
        self.host_starts, self.host_ends = array("q"), array("q")
        self.count: dict[object, int] = defaultdict(int)
        self.begin_step()

    @property
    def done(self) -> bool:
        return self.step == len(self.programs)

    def begin_step(self) -> None:
        """Draws the step's times."""
        if self.done:
            return
        program, job = self.programs[self.step], self.job
        self.instructions = program.instructions
        room = array("q", [UNKNOWN]) * program.slots
        for times in (self.launches, self.starts, self.begins, self.ends, self.numbers):
            times.extend(room)
        self.durations = _durations(job, self.rank, self.step, program)
        self.dispatches = _dispatches(job, self.rank, self.step, len(program.instructions))

    def after(self, needed: Sequence[int], earliest: int) -> tuple[int, int]:
        """When work that needs these slots can be, at the earliest; and a slot whose end is not known yet, else 0."""
        base, tails, ends, unknown = self.base, self.tails, self.ends, 0
        for one in needed:
            slot = base + one if one >= 0 else tails[-1 - one]
            end = ends[slot]
            if end > earliest:
                earliest = end
            elif end < 0:
                unknown = slot
        return earliest, unknown

    def number(self, call: Call) -> int:
        """The call's number among those of its kind, counted alike on all members."""
        key = (call.channel, call.op) if call.peer >= 0 else call.axis
        self.count[key] += 1
        return self.count[key] - 1

    def record(self) -> Rank:
        """What happened, as arrays."""
        slots = (self.launches, self.starts, self.begins, self.ends, self.numbers)
        launches, starts, begins, ends, numbers = (np.array(one, np.int64)[1:] for one in slots)
        host_starts, host_ends = np.array(self.host_starts, np.int64), np.array(self.host_ends, np.int64)
        return Rank(self.rank, self.programs, host_starts, host_ends, launches, starts, begins, ends, numbers)


def _random(job: Job, *key: int) -> np.random.Generator:
    return np.random.default_rng([job.seed, *key])


def _noisy(job: Job, size: int, share: float, *key: int) -> npt.NDArray[np.float64]:
    """Factors around 1, none below a half."""
    if not share:
        return np.ones(size)
    return np.maximum(1 + share * _random(job, *key).standard_normal(size), 0.5)


def _durations(job: Job, rank: int, step: int, program: Program) -> list[int]:
    """How long each slot's kernel or copy takes; 0 for calls."""
    work = program.work
    stated = np.array([one.ns if isinstance(one, Launch) else 0 for one in work], float)
    compute = np.array([isinstance(one, Launch) and one.kernel.kind == COMPUTE_KIND for one in work], bool)
    slow = faults.product(job.faults, ("slow_device", "throttle"), rank, step)
    factors = _noisy(job, len(work), job.noise.compute, COMPUTE_NOISE, rank, step)
    factors[compute] *= slow
    lengths = _lengths(job, rank, step)
    if lengths is not None:
        of = np.array([one.microbatch if isinstance(one, Launch) else NO_MICROBATCH for one in work])
        factors *= np.where(of >= 0, lengths[of], 1.0)
    whole: list[int] = np.rint(stated * factors).astype(np.int64).tolist()
    return whole


def _lengths(job: Job, rank: int, step: int) -> npt.NDArray[np.float64] | None:
    """The length of each micro-batch's samples, as a share of the longest; alike on ranks that share them."""
    unequal, even = (faults.total(job.faults, kind, rank, step) for kind in ("length_imbalance", faults.EVEN_LENGTHS))
    if not unequal and not even:
        return None
    drawn = np.array([
        _random(job, LENGTHS, replica, step).random(job.layout.microbatches) for replica in range(job.layout.data)
    ])  # fmt: skip
    mine = drawn[rank // job.layout.tensor % job.layout.data]
    return np.asarray(1 - min(unequal, 0.99) * mine - min(even, 0.99) * drawn.mean(), np.float64)


def _dispatches(job: Job, rank: int, step: int, count: int) -> list[int]:
    factors = _noisy(job, count, job.noise.host, HOST_NOISE, rank, step)
    whole: list[int] = np.rint(job.host.dispatch_us * 1000 * factors).astype(np.int64).tolist()
    return whole


@dataclass(slots=True)
class _Open:
    """A call that not all members have come to."""

    arrived: list[tuple[int, int, int]] = field(default_factory=list)


class _Engine:
    def __init__(self, job: Job, group_of: dict[str, dict[int, Group]]) -> None:
        self.job, self.group_of = job, group_of
        self.hosts: list[_Host] = []
        self.call_ns, self.latency_ns = round(job.host.call_us * 1000), round(job.host.latency_us * 1000)
        self.open: dict[tuple[object, ...], _Open] = {}
        self.waiting: set[tuple[int, int]] = set()
        self.parked: dict[tuple[int, int], list[tuple[Call, int, int, int]]] = defaultdict(list)
        self.ready: deque[int] = deque()
        self.transfer_ns: dict[tuple[int, str, int], int] = {}
        self.on_links = [one for one in job.faults if one.kind in ("slow_link", "degraded_link")]

    def run(self) -> None:
        self.ready.extend(range(len(self.hosts)))
        while self.ready:
            self.advance(self.hosts[self.ready.popleft()])
        behind = [host.rank for host in self.hosts if not host.done]
        if behind:
            raise Stuck(f"rank {behind[0]} waits for a call that never comes: the order of actions is wrong")

    def advance(self, host: _Host) -> None:
        """Carries out a rank's instructions until they are done or one needs what is not known yet."""
        while not host.done:
            while host.at < len(host.instructions):
                began = host.now
                if not self.carry_out(host, host.instructions[host.at]):
                    return
                host.host_starts.append(began)
                host.host_ends.append(host.now)
                host.at += 1
            host.base += host.programs[host.step].slots
            host.step, host.at = host.step + 1, 0
            host.now += BETWEEN_STEPS_NS
            host.begin_step()

    def carry_out(self, host: _Host, one: Instruction) -> bool:
        """One instruction; False where it needs an end that is not known yet."""
        if isinstance(one, Launch | Call):
            return self.launch(host, one)
        if isinstance(one, Sync):
            until, unknown = host.after(one.after, host.now)
            if unknown:
                self.waiting.add((host.rank, unknown))
                return False
            host.now = until + self.call_ns
        elif isinstance(one, Busy):
            host.now += one.ns
        elif isinstance(one, Leave):
            host.now += LEAVE_NS
        return True

    def launch(self, host: _Host, one: Launch | Call) -> bool:
        """Launches a piece of work; False where it needs an end that is not known yet."""
        launched = host.now + host.dispatches[host.at] - self.call_ns
        before = host.tails[one.lane]
        start, unknown = host.after((*one.after, -1 - one.lane), launched + self.latency_ns)
        if unknown and not (isinstance(one, Call) and one.op == "send"):
            self.waiting.add((host.rank, unknown))
            return False
        slot = host.base + one.slot
        host.now, host.launches[slot], host.tails[one.lane] = launched + self.call_ns, launched, slot
        if isinstance(one, Launch):
            host.starts[slot] = host.begins[slot] = start
            host.ends[slot] = start + host.durations[one.slot]
            return True
        host.numbers[slot] = host.number(one)
        if unknown:
            self.parked[host.rank, unknown].append((one, slot, start, before))
        else:
            self.arrive(host, one, slot, start)
        return True

    def arrive(self, host: _Host, call: Call, slot: int, start: int) -> None:
        """A member has come to a call; the last one makes it begin."""
        host.starts[slot] = start
        group = self.group_of[call.axis][host.rank]
        p2p = call.peer >= 0
        key = (group.number, call.channel, host.numbers[slot])
        opened = self.open.setdefault(key, _Open())
        opened.arrived.append((host.rank, slot, start))
        if len(opened.arrived) == (2 if p2p else len(group.members)):
            del self.open[key]
            self.begin(group, call, host.numbers[slot], host.step, opened.arrived)

    def begin(self, group: Group, call: Call, number: int, step: int, arrived: list[tuple[int, int, int]]) -> None:
        """The transfer, from the last arrival on."""
        begin = max(start for _, _, start in arrived)
        ranks = [rank for rank, _, _ in arrived]
        length = self.length_ns(group, call, ranks, step)
        source, destination = call.channel
        drawn = (group.number, source + 1, destination + 1, number)
        if self.job.noise.transfer:
            length = max(
                1, round(length * float(_noisy(self.job, 1, self.job.noise.transfer, TRANSFER_NOISE, *drawn)[0]))
            )
        spread = round(self.job.noise.ends_us * 1000)
        late = _random(self.job, END_NOISE, *drawn).integers(0, spread + 1, len(arrived)) if spread else None
        for nth, (rank, slot, _) in enumerate(sorted(arrived)):
            self.end(rank, slot, begin, begin + length + (int(late[nth]) if late is not None else 0))

    def end(self, rank: int, slot: int, begin: int, end: int) -> None:
        """A member's part is over: what waited for it can go on."""
        host = self.hosts[rank]
        host.begins[slot], host.ends[slot] = begin, end
        for call, later, start, before in self.parked.pop((rank, slot), ()):
            self.arrive(host, call, later, max(start, host.ends[before]))
        if (rank, slot) in self.waiting:
            self.waiting.remove((rank, slot))
            self.ready.append(rank)

    def length_ns(self, group: Group, call: Call, ranks: Sequence[int], step: int) -> int:
        """How long the transfer takes, by the α-β model and what befalls the members' links."""
        key = (group.number, call.op if call.peer < 0 else f"send{min(ranks)}-{max(ranks)}", call.bytes)
        if key not in self.transfer_ns:
            link = self.job.cluster.link(list(ranks)) if call.peer >= 0 else group.link
            size = len(ranks)
            self.transfer_ns[key] = max(1, round(quickest(call.op, size, call.bytes, link)[1] * 1e9))
        length = self.transfer_ns[key]
        for fault in self.on_links:
            if step >= fault.step and (fault.rank is None or fault.rank in ranks):
                length = self.worse(fault, group, call, ranks, length)
        return length

    def worse(self, fault: faults.Fault, group: Group, call: Call, ranks: Sequence[int], length: int) -> int:
        """The length on a link with a fault."""
        if fault.kind == "slow_link":
            return length + round(fault.size * 1e6)
        link = self.job.cluster.link(list(ranks)) if call.peer >= 0 else group.link
        steps_ns = round(quickest(call.op, len(ranks), 0, link)[1] * 1e9)
        return steps_ns + round((length - steps_ns) * fault.size)
