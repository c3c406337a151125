"""Writes one Kineto file per rank that looks like PyTorch's, a rank at a time.

An operator's span ends with the call that launches its kernel; a wait of one stream for another is a
`cudaStreamWaitEvent` before it and a `Stream Wait Event` of the stream; around a call stand `record_param_comms` and
`nccl:<operation>`, on the device as well. Flow arrows (`ac2g`, `fwdbwd`) are left out: nothing is told by them alone.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from isal import igzip

from tracekit.plan import memory
from tracekit.simulate import kernels
from tracekit.simulate.clocks import file_clock
from tracekit.simulate.engine import Group, Rank, World
from tracekit.simulate.faults import total
from tracekit.simulate.job import Job
from tracekit.simulate.program import Busy, Call, Enter, Hold, Launch, Leave, Program, Sync

BASE_NS, ORIGIN_NS = 1_760_000_000_000_000_000, 1_000_000_000
"""The job begins at their sum; files tell times from the first on."""
COMPUTE_STREAM, FIRST_COMM_STREAM, STREAMS_APART = 7, 20, 4
DISPATCHED = {
    "all_reduce": "c10d::allreduce_", "all_gather": "c10d::_allgather_base_",
    "reduce_scatter": "c10d::_reduce_scatter_base_", "send": "c10d::send", "recv": "c10d::recv_",
}  # fmt: skip
DTYPES = {2: "BFloat16", 4: "Float"}
LISTED_RANKS = 30
"""PyTorch cuts longer lists of a group's ranks."""
AXIS_NAMES = {"data": "mesh_dp", "tensor": "mesh_tp", "pipeline": "mesh_pp", "embedding": "embedding"}
LOST = 7
COMPRESSION = 1


def file_name(rank: int) -> str:
    """The name of a rank's file."""
    return f"rank{rank}.json.gz"


def write_rank(world: World, rank: int, folder: Path) -> int:
    """Writes a rank's file; how many events it has."""
    job = world.job
    lines = list(_Events(world, world.ranks[rank]).lines())
    lost = total(job.faults, "lost_events", rank, job.steps)
    if lost:
        drawn = np.random.default_rng([job.seed, LOST, rank]).random(len(lines))
        kept = drawn >= lost
        lines = [line for line, keep in zip(lines, kept, strict=True) if keep or "ProfilerStep" in line]
    text = _head(world, rank) + ",\n".join(lines) + "\n]}\n"
    (folder / file_name(rank)).write_bytes(igzip.compress(text.encode(), COMPRESSION, mtime=0))
    return len(lines)


def _head(world: World, rank: int) -> str:
    """The file's metadata, up to its first event."""
    job = world.job
    mine = [of_axis[rank] for of_axis in world.group_of.values() if rank in of_axis]
    everyone = {"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": job.ranks,
                "ranks": list(range(job.ranks))}  # fmt: skip
    groups = [{
        "pg_name": str(group.number), "pg_desc": _described(job, group), "backend_config": "cuda:nccl",
        "pg_size": len(group.members), "ranks": list(group.members),
    } for group in mine]  # fmt: skip
    metadata = {
        "schemaVersion": 1,
        "deviceProperties": [{
            "id": _device(job, rank), "name": f"Simulated GPU, {job.cluster.flops / 1e12:g} TFLOP/s",
            "totalGlobalMem": int(job.cluster.memory_bytes), "computeMajor": 9, "computeMinor": 0, "warpSize": 32,
            "numSms": 132,
        }],
        "cuda_runtime_version": 12080,
        "distributedInfo": {
            "backend": "nccl", "rank": rank, "world_size": job.ranks, "pg_count": 1 + len(groups),
            "pg_config": [everyone, *groups], "nccl_version": "2.28.9",
        },
        "hostname": f"node{job.cluster.node(rank)}",
        "record_shapes": 0,
        "profile_memory": int(job.trace.memory),
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": BASE_NS,
        "simulated": f"tracekit simulate, seed {job.seed}",
    }  # fmt: skip
    return json.dumps(metadata)[:-1] + ', "traceEvents": [\n'


def _described(job: Job, group: Group) -> str:
    return AXIS_NAMES[group.axis] if job.trace.named_groups else "undefined"


def _device(job: Job, rank: int) -> int:
    return rank % job.cluster.gpus_per_node


def _members(group: Group) -> str:
    if len(group.members) <= LISTED_RANKS:
        return str(list(group.members))
    shown = ", ".join(map(str, group.members[: LISTED_RANKS - 1]))
    return f"[{shown}, ..., {group.members[-1]}]"


def _time(ns: int) -> str:
    """Micro-seconds with three decimals."""
    return f"{ns // 1000}.{ns % 1000:03d}"


@cache
def _text(name: str) -> str:
    return json.dumps(name)


