"""Which rank each process of a fused file is, by what the tool that fused it calls them.

Some tools tell each event's rank, most tell their viewers only: by the name or labels of the process (`Rank-3-HOST`) or
by a process number made text (`rank3_4711`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from tracekit.read.columns import as_text
from tracekit.read.format import Named, Names

_RANK = re.compile(r"(?:^|[^a-z])rank[-_ =:#]{0,2}(\d{1,9})(?!\d)", re.IGNORECASE)
_TELLING = ("process_name", "process_labels")


class Processes:
    """The ranks that the processes of a file are called by."""

    def __init__(self) -> None:
        self._told: dict[str, int] = {}

    def add(self, told: Iterable[Named]) -> None:
        """Takes metadata events over."""
        for one in told:
            if one.name in _TELLING and isinstance(one.args, Names):
                for text in (as_text(one.args.name), as_text(one.args.labels)):
                    if (rank := _rank(text)) is not None:
                        self._told.setdefault(as_text(one.pid), rank)

    def ranks(self, pids: Iterable[Any]) -> dict[Any, int]:
        """The ranks of those processes that tell one; none unless several are told: a single one has its metadata."""
        told = {pid: self._told.get(as_text(pid), _rank(as_text(pid))) for pid in pids}
        found = {pid: rank for pid, rank in told.items() if rank is not None}
        return found if len(set(found.values())) > 1 else {}


def _rank(text: str) -> int | None:
    found = _RANK.search(text)
    return int(found[1]) if found else None
