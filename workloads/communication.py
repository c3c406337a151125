"""An annotation around every collective and send/receive of this process, with what gloo's own trace leaves out.

The calls are met in PyTorch's dispatcher (operators `c10d::*`), so that all of them are: those of the program, of DDP's
reducer, FSDP, DTensor and pipeline schedules. The annotation is a span on the issuing thread around the issue:

    comm:all_reduce group=1 seq=12 bytes=658944 dtype=float32 threads=3438,3440
    comm:send group=0 seq=3 bytes=65536 dtype=float32 src=0 dst=1

- `group` is the group's name as in the trace's `distributedInfo.pg_config`, where its members are.
- `seq` counts the calls of the group from 0 in the order of issue, which is the same on all members. Sends and receives
  are counted apart, for each (group, source, destination), so that both ends count alike.
- `bytes` is the whole array: all_gather and gather their output, reduce_scatter and scatter their input, all_to_all one
  rank's send buffer (as nccl-tests count).
- `src` and `dst` are ranks of the whole job.
- `threads` are the threads on which gloo runs the call, where the system tells (Linux). Without it, the call runs on
  the annotation's own thread, as gloo's sends and receives do.

How it joins to gloo's span. A send's or receive's `gloo:*` span begins inside its annotation, on the same thread. A
collective's span runs later on one of the group's threads: of the calls of one group, operation and size, the n-th by
`seq` is the n-th `gloo:*` span by start on the group's threads. (`gloo:all_reduce` for a reduce_scatter; one for each
member, if it was given a list.) Only where two calls of one group, operation and size start within microseconds of each
other can their spans be taken for each other.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import distributed_c10d
from torch.profiler import record_function

from . import waits
from .interception import Arguments, intercept

# c10d operator -> operation, and which of its arguments is the whole array.
COLLECTIVES = {
    "allreduce_": ("all_reduce", 0),
    "allreduce_coalesced_": ("all_reduce", 0),
    "_allgather_base_": ("all_gather", 0),
    "allgather_": ("all_gather", 0),
    "allgather_coalesced_": ("all_gather", 0),
    "allgather_into_tensor_coalesced_": ("all_gather", 0),
    "_reduce_scatter_base_": ("reduce_scatter", 1),
    "reduce_scatter_": ("reduce_scatter", 1),
    "reduce_scatter_tensor_coalesced_": ("reduce_scatter", 1),
    "alltoall_": ("all_to_all", 1),
    "alltoall_base_": ("all_to_all", 1),
    "broadcast_": ("broadcast", 0),
    "reduce_": ("reduce", 0),
    "gather_": ("gather", 1),
    "scatter_": ("scatter", 0),
    "barrier": ("barrier", None),
}
TRANSFERS = {"send": "send", "recv_": "recv"}
# Of these only the root has the whole array: it is this rank's part × members.
IN_PARTS = {"gather", "scatter"}
GLOO_THREAD, GLOO_THREADS = "pt_gloo_runloop", 2  # name and number of those that run a group's collectives

Threads = tuple[int, ...]


@dataclass(frozen=True)
class Call:
    """One collective, send or receive; its text is the annotation."""

    op: str
    group: str
    seq: int
    bytes: int
    dtype: str
    src: int | None = None
    dst: int | None = None
    threads: Threads = ()

    def __str__(self) -> str:
        ends = "" if self.src is None else f" src={self.src} dst={self.dst}"
        threads = f" threads={','.join(map(str, self.threads))}" if self.threads else ""
        sizes = f"group={self.group} seq={self.seq} bytes={self.bytes} dtype={self.dtype}"
        return f"comm:{self.op} {sizes}{ends}{threads}"


@dataclass(frozen=True)
class Issue:
    """What makes a call happen: `issue()` gives what its operator returns."""

    arguments: Arguments
    go_on: Callable[[], Any]
    with_output: bool

    def __call__(self) -> Any:
        return self.go_on()

    @property
    def group(self) -> dist.ProcessGroup:
        """The group that the operator was called with."""
        boxed = next(argument for argument in self.arguments if isinstance(argument, torch.ScriptObject))
        return dist.ProcessGroup.unbox(boxed)

    def work(self, returned: Any) -> dist.Work:
        """The work in what the operator returned."""
        return dist.Work.unbox(returned[-1] if self.with_output else returned)

    def returning(self, work: dist.Work) -> Any:
        """What the operator returns, with this work."""
        return (self.arguments[0], work.boxed()) if self.with_output else work.boxed()


class Carrier(Protocol):
    """How calls are carried out."""

    def threads(self, group: dist.ProcessGroup, ends: tuple[int, int] | None) -> Threads:
        """The threads on which calls of this group, or from `ends[0]` to `ends[1]`, run, where not on the issuer's."""

    def carry(self, call: Call, issue: Issue) -> Any:
        """Annotate the call and make it happen; returns what `issue()` does."""


