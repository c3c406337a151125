"""Calls drawn as text: a line a rank, a character a microsecond, a letter an operation, a run of it a call.

    0  RRR.GG..     R all_reduce, G all_gather, S reduce_scatter, A all_to_all
    1  .RR.GG..     s send, r recv (to or from `peer=`)

Words behind the drawing: `group=dp`, `ranks=[0, 1]`, `seq=41,42`, `peer=1`,
`ahead=5000` (the file's clock in microseconds), `bytes=8`.
"""

from __future__ import annotations

import re

import pandas as pd

from tracekit.model import CALLS, table

OPERATIONS = {
    "R": "all_reduce", "G": "all_gather", "S": "reduce_scatter", "A": "all_to_all", "B": "broadcast",
    "s": "send", "r": "recv",
}  # fmt: skip


def calls(drawing: str) -> pd.DataFrame:
    """The drawing as `CALLS` of unmatched calls on their files' own clocks."""
    rows = []
    for line in drawing.strip().splitlines():
        rank, cells, *words = line.split(maxsplit=2)
        told = dict(re.findall(r"(\w+)=(\[.*?\]|\S+)", words[0] if words else ""))
        rows += _of_line(int(rank), cells, told)
    return table(CALLS, rows)


def _of_line(rank: int, cells: str, told: dict[str, str]) -> list[tuple[object, ...]]:
    ahead = int(told.get("ahead", 0))
    sequence = [int(number) for number in told["seq"].split(",")] if "seq" in told else []
    rows = []
    for number, found in enumerate(re.finditer(r"([A-Za-z])\1*", cells)):
        rows.append(
            (
                *(rank, 0, 0, told.get("group", "all"), OPERATIONS[found[1]]),
                *(sequence[number] if sequence else None, int(told["bytes"]) if "bytes" in told else None, None),
                *(None, None, "0/20", (found.start() + ahead) * 1000, (found.end() + ahead) * 1000),
                *(int(told["peer"]) if "peer" in told else None, None, "none", told.get("id")),
                *(int(told["size"]) if "size" in told else None, told.get("ranks"), True, None),
            )
        )
    return rows
