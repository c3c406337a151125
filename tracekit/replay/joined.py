"""A job's calls as a replay needs them: what kind each is, when its last member arrived, and what is left as transfer.

A call that is matched begins its transfer when its last member arrives. Sends and receives that one kernel does
together (a batch: same rank, same start, same end) are over when all their partners have come, so what counts for each
is the last arrival of the whole batch. Where a call's span is the program's wait for what it issued earlier, what is
left after the arrivals and the wait's begin counts as transfer.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from tracekit import axes
from tracekit.model import Run
from tracekit.waiting import SYNCHRONIZING

TOGETHER = ["rank", "window", "start_ns", "end_ns"]


def joined(run: Run, places: pd.DataFrame) -> Run:
    """The run, its calls with `row`, `what`, `issued_ns`, `meeting`, `batch` and `own_transfer_ns`.

    `row` is a number of its own for each call, `what` the kind of transfer, as in `data all_reduce` or `pipeline
    forward`, `meeting` a number that members share, -1 where they do not wait for each other.
    """
    calls = run.calls.assign(row=range(len(run.calls)), what=_what(run, places))
    meets = calls["match"].notna() & calls["op"].isin(SYNCHRONIZING) & calls.duplicated("match", keep=False)
    calls["meeting"] = calls["match"].where(meets).fillna(-1).astype("int64")
    issued = calls["start_ns"] if "arrival_ns" not in calls else calls["arrival_ns"].fillna(calls["start_ns"])
    calls["issued_ns"] = issued.astype("int64")
    arrival = calls["issued_ns"].where(~meets, calls.groupby("meeting")["issued_ns"].transform("max"))
    pairs = calls["op"].isin(["send", "recv"])
    calls["batch"] = calls["row"].where(~pairs, calls.groupby(TOGETHER)["row"].transform("min"))
    arrival = arrival.where(~pairs, arrival.groupby([calls["batch"], pairs]).transform("max"))
    began = arrival.where(calls["issued_ns"] == calls["start_ns"], np.maximum(arrival, calls["start_ns"]))
    calls["own_transfer_ns"] = (calls["end_ns"] - began).clip(lower=0)
    return replace(run, calls=calls)


def _what(run: Run, places: pd.DataFrame) -> list[str]:
    """The axis of each call's group, or its name's words, with the operation; along a pipeline the direction."""
    ranks = sorted(set(run.ranks["rank"].tolist()))
    groups = axes.members(run.calls, ranks)
    of_axis = {frozenset(rows["rank"]): str(axis) for (axis, _), rows in places.groupby(["axis", "group"], sort=False)}
    purpose: dict[str, str] = {name: of_axis.get(frozenset(members), _words(name)) for name, members in groups.items()}
    piped = places[places["axis"] == axes.PIPELINE]
    stage: dict[int, int] = dict(zip(piped["rank"].tolist(), piped["place"].tolist(), strict=True))
    told: list[list[Any]] = [run.calls[name].tolist() for name in ("group", "op", "rank", "peer")]
    return [
        _kind(purpose[group], op, stage.get(rank), stage.get(peer)) for group, op, rank, peer in zip(*told, strict=True)
    ]


def _words(name: str) -> str:
    return " ".join(re.findall(r"[A-Za-z_]+", name)) or "group"


def _kind(purpose: str, op: str, own: int | None, other: int | None) -> str:
    if op not in ("send", "recv") or own is None or other is None or own == other:
        return f"{purpose} {op}"
    return f"{purpose} {'forward' if (other > own) == (op == 'send') else 'backward'}"