class Directly:
    """As they are: gloo takes a collective to its own threads."""

    def threads(self, group: dist.ProcessGroup, ends: tuple[int, int] | None) -> Threads:
        """Gloo's threads of the group for a collective."""
        backend = None if ends else group._get_backend(torch.device("cpu"))
        return backend.threads() if isinstance(backend, _Gloo) else ()

    def carry(self, call: Call, issue: Issue) -> Any:
        """The call, annotated."""
        with record_function(str(call)):
            return issue()


def annotate(carrier: Carrier) -> torch.library.Library:
    """Annotate every call from now on, as long as the result is kept, and every wait for one (`waits`).

    To be called before the groups are made, or their threads stay unknown.
    """
    distributed_c10d.ProcessGroupGloo = _Gloo  # type: ignore[misc]
    waits.annotate()
    library = torch.library.Library("c10d", "IMPL")
    sequence = _Sequence()
    for name, (op, whole) in COLLECTIVES.items():
        _annotate(library, name, _Collective(op, whole, sequence, carrier), carrier)
    for name, op in TRANSFERS.items():
        _annotate(library, name, _Transfer(op, sequence, carrier), carrier)
    return library


@contextmanager
def unseen() -> Iterator[None]:
    """Within this, calls issued by this thread are neither annotated nor counted, nor recorded by the profiler."""
    _thread.unseen = True
    torch._C._autograd._enable_record_function(False)
    try:
        yield
    finally:
        torch._C._autograd._enable_record_function(True)
        _thread.unseen = False


_thread = threading.local()


def _annotate(library: torch.library.Library, name: str, describe: Callable[[Issue], Call], carrier: Carrier) -> None:
    with_output = len(getattr(torch.ops.c10d, name).default._schema.returns) == 2

    def annotated(arguments: Arguments, go_on: Callable[[], Any]) -> Any:
        if getattr(_thread, "unseen", False):
            return go_on()
        issue = Issue(arguments, go_on, with_output)
        call = describe(issue)
        returned = carrier.carry(call, issue)
        waits.remember(issue.work(returned), str(call).removeprefix("comm:"))
        return returned

    intercept(library, name, annotated)


class _Sequence:
    """Counts calls by whatever tells them apart; DDP's calls may come from autograd's thread, so it is locked."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[Any, ...]] = Counter()
        self._lock = threading.Lock()

    def next(self, *key: Any) -> int:
        with self._lock:
            self._counts[key] += 1
            return self._counts[key] - 1


@dataclass(frozen=True)
class _Collective:
    op: str
    whole: int | None
    sequence: _Sequence
    carrier: Carrier

    def __call__(self, issue: Issue) -> Call:
        group = issue.group
        tensors = [] if self.whole is None else list(_tensors(issue.arguments[self.whole]))
        size = _bytes(tensors) * (group.size() if self.op in IN_PARTS else 1)
        seq = self.sequence.next(group.group_name)
        threads = self.carrier.threads(group, None)
        return Call(self.op, group.group_name, seq, size, _dtype(tensors), threads=threads)


@dataclass(frozen=True)
class _Transfer:
    op: str
    sequence: _Sequence
    carrier: Carrier

    def __call__(self, issue: Issue) -> Call:
        tensors, _, peer, *_ = issue.arguments
        group = issue.group
        me, other = dist.get_rank(), dist.get_global_rank(group, peer)
        src, dst = ends = (me, other) if self.op == "send" else (other, me)
        seq = self.sequence.next(group.group_name, *ends)
        threads = self.carrier.threads(group, ends)
        return Call(self.op, group.group_name, seq, _bytes(tensors), _dtype(tensors), src, dst, threads)


class _Gloo(dist.ProcessGroupGloo):
    """Gloo's process group that knows its threads: of those that appeared while it was made, the ones so named."""

    made: ClassVar[list[_Gloo]] = []  # PyTorch itself keeps only the C++ half alive

    def __init__(self, *arguments: Any, **options: Any) -> None:
        before = _tasks()
        super().__init__(*arguments, **options)
        self._appeared = _tasks() - before
        self._threads: Threads = ()
        self.made.append(self)

    def threads(self) -> Threads:
        """Thread ids as in the trace; none where the system does not tell."""
        if len(self._threads) < GLOO_THREADS:  # a thread names itself, some time after it has begun
            self._threads = tuple(sorted(task for task in self._appeared if _name(task) == GLOO_THREAD))
        return self._threads


def _tasks() -> set[int]:
    return {int(task.name) for task in Path("/proc/self/task").glob("*")}


def _name(task: int) -> str:
    try:
        return Path(f"/proc/self/task/{task}/comm").read_text().strip()
    except OSError:  # it has ended
        return ""


def _tensors(nested: Any) -> Iterator[Tensor]:
    if isinstance(nested, Tensor):
        yield nested
    else:
        for part in nested:
            yield from _tensors(part)


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _dtype(tensors: list[Tensor]) -> str:
    return str(tensors[0].dtype).removeprefix("torch.") if tensors else "none"
