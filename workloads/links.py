"""Transfers that come late or take long: the faults `late_start` and `slow_link`.

A slow link is not late: all members have arrived, and then the transfer takes long. So with `slow_link` in a run every
call goes to a thread (one per group for collectives, one per direction between two ranks), which waits until all
members are there, sleeps if the slow link is this rank's, and transfers. The trace shows this as gloo shows its own
calls: one span `gloo:<operation>` from this rank's arrival to the end. What it is made of stays out of the trace.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.futures import Future
from torch.profiler import record_function

from .communication import Call, Carrier, Directly, Issue, Threads, unseen
from .injection import Injection

ARRIVAL_TAG = 1 << 20
SHOWN_AS = {"reduce_scatter": "all_reduce"}  # gloo's own names, where they are not the operation's


def carrier(injection: Injection) -> Carrier:
    """How this rank's calls are carried out, given the run's faults."""
    chosen: Carrier = SlowLink(injection) if injection.asked("slow_link") else Directly()
    return LateStart(injection, chosen) if injection.asked("late_start") else chosen


class LateStart:
    """The rank comes late to its first call of each step."""

    def __init__(self, injection: Injection, carrier: Carrier) -> None:
        self._injection, self._carrier = injection, carrier
        self._begun = -1

    def threads(self, group: dist.ProcessGroup, ends: tuple[int, int] | None) -> Threads:
        """As without the fault."""
        return self._carrier.threads(group, ends)

    def carry(self, call: Call, issue: Issue) -> Any:
        """The call, after the fault's time if it is the step's first."""
        if self._begun != self._injection.step:
            self._begun = self._injection.step
            self._injection.sleep("late_start")
        return self._carrier.carry(call, issue)


class SlowLink:
    """Transfers of one rank take longer; on all ranks calls go to threads that first await all members."""

    def __init__(self, injection: Injection) -> None:
        self._injection = injection
        self._lines: dict[tuple[str, tuple[int, int] | None], _Line] = {}

    def threads(self, group: dist.ProcessGroup, ends: tuple[int, int] | None) -> Threads:
        """The one thread of the group, or of this direction between two ranks."""
        return (self._line(group.group_name, ends).thread_id,)

    def carry(self, call: Call, issue: Issue) -> Any:
        """Hand the call to its thread; the work returned is done when that is."""
        done: Future[Any] = Future()
        ends = None if call.src is None or call.dst is None else (call.src, call.dst)
        with record_function(str(call)):
            self._line(call.group, ends).put(lambda: self._transfer(call, issue, done))
        return issue.returning(torch._C._distributed_c10d._create_work_from_future(done))

    def _line(self, group: str, ends: tuple[int, int] | None) -> _Line:
        if (group, ends) not in self._lines:
            self._lines[group, ends] = _Line()
        return self._lines[group, ends]

    def _transfer(self, call: Call, issue: Issue, done: Future[Any]) -> None:
        try:
            with record_function(f"gloo:{SHOWN_AS.get(call.op, call.op)}"), unseen():
                _await_members(call, issue)
                self._injection.sleep("slow_link")
                issue.work(issue()).wait()
        except Exception as error:
            done.set_exception(error)
        else:
            done.set_result(issue.arguments[0])


class _Line:
    """A thread that does what it is given, in order."""

    def __init__(self) -> None:
        self._given: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        thread = threading.Thread(target=self._run, name="link", daemon=True)
        thread.start()
        assert thread.native_id is not None
        self.thread_id = thread.native_id

    def put(self, task: Callable[[], None]) -> None:
        self._given.put(task)

    def _run(self) -> None:
        while True:
            self._given.get()()


def _await_members(call: Call, issue: Issue) -> None:
    if call.src is None or call.dst is None:
        issue.group.barrier().wait()
        return
    # The two directions between two ranks are two threads, which must not take each other's messages.
    tag = ARRIVAL_TAG + (call.src > call.dst)
    peer = issue.arguments[2]
    works = [issue.group.send([torch.zeros(1)], peer, tag), issue.group.recv([torch.zeros(1)], peer, tag)]
    for work in works:
        work.wait()
