"""One function over many ranks or files: here, in a pool of processes, or on whatever executor the caller brings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import TypeVar

import loky

from tracekit.errors import TracekitError

Item = TypeVar("Item")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Workers:
    """Maps over items in order. Without an executor of the caller's, work that is `heavy` goes to a process pool.

    The pool starts its processes afresh: a fork would copy the locks of threads that are not there any more. It is
    loky's, since the standard library's would run the caller's script once more in each process. Where a process dies,
    the work that is left is done here.
    """

    executor: Executor | None = None
    keeps: object = field(default=None, repr=False)
    """What must live as long as the workers do: a folder of their tables, say."""

    def map(self, work: Callable[[Item], Answer], items: Sequence[Item], *, heavy: bool) -> Iterator[Answer]:
        """The answers, in the order of the items."""
        if self.executor is not None:
            yield from _elsewhere(self.executor, work, items)
            return
        done = 0
        if heavy and len(items) > 1 and _cores() > 1:
            try:
                for answer in _pool().map(work, items):
                    yield answer
                    done += 1
                return
            except BrokenProcessPool:
                pass
        yield from map(work, items[done:])


def _elsewhere(executor: Executor, work: Callable[[Item], Answer], items: Sequence[Item]) -> Iterator[Answer]:
    """The answers of the caller's executor; what it cannot do, a lost worker's work say, is done here."""
    asked = [executor.submit(work, item) for item in items]
    for future, item in zip(asked, items, strict=True):
        try:
            answer = future.result()
        except TracekitError:
            raise
        except Exception:  # an executor's own errors are of any class; a fault of the work itself comes again here
            answer = work(item)
        yield answer


def _pool() -> Executor:
    pool: Executor = loky.get_reusable_executor(max_workers=_cores(), timeout=60)
    return pool


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
