"""One function over many ranks or files: here, in a pool of processes, or on whatever executor the caller brings.

Where a process dies of its work, by a crash or for want of memory, others go on: the work that may be to blame is done
once more by a process that does nothing else, never here. Only if that one dies as well is it given up.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from pickle import PicklingError
from typing import Any, TypeVar

import loky
from loky.process_executor import ShutdownExecutorError

from tracekit.errors import LostWork, TracekitError

Item = TypeVar("Item")
Answer = TypeVar("Answer")
_ENDED = (BrokenProcessPool, ShutdownExecutorError)
"""The pool died of its work, or another thread that shares it was interrupted."""


def _given_up(item: object) -> Any:
    raise LostWork(f"the work on {item} ended the process that did it, twice: is there too little memory?")


@dataclass(frozen=True)
class Workers:
    """Maps over items in order. Without an executor of the caller's, work that is `heavy` goes to a process pool.

    The pool starts its processes afresh: a fork would copy the locks of threads that are not there any more. It is
    loky's, since the standard library's would run the caller's script once more in each process.
    """

    executor: Executor | None = None
    keeps: object = field(default=None, repr=False)
    """What must live as long as the workers do: a folder of their tables, say."""

    def map(
        self,
        work: Callable[[Item], Answer],
        items: Sequence[Item],
        *,
        heavy: bool,
        lost: Callable[[Item], Answer] | None = None,
    ) -> Iterator[Answer]:
        """The answers, in the order of the items; `lost` answers for work of which processes die, or LostWork."""
        instead = lost or _given_up
        if self.executor is not None:
            return _elsewhere(self.executor, work, items, instead)
        if heavy and len(items) > 1 and _cores() > 1:
            return _in_pool(work, items, instead)
        return map(work, items)


def _elsewhere(
    executor: Executor, work: Callable[[Item], Answer], items: Sequence[Item], lost: Callable[[Item], Answer]
) -> Iterator[Answer]:
    """The answers of the caller's executor; what it cannot do, a lost worker's work say, is done on this machine."""
    asked = [executor.submit(work, item) for item in items]
    for future, item in zip(asked, items, strict=True):
        try:
            answer = future.result()
        except TracekitError:
            raise
        except Exception:  # an executor's own errors are of any class; a fault of the work itself comes again here
            answer = _alone(work, item, lost)
        yield answer


def _in_pool(work: Callable[[Item], Answer], items: Sequence[Item], lost: Callable[[Item], Answer]) -> Iterator[Answer]:
    """The answers of this machine's pool. Who leaves before the end, by Ctrl-C say, leaves no process at work."""
    asked: dict[int, Future[Answer]] = {}
    try:
        _ask(work, items, asked)
        for at, item in enumerate(items):
            try:
                answer = asked[at].result()
            except _ENDED:
                answer = _alone(work, item, lost)
                _ask(work, items, asked, at + 1)
            yield answer
    except Exception:
        for future in asked.values():
            future.cancel()
        raise
    except BaseException:
        _pool().shutdown(wait=True, kill_workers=True)
        raise


def _ask(
    work: Callable[[Item], Answer], items: Sequence[Item], asked: dict[int, Future[Answer]], first: int = 0
) -> None:
    """Gives the pool the items from the first on that it has not answered."""
    for at in range(first, len(items)):
        if at not in asked or (asked[at].done() and isinstance(asked[at].exception(), _ENDED)):
            asked[at] = _submitted(work, items[at])


def _submitted(work: Callable[[Item], Answer], item: Item) -> Future[Answer]:
    try:
        with _deaf():
            future: Future[Answer] = _pool().submit(work, item)
        return future
    except _ENDED as why:
        failed: Future[Answer] = Future()
        failed.set_exception(why)
        return failed


def _alone(work: Callable[[Item], Answer], item: Item, lost: Callable[[Item], Answer]) -> Answer:
    """The answer of a process that does nothing else; of this one where no process can be had."""
    try:
        return _submitted(work, item).result()
    except PicklingError:
        return work(item)
    except ShutdownExecutorError:
        return _alone(work, item, lost)
    except BrokenProcessPool:
        return lost(item) if _can_work() else work(item)


def _can_work() -> bool:
    """Whether processes live at all here, so that it was the work that ended one."""
    try:
        return _submitted(abs, -1).result() == 1
    except _ENDED:
        return False


@contextmanager
def _deaf() -> Iterator[None]:
    """Processes that are started inside do not hear Ctrl-C: this one does, and ends them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # the first time it would let signals through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _pool() -> Any:
    return loky.get_reusable_executor(max_workers=_cores(), timeout=60)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
