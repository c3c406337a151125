"""A span around every wait for a collective, send or receive, so that waiting for a peer does not look like computing.

    wait:recv group=1 seq=3 bytes=65536 dtype=float32 src=0 dst=1

It is on the thread that waits, around `Work.wait`, and has the text of the call that it waits for (`communication`).
On gloo it lasts until the transfer is done; on an accelerator it only tells the stream to wait, which is short. Waits
of DDP's reducer are inside of PyTorch's C++ and have no span.
"""

from __future__ import annotations

import threading
from typing import Any
from weakref import WeakKeyDictionary

import torch.distributed as dist
from torch.profiler import record_function

_awaited: WeakKeyDictionary[dist.Work, str] = WeakKeyDictionary()
_thread = threading.local()
_wait = dist.Work.wait


def remember(work: dist.Work, call: str) -> None:
    """A wait for this work is a wait for this call."""
    _awaited[work] = call
    # What the caller is given is this very object only if it still lives when PyTorch's C++ hands the work over.
    _thread.last = work


def annotate() -> None:
    """From now on put a span around every wait of this process."""
    dist.Work.wait = _annotated  # type: ignore[assignment,method-assign]


def _annotated(work: dist.Work, *arguments: Any, **options: Any) -> bool:
    call = _awaited.get(work)
    if call is None:
        return _wait(work, *arguments, **options)
    with record_function(f"wait:{call}"):
        return _wait(work, *arguments, **options)