class _Events:
    """One rank's events, as lines of JSON."""

    def __init__(self, world: World, one: Rank) -> None:
        job = world.job
        self.world, self.one, self.job = world, one, job
        clock = file_clock(job, one.rank)
        arrays = (one.host_starts, one.host_ends, one.launches, one.starts, one.ends)
        told = (clock.told(times + ORIGIN_NS).tolist() for times in arrays)
        self.host_starts, self.host_ends, self.launches, self.starts, self.ends = told
        self.pid = 10_000 + one.rank
        self.device = _device(job, one.rank)
        self.call_ns = round(job.host.call_us * 1000)
        self.correlation = count(1000)
        self.external = count(1)
        self.transfers = count(1)
        self.held = self._states_bytes()

    def lines(self) -> Iterator[str]:
        """All of them, in the order of the host's instructions."""
        yield from self._labels()
        at, base = 0, 0
        for step, program in enumerate(self.one.programs):
            yield from self._step(step, program, at, base)
            at, base = at + len(program.instructions), base + program.slots

    def _labels(self) -> Iterator[str]:
        ts = _time(self.host_starts[0])
        for pid, name, labels in ((self.pid, "python", "CPU"), (self.device, "python", f"GPU {self.device}")):
            for what, text in (("process_name", name), ("process_labels", labels)):
                key = what.split("_")[1]
                yield f'{{"name":"{what}","ph":"M","ts":{ts},"pid":{pid},"tid":0,"args":{{"{key}":{_text(text)}}}}}'

    def _step(self, step: int, program: Program, at: int, base: int) -> Iterator[str]:
        begun: list[tuple[str, int, int]] = []
        first = base
        for nth, one in enumerate(program.instructions):
            begin, end = self.host_starts[at + nth], self.host_ends[at + nth]
            thread = self.pid + 500 if program.on_autograd[nth] else self.pid
            if isinstance(one, Launch):
                yield from self._launch(one, base + one.slot, thread, begin, end)
            elif isinstance(one, Call):
                yield from self._call(one, base + one.slot, thread, begin, end)
            elif isinstance(one, Enter):
                begun.append((f"ProfilerStep#{step}" if one.name == "ProfilerStep" else one.name, begin, base))
            elif isinstance(one, Leave):
                name, since, _ = begun.pop()
                yield self._host("user_annotation", name, self.pid, since, end)
            elif isinstance(one, Busy) and one.name:
                yield self._host("user_annotation", one.name, self.pid, begin, end)
            elif isinstance(one, Sync):
                yield from self._sync(one, thread, begin, end)
            elif isinstance(one, Hold) and self.job.trace.memory:
                yield self._memory(one, thread, begin)
        yield self._on_device(
            "gpu_user_annotation", f"ProfilerStep#{step}", COMPUTE_STREAM, self.starts[first],
            self.ends[first + program.slots - 1], f'"External id":{next(self.external)}',
        )  # fmt: skip

    def _launch(self, one: Launch, slot: int, thread: int, begin: int, end: int) -> Iterator[str]:
        external, correlation = next(self.external), next(self.correlation)
        copies = one.kernel.kind == kernels.MEMORY
        yield self._host("cpu_op", one.kernel.operator, thread, begin, end, f'"External id":{external}')
        yield from self._stream_wait(one, thread, begin)
        called = "cudaMemcpyAsync" if copies else "cudaLaunchKernel"
        yield self._runtime(called, thread, self.launches[slot], end, external, correlation)
        arguments = f'"External id":{external},"device":{self.device},"context":1,"stream":{COMPUTE_STREAM},'
        arguments += f'"correlation":{correlation}'
        arguments += f',"bytes":{one.bytes}' if copies else ',"grid":[132,1,1],"block":[384,1,1]'
        category = "gpu_memcpy" if copies else "kernel"
        yield self._on_device(category, one.kernel.name, COMPUTE_STREAM, self.starts[slot], self.ends[slot], arguments)

    def _call(self, one: Call, slot: int, thread: int, begin: int, end: int) -> Iterator[str]:
        external, correlation, stream = next(self.external), next(self.correlation), _stream(one.lane)
        kernel, _, annotation = kernels.NCCL[one.op]
        told = self._told(one, slot)
        yield self._host("cpu_op", DISPATCHED[one.op], thread, begin, end, f'"External id":{external}')
        inside = begin + 200
        yield self._host("cpu_op", "record_param_comms", thread, inside, end - 200, f'"External id":{external},{told}')
        yield from self._stream_wait(one, thread, inside)
        yield self._host("user_annotation", f"nccl:{annotation}", thread, inside + 200, end - 100)
        yield self._runtime("cudaLaunchKernelExC", thread, self.launches[slot], end - 300, external, correlation)
        arguments = f'"External id":{external},"device":{self.device},"context":1,"stream":{stream},'
        arguments += f'"correlation":{correlation},"grid":[24,1,1],"block":[544,1,1],{told}'
        if self.job.precision.activation_bytes != 2:
            kernel = kernel.replace("bf16", "f32")
        name = f"{kernel}{kernels.NCCL_ARGUMENTS}"
        yield self._on_device("kernel", name, stream, self.starts[slot], self.ends[slot], arguments)
        yield self._on_device(
            "gpu_user_annotation", f"nccl:{annotation}", stream, self.starts[slot], self.ends[slot],
            f'"External id":{external}',
        )  # fmt: skip

    def _told(self, one: Call, slot: int) -> str:
        """NCCL's arguments."""
        group = self.world.group_of[one.axis][self.one.rank]
        size = len(group.members)
        width = self.job.precision.activation_bytes
        elements = one.bytes // width
        into = elements // size if one.op == "all_gather" else elements
        out = elements // size if one.op == "reduce_scatter" else elements
        told: dict[str, Any] = {
            "Collective name": kernels.NCCL[one.op][1], "In msg nelems": into, "Out msg nelems": out,
            "Group size": size, "dtype": DTYPES.get(width, "Byte"), "In split size": "[]", "Out split size": "[]",
            "Process Group Name": str(group.number), "Process Group Description": _described(self.job, group),
            "Process Group Ranks": _members(group),
        }  # fmt: skip
        number = int(self.one.numbers[slot])
        ends = self._ends(one, group)
        if ends:
            told |= {"Src Rank": ends[0], "Dst Rank": ends[1]}
        if self.job.trace.calls_told_by != "order":
            told["Seq"] = next(self.transfers) if ends else number + 1  # sends and receives share one counter
        if self.job.trace.calls_told_by == "id":
            key = f"{group.number} {ends} {one.channel if ends else ''} {number}"
            told["Comms Id"] = (zlib.crc32(key.encode()) << 32) + zlib.crc32(key[::-1].encode())
        return json.dumps(told)[1:-1]

    def _ends(self, one: Call, group: Group) -> tuple[int, int] | None:
        """Who sends to whom, of a send or receive."""
        if one.peer < 0:
            return None
        other = group.members[one.peer]
        return (self.one.rank, other) if one.op == "send" else (other, self.one.rank)

    def _stream_wait(self, one: Launch | Call, thread: int, begin: int) -> Iterator[str]:
        """A wait for another stream, if the work waits for one."""
        if not one.after:
            return
        correlation, stream = next(self.correlation), _stream(one.lane)
        yield self._runtime("cudaStreamWaitEvent", thread, begin + 100, begin + 500, 0, correlation)
        arguments = f'"stream":{stream},"correlation":{correlation},"device":{self.device}'
        yield self._on_device("cuda_sync", "Stream Wait Event", stream, begin + 100, begin + 500, arguments)

    def _sync(self, one: Sync, thread: int, begin: int, end: int) -> Iterator[str]:
        correlation = next(self.correlation)
        yield self._runtime(one.name, thread, begin, end, 0, correlation)
        arguments = f'"stream":{COMPUTE_STREAM},"correlation":{correlation},"device":{self.device}'
        name = "Stream Sync" if one.name == kernels.STREAM_SYNC else "Context Sync"
        yield self._on_device("cuda_sync", name, COMPUTE_STREAM, begin, end, arguments)

    def _memory(self, one: Hold, thread: int, at: int) -> str:
        self.held += one.bytes
        reserved = -(-self.held // (2 << 20)) * (2 << 20)
        self.reserved = max(reserved, getattr(self, "reserved", 0))
        return (
            f'{{"ph":"i","cat":"cpu_instant_event","s":"t","name":"[memory]","pid":{self.pid},"tid":{thread},'
            f'"ts":{_time(at)},"args":{{"Total Reserved":{self.reserved},"Total Allocated":{self.held},'
            f'"Bytes":{one.bytes},"Addr":0,"Device Id":{self.device},"Device Type":1}}}}'
        )

    def _states_bytes(self) -> int:
        """What the rank holds of weights, gradients and optimizer states."""
        job = self.job
        place = self.one.rank // (job.layout.tensor * job.layout.data)
        parameters = memory.held(job.model, job.layout, place).total
        return round(memory.states(parameters, job.precision, job.layout.zero_stage, job.layout.shards).total)

    def _runtime(self, name: str, thread: int, begin: int, end: int, external: int, correlation: int) -> str:
        return self._host(
            "cuda_runtime", name, thread, begin, end, f'"External id":{external},"cbid":211,"correlation":{correlation}'
        )

    def _host(self, category: str, name: str, thread: int, begin: int, end: int, arguments: str = "") -> str:
        return (
            f'{{"ph":"X","cat":"{category}","name":{_text(name)},"pid":{self.pid},"tid":{thread},'
            f'"ts":{_time(begin)},"dur":{_time(end - begin)},"args":{{{arguments}}}}}'
        )

    def _on_device(self, category: str, name: str, stream: int, begin: int, end: int, arguments: str) -> str:
        return (
            f'{{"ph":"X","cat":"{category}","name":{_text(name)},"pid":{self.device},"tid":{stream},'
            f'"ts":{_time(begin)},"dur":{_time(end - begin)},"args":{{{arguments}}}}}'
        )


def _stream(lane: int) -> int:
    return FIRST_COMM_STREAM + STREAMS_APART * (lane - 1) if lane else COMPUTE_STREAM
