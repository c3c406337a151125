"""Collectives: how long each takes at each size, as nccl-tests measure it, and what they are made of.

    python -m workloads collectives --ranks 4 --out traces/sweep --max-bytes 16M

A split of training is paid for in collectives. n ranks each hold an array of S bytes, or a part of it:

    operation        what it does                                         busbw factor    size S is
    all_reduce       everyone gets the sum                                2(n−1)/n        the array
    reduce_scatter   everyone gets one part of the sum                    (n−1)/n         the input
    all_gather       everyone gets all parts                              (n−1)/n         the output
    all_to_all       everyone gets one part from everyone                 (n−1)/n         what one rank sends
    broadcast        everyone gets what rank 0 has                        1               the array
    reduce           rank 0 gets the sum                                  1               the array
    sendrecv         everyone sends to the next and gets from the last    1               what one rank sends

`algbw` is S by time, in 10^9 bytes per second. `busbw` is algbw times the factor: the bytes that must pass each link at
the least, by time. So it can be held against the speed of a link, whatever the operation and n.

Time is about latency + S / bandwidth. The fit of the two (least squares of the relative error, as sizes differ by
powers) says from which size on an operation is worth its latency: at latency × bandwidth half of the time is spent on
each. Training sends few large arrays rather than many small ones (`ddp`'s buckets) for this reason.

Two identities, checked to the last bit, since the arrays are of small whole numbers, and timed:

- all_reduce is reduce_scatter, then all_gather. This is why ZeRO-2, which does one after the other, moves no more bytes
  than DDP. (On gloo it takes longer all the same: its reduce_scatter is an all_reduce inside.)
- both can be done by passing parts round a ring with send and recv (`ring_all_reduce`). n−1 times a rank sends a part
  of S/n bytes and adds what comes, then n−1 times it passes finished parts on: 2·S·(n−1)/n bytes sent by each rank,
  counted here as they go, and asserted. It is hardly more with more ranks; but the steps, and the latency, are.

In the trace, `collectives all_reduce size_bytes=4096` around each call. The first step is timed, without the profiler:
two calls to warm up, a barrier, then `--iterations` calls one after the other, and the mean of all ranks' times. The
recorded steps make each call once. Nothing is computed, so there is nothing to emulate: `--device emulated` is the CPU.

`collectives.json`, beside the traces, is what `tracekit plan` reads:

    schema            1
    ranks, ranks_per_host, device, backend, dtype, iterations
    operations        operation -> {busbw_factor, rows, fit}
      rows            one per size: size_bytes, count (elements), time_ns, algbw_gbs, busbw_gbs (10^9 bytes/s), wrong
                      (elements that differ from the right result, over all ranks)
      fit             {latency_ns, bandwidth_gbs, busbw_gbs, error_frac}: time_ns = latency_ns + size_bytes /
                      bandwidth_gbs; busbw_gbs is bandwidth_gbs × busbw_factor, which other ranks can be reckoned from;
                      error_frac is the root mean square of (fit − time) / time. Bandwidth is null where larger arrays
                      took no longer; the fit is null where there is one size only.
    identities        all_reduce_in_two, all_reduce_by_ring: as operations. Rows of the ring, and of sendrecv, also have
                      sent_bytes: by each rank, counted.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.profiler import record_function

from .errors import WrongUse
from .harness import Job, Training
from .launch import main
from .layout import Layout
from .samples import Batch

REFUSED = dict.fromkeys(
    ("slow_device", "throttle", "slow_host", "data_loader", "gc", "length_imbalance", "sync_points"),
    "the sweep computes nothing and reads no samples: there are collectives only",
)
SCHEMA = 1
DTYPE = torch.float32
ROOT = 0
WARMUP_CALLS = 2
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}

# Newer names of all_gather_into_tensor and reduce_scatter_tensor, which warn where both exist.
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options that only this workload has; those of model and batch mean nothing here."""
    parser.add_argument("--min-bytes", type=_bytes, default=1024, help="smallest size, such as 1024 or 1K")
    parser.add_argument("--max-bytes", type=_bytes, default=4 * 2**20, help="largest size, such as 4M")
    parser.add_argument("--size-factor", type=int, default=4, help="each size is the last one times this")
    parser.add_argument("--iterations", type=int, default=10, help="timed calls of each operation and size")


