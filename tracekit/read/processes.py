"""Which rank each process of a fused file is, by what the tool that fused it calls them.

Some tools tell each event's rank, most tell their viewers only: by the name or labels of the process (`Rank-3-HOST`) or
by a process number made text (`rank3_4711`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from tracekit.read.columns import as_text
from tracekit.read.format import Named, Names

_RANK = re.compile(r"(?:^|[^a-z])rank[-_ =:#]{0,2}(\d{1,9})(?!\d)", re.IGNORECASE)
_TELLING = ("process_name", "process_labels")


class Processes:
    """What the processes of a file are called."""

    def __init__(self) -> None:
        self._called: dict[str, list[str]] = defaultdict(list)

    def add(self, told: Iterable[Named]) -> None:
        """Takes metadata events over."""
        for one in told:
            if one.name in _TELLING and isinstance(one.args, Names):
                self._called[as_text(one.pid)] += [as_text(one.args.name), as_text(one.args.labels)]

    def ranks(self, pids: Iterable[Any]) -> dict[Any, int]:
        """The ranks of those processes that tell one; none unless several are told: a single one has its metadata."""
        told = {pid: self._rank(as_text(pid)) for pid in pids}
        found = {pid: rank for pid, rank in told.items() if rank is not None}
        return found if len(set(found.values())) > 1 else {}

    def _rank(self, pid: str) -> int | None:
        told = (_RANK.search(text) for text in (*self._called.get(pid, ()), pid))
        return next((int(found[1]) for found in told if found), None)
