"""How much communication of each parallel axis does nothing hide?

Per rank, step and axis of the layout (data, tensor, pipeline, ...): `comm_ns` is the time in which a call of the axis
runs, `exposed_ns` the axis' part of the communication that no compute hides. An instant in which calls of several axes
are exposed is shared equally among them (odd nanoseconds to the first by name), so that the parts of a step sum to the
breakdown's `exposed_comm_ns`. A call belongs to the axes along which its group's members differ in place: an
all-reduce over the stages of a pipeline (of tied embeddings, of a norm) counts for the pipeline, one over several axes
for both (`data+pipeline`). Groups of one member go by their name. All-to-all counts for the expert axis where there is
one, other calls never, since expert groups lie across data groups. What none of this tells is "unknown".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from tracekit import axes
from tracekit.errors import NotMeasured
from tracekit.model import Asked, Column, RankTables, Run
from tracekit.split import UNKNOWN, overlap_by

COLUMNS = {
    "rank": Column(),
    "step": Column(),
    "axis": Column(),
    "comm_ns": Column("ns", better="down"),
    "exposed_ns": Column("ns", better="down"),
}
Places = Mapping[int, Mapping[str, int]]
"""For each rank and axis its place there."""


def measure(asked: Asked) -> pd.DataFrame:
    """One row per rank, step and axis that communicates; NotMeasured where no rank does, or no axis is known."""
    places = _places(asked["places"])
    rows = _with_axes(asked.run, places).map(_of_rank)
    if rows.empty:
        raise NotMeasured("the run has no communication in any step")
    return rows


def _places(rows: pd.DataFrame) -> Places:
    places: dict[int, dict[str, int]] = {}
    for rank, axis, place in rows[["rank", "axis", "place"]].itertuples(index=False):
        places.setdefault(rank, {})[axis] = place
    return places


def _with_axes(run: Run, places: Places) -> Run:
    """The run, its calls with a column `axis`."""
    members = axes.members(run.calls, run.ranks["rank"].tolist())
    exchanges = (run.calls["op"] == "all_to_all").tolist()
    keys = list(zip(run.calls["group"].tolist(), exchanges, strict=True))
    told = {key: _axis(*key, members[key[0]], places) for key in set(keys)}
    return replace(run, calls=run.calls.assign(axis=pd.array([told[key] for key in keys], dtype="str")))


def _axis(group: str, exchanges: bool, members: axes.Members, places: Places) -> str:
    """The axis or axes of a group's calls; `exchanges` for its all-to-all."""
    if len(members) < 2:
        return axes.name_of(group) or UNKNOWN
    stands = [places.get(rank, {}) for rank in members]
    if any(not stand for stand in stands):
        return axes.name_of(group) or UNKNOWN
    along = [axis for axis in axes.AXES if len({stand[axis] for stand in stands if axis in stand}) > 1]
    if axes.EXPERT in along and len(along) > 1:
        along = [axes.EXPERT] if exchanges or axes.name_of(group) == axes.EXPERT else along[:-1]
    return "+".join(along) or UNKNOWN


def _of_rank(one: RankTables) -> pd.DataFrame:
    return overlap_by(one, "axis")[["step", "axis", "comm_ns", "exposed_ns"]]