def layout(options: argparse.Namespace, ranks: int) -> Layout:
    """All ranks in one group; WrongUse where there is nothing to sweep."""
    if ranks < 2:
        raise WrongUse("a collective takes --ranks 2 or more")
    if options.min_bytes > options.max_bytes:
        raise WrongUse(f"--min-bytes {options.min_bytes} is above --max-bytes {options.max_bytes}")
    if options.size_factor < 2 or options.iterations < 1:
        raise WrongUse(f"--size-factor {options.size_factor} must be 2 or more, --iterations {options.iterations} 1")
    if options.wait < 1:
        raise WrongUse("--wait 0, but the first step is timed, and must be one that the profiler does not record")
    if options.checkpoint_step is not None:
        raise WrongUse(f"--checkpoint-step {options.checkpoint_step}, but there is no model to save")
    return Layout({"world": ranks}, data_axes=())


def build(job: Job) -> Training:
    """Nothing to train: a step is a sweep, the first one timed."""
    job.device.require_transfers()
    given = job.options
    sizes = sweep(given.min_bytes, given.max_bytes, given.size_factor, job.world_size)

    def step(_: list[Batch]) -> None:
        if job.injection.step > 0:
            _once(job, sizes)
            return
        measured = measure(job, sizes)
        if job.rank == ROOT:
            (Path(given.out) / "collectives.json").write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
            print(report(measured), flush=True)

    no_model = {"model": None, "batch": None, "samples_per_step": 0}
    return Training(nn.Module(), torch.optim.SGD([{"params": []}], lr=0.0), step, no_model)


def sweep(least: int, most: int, factor: int, ranks: int) -> list[int]:
    """The sizes in bytes: powers of the factor times the least, cut to whole elements for every rank."""
    grain = ranks * DTYPE.itemsize
    powers = range(math.floor(math.log(most / least, factor) + 1e-9) + 1)
    return sorted({max(grain, least * factor**power // grain * grain) for power in powers})


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d+)([KMG]?)", text, re.IGNORECASE)
    if found is None or int(found[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size, such as 512, 64K or 4M")
    return int(found[1]) * UNITS[found[2].upper()]


# --- What every rank starts from, and what it must end with -----------------------------------------------------------


@dataclass(frozen=True)
class Start:
    """This rank's place, and arrays of one size. Values are small whole numbers, so that sums are exact."""

    rank: int
    ranks: int
    size_bytes: int
    place: torch.device

    @property
    def count(self) -> int:
        """Elements of the array."""
        return self.size_bytes // DTYPE.itemsize

    def of(self, rank: int) -> Tensor:
        """The whole array that a rank starts with, made anew."""
        return (torch.arange(self.count, device=self.place) % 7 + rank % 5).to(DTYPE)

    def own(self) -> Tensor:
        """This rank's."""
        return self.of(self.rank)

    def part(self, array: Tensor, number: int) -> Tensor:
        """One of as many equal parts as there are ranks, as a view."""
        return array.chunk(self.ranks)[number]

    def total(self) -> Tensor:
        """The sum of all ranks' arrays."""
        return torch.stack([self.of(rank) for rank in range(self.ranks)]).sum(0)


class Outcome(NamedTuple):
    """What a call leaves on this rank, and the bytes that it sent, where our own code sends them."""

    array: Tensor
    sent_bytes: int | None = None


Call = Callable[[], Outcome]


def all_reduce(start: Start) -> Call:
    """Everyone's sum, in place."""
    array = start.own()

    def call() -> Outcome:
        dist.all_reduce(array)
        return Outcome(array)

    return call


def reduce_scatter(start: Start) -> Call:
    """One part of the sum for each."""
    whole, part = start.own(), torch.empty_like(start.part(start.own(), 0))

    def call() -> Outcome:
        _reduce_scatter(part, whole)
        return Outcome(part)

    return call


def all_gather(start: Start) -> Call:
    """All parts, each from the rank that had it."""
    part, whole = start.part(start.own(), start.rank).clone(), torch.empty_like(start.own())

    def call() -> Outcome:
        _all_gather(whole, part)
        return Outcome(whole)

    return call


def all_to_all(start: Start) -> Call:
    """This rank's part of everyone's array."""
    array, exchanged = start.own(), torch.empty_like(start.own())

    def call() -> Outcome:
        dist.all_to_all_single(exchanged, array)
        return Outcome(exchanged)

    return call


def broadcast(start: Start) -> Call:
    """The root's array."""
    array = start.own()

    def call() -> Outcome:
        dist.broadcast(array, ROOT)
        return Outcome(array)

    return call


def reduce(start: Start) -> Call:
    """The sum, on the root; elsewhere the array is left as anything."""
    array = start.own()

    def call() -> Outcome:
        dist.reduce(array, ROOT)
        return Outcome(array)

    return call


def sendrecv(start: Start) -> Call:
    """The array of the rank before."""
    array, came = start.own(), torch.empty_like(start.own())

    def call() -> Outcome:
        return Outcome(came, _pass_on(start, array, came))

    return call


def all_reduce_in_two(start: Start) -> Call:
    """The sum, by a reduce-scatter and an all-gather."""
    whole, part = start.own(), torch.empty_like(start.part(start.own(), 0))

    def call() -> Outcome:
        _reduce_scatter(part, whole)
        _all_gather(whole, part)
        return Outcome(whole)

    return call


def all_reduce_by_ring(start: Start) -> Call:
    """The sum, by send and recv."""
    array = start.own()

    def call() -> Outcome:
        return Outcome(array, ring_all_reduce(start, array))

    return call


def ring_all_reduce(start: Start, array: Tensor) -> int:
    """Sum the ranks' arrays in place by passing parts round a ring; the bytes that this rank sent."""
    parts, rank, ranks = array.chunk(start.ranks), start.rank, start.ranks
    came, sent_bytes = torch.empty_like(parts[0]), 0
    # Reduce-scatter: a part gathers one more summand at each rank, and is complete at the rank before its own.
    for turn in range(ranks - 1):
        sent_bytes += _pass_on(start, parts[(rank - turn) % ranks], came)
        parts[(rank - turn - 1) % ranks].add_(came)
    # All-gather: complete parts go round once more.
    for turn in range(ranks - 1):
        sent_bytes += _pass_on(start, parts[(rank + 1 - turn) % ranks], parts[(rank - turn) % ranks])
    assert sent_bytes == 2 * start.size_bytes * (ranks - 1) // ranks
    return sent_bytes


def _pass_on(start: Start, array: Tensor, into: Tensor) -> int:
    """Send to the next rank while receiving from the last; the bytes sent. One after the other, all would only send."""
    to, source = (start.rank + 1) % start.ranks, (start.rank - 1) % start.ranks
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, array, to), dist.P2POp(dist.irecv, into, source)]):
        work.wait()
    return array.numel() * array.element_size()


@dataclass(frozen=True)
class Operation:
    """A collective: how it is called, what it must leave on this rank (None: anything), its bus bandwidth factor."""

    prepare: Callable[[Start], Call]
    right: Callable[[Start], Tensor | None]
    busbw_factor: Callable[[int], float]
    sums: bool = False
    root: int = -1

    @property
    def name(self) -> str:
        """As in traces and in the JSON."""
        return self.prepare.__name__


def _twice_around(ranks: int) -> float:
    return 2 * (ranks - 1) / ranks


def _once_around(ranks: int) -> float:
    return (ranks - 1) / ranks


def _as_it_is(_: int) -> float:
    return 1.0


def _everyones_part(start: Start) -> Tensor:
    return torch.cat([start.part(start.of(rank), start.rank) for rank in range(start.ranks)])


def _each_its_part(start: Start) -> Tensor:
    return torch.cat([start.part(start.of(rank), rank) for rank in range(start.ranks)])


OPERATIONS = (
    Operation(all_reduce, Start.total, _twice_around, sums=True),
    Operation(reduce_scatter, lambda start: start.part(start.total(), start.rank), _once_around, sums=True),
    Operation(all_gather, _each_its_part, _once_around),
    Operation(all_to_all, _everyones_part, _once_around),
    Operation(broadcast, lambda start: start.of(ROOT), _as_it_is, root=ROOT),
    Operation(reduce, lambda start: start.total() if start.rank == ROOT else None, _as_it_is, sums=True, root=ROOT),
    Operation(sendrecv, lambda start: start.of((start.rank - 1) % start.ranks), _as_it_is),
)
IDENTITIES = (
    Operation(all_reduce_in_two, Start.total, _twice_around, sums=True),
    Operation(all_reduce_by_ring, Start.total, _twice_around, sums=True),
)


# --- Measuring --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One operation at one size. `wrong` is of all ranks."""

    size_bytes: int
    count: int
    time_ns: int
    algbw_gbs: float
    busbw_gbs: float
    wrong: int


@dataclass(frozen=True)
class Fit:
    """Time = latency + size / bandwidth."""

    latency_ns: float
    bandwidth_gbs: float | None
    error_frac: float


def measure(job: Job, sizes: Sequence[int]) -> dict[str, Any]:
    """The contents of collectives.json; the same on every rank."""
    return {
        "schema": SCHEMA,
        "ranks": job.world_size,
        "ranks_per_host": int(os.environ.get("LOCAL_WORLD_SIZE", job.world_size)),
        "device": job.device.name,
        "backend": job.device.backend,
        "dtype": str(DTYPE).removeprefix("torch."),
        "iterations": job.options.iterations,
        "operations": {operation.name: _measured(job, operation, sizes) for operation in OPERATIONS},
        "identities": {operation.name: _measured(job, operation, sizes) for operation in IDENTITIES},
    }


def _measured(job: Job, operation: Operation, sizes: Sequence[int]) -> dict[str, Any]:
    factor = operation.busbw_factor(job.world_size)
    rows = [_row(job, operation, size) for size in sizes]
    fitted = fit([row["size_bytes"] for row in rows], [row["time_ns"] for row in rows])
    of_bus = None if fitted is None or fitted.bandwidth_gbs is None else fitted.bandwidth_gbs * factor
    return {
        "busbw_factor": factor,
        "rows": rows,
        "fit": None if fitted is None else {**asdict(fitted), "busbw_gbs": of_bus},
    }


def _row(job: Job, operation: Operation, size: int) -> dict[str, Any]:
    start = Start(job.rank, job.world_size, size, job.device.place)
    right, left = operation.right(start), operation.prepare(start)()
    wrong = 0 if right is None else int((left.array != right).sum())
    mean_ns, wrong = _over_ranks(job, _time_ns(job, operation.prepare(start)), wrong)
    algbw = size / mean_ns  # bytes per nanosecond are 10^9 bytes per second
    row = Row(size, start.count, mean_ns, algbw, algbw * operation.busbw_factor(job.world_size), wrong)
    return asdict(row) | ({} if left.sent_bytes is None else {"sent_bytes": left.sent_bytes})


def _time_ns(job: Job, call: Call) -> float:
    """Nanoseconds of one call, of many one after the other."""
    for _ in range(WARMUP_CALLS):
        call()
    dist.barrier()
    job.device.synchronize()
    began_ns = time.perf_counter_ns()
    for _ in range(job.options.iterations):
        call()
    job.device.synchronize()
    return (time.perf_counter_ns() - began_ns) / job.options.iterations


def _over_ranks(job: Job, time_ns: float, wrong: int) -> tuple[int, int]:
    """The mean of the ranks' times, and the sum of their wrong elements."""
    both = torch.tensor([time_ns, wrong], dtype=torch.float64, device=job.device.place)
    dist.all_reduce(both)
    return round(both[0].item() / job.world_size), round(both[1].item())


def fit(sizes: Sequence[int], times: Sequence[float]) -> Fit | None:
    """Latency and bandwidth with the least sum of squared relative errors, neither negative; None for one size."""
    if len(set(sizes)) < 2:
        return None
    # (latency + size × slope) / time should be 1, so ones and sizes are both divided by time.
    of_one = [1 / took for took in times]
    of_size = [size / took for size, took in zip(sizes, times, strict=True)]
    ones, mixed, squares = _dot(of_one, of_one), _dot(of_one, of_size), _dot(of_size, of_size)
    determinant = ones * squares - mixed**2
    latency = (sum(of_one) * squares - sum(of_size) * mixed) / determinant
    slope = (sum(of_size) * ones - sum(of_one) * mixed) / determinant
    if latency < 0:
        latency, slope = 0.0, sum(of_size) / squares
    if slope <= 0:
        latency, slope = sum(of_one) / ones, 0.0
    errors = [latency * one + slope * size - 1 for one, size in zip(of_one, of_size, strict=True)]
    return Fit(latency, 1 / slope if slope else None, math.sqrt(_dot(errors, errors) / len(errors)))


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def _once(job: Job, sizes: Sequence[int]) -> None:
    """Each operation at each size, once, for the trace."""
    for operation in (*OPERATIONS, *IDENTITIES):
        for size in sizes:
            call = operation.prepare(Start(job.rank, job.world_size, size, job.device.place))
            with record_function(f"collectives {operation.name} size_bytes={size}"):
                call()


# --- Showing ----------------------------------------------------------------------------------------------------------

HEADER = (
    f"#{'size':>12}{'count':>13}{'type':>9}{'redop':>7}{'root':>6}{'time':>11}{'algbw':>9}{'busbw':>9}{'#wrong':>8}\n"
    f"#{'(B)':>12}{'(elements)':>13}{'':>9}{'':>7}{'':>6}{'(us)':>11}{'(GB/s)':>9}{'(GB/s)':>9}"
)


def report(measured: dict[str, Any]) -> str:
    """The tables as nccl-tests print them, one per operation, each with its fit; then the identities."""
    known = {**measured["operations"], **measured["identities"]}
    title = f"# {measured['ranks']} ranks, {measured['backend']} on {measured['device']}; 1 GB is 10^9 bytes"
    return "\n".join([title, *(line for op in (*OPERATIONS, *IDENTITIES) for line in _table(op, known[op.name]))])


def _table(operation: Operation, measured: dict[str, Any]) -> Iterator[str]:
    yield f"#\n# {operation.name}\n{HEADER}"
    for row in measured["rows"]:
        yield (
            f" {row['size_bytes']:>12}{row['count']:>13}{'float':>9}{'sum' if operation.sums else 'none':>7}"
            f"{operation.root:>6}{row['time_ns'] / 1e3:>11.2f}{row['algbw_gbs']:>9.3f}{row['busbw_gbs']:>9.3f}"
            f"{row['wrong']:>8}"
        )
    yield f"# {_fitted(measured['fit'])}"
    if operation.prepare is all_reduce_by_ring:
        largest = measured["rows"][-1]
        yield f"# of {largest['size_bytes']} bytes each rank sent {largest['sent_bytes']}, which is 2 S (n-1)/n"


def _fitted(fitted: dict[str, Any] | None) -> str:
    if fitted is None:
        return "one size: latency and bandwidth cannot be told apart"
    if fitted["bandwidth_gbs"] is None:
        return f"fit: {fitted['latency_ns'] / 1e3:.1f} us, whatever the size; off by {fitted['error_frac']:.0%}"
    return (
        f"fit: {fitted['latency_ns'] / 1e3:.1f} us + size / {fitted['bandwidth_gbs']:.3f} GB/s"
        f" (busbw {fitted['busbw_gbs']:.3f}); off by {fitted['error_frac']:.0%}"
    )


if __name__ == "__main__":
    sys.exit(main(["collectives", *sys.argv[1:]]))
