"""One rank's communication calls: what each moved, in which group, as far as its own file tells.

A device call is a communication kernel. It is told about by its own NCCL arguments; else by the `record_param_comms`
row or the backend's annotation (`nccl:all_reduce`) inside which it was launched; else by its kernel's name alone. On a
CPU trace a call is a span of gloo's; its `send` and `recv` last as long as a handle, which measures no transfer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.model import CALLS, COMM, table
from tracekit.read import names
from tracekit.read.columns import whole
from tracekit.read.work import Sorted

ALL_RANKS = "all"
"""The group that is assumed where a file names none."""

Rows = npt.NDArray[np.int64]


def calls_of(found: Sorted, collectives: pd.DataFrame) -> pd.DataFrame:
    """The rank's rows of `CALLS`, in order of start, indexed by their rows' labels; rank, window and step stay open."""
    work = found.work[(found.work["kind"] == COMM).to_numpy()]
    if found.on_cpu:
        handles = found.host[_named(found.host, _is_handle)]
        rows = pd.concat([work, handles]).sort_values("start_ns", kind="stable")
        told, annotations = collectives.reindex(rows.index), list(rows["name"])
    else:
        rows = work
        told, annotations = _told(rows, found.host, collectives)
    groups = _group_names(told)
    is_work = rows.index.isin(work.index)
    calls = [
        _call(row, args, annotation, groups.get((args.group, args.group_description), ALL_RANKS), measures)
        for row, args, annotation, measures in zip(
            rows.itertuples(), told.itertuples(), annotations, is_work.tolist(), strict=True
        )
    ]
    return table(CALLS, calls).set_index(rows.index)


def _is_handle(name: str) -> bool:
    return names.is_gloo(name) and names.operation(name) in ("send", "recv", "sendrecv")


def _named(rows: pd.DataFrame, wanted: Callable[[str], bool]) -> npt.NDArray[np.bool_]:
    """Which rows have a name that is wanted."""
    return np.array([wanted(name) for name in rows["name"].cat.categories], bool)[rows["name"].cat.codes]


def _told(rows: pd.DataFrame, host: pd.DataFrame, collectives: pd.DataFrame) -> tuple[pd.DataFrame, list[str | None]]:
    """What is told about each kernel's call: arguments, and the name of the annotation that it was launched in."""
    recorded = host[host.index.isin(collectives.index)]
    annotations = host[_named(host, names.is_collective_annotation)]
    silent = ~rows.index.isin(collectives.index)
    told = collectives.reindex(np.where(silent, _launched_inside(rows, host, recorded), rows.index))
    inside = pd.Series(annotations["name"].astype(object)).reindex(_launched_inside(rows, host, annotations))
    return told, [name if isinstance(name, str) else None for name in inside]


def _launched_inside(rows: pd.DataFrame, host: pd.DataFrame, spans: pd.DataFrame) -> Rows:
    """For each row the label of the span on the launching thread that holds its launch, -1 where there is none.

    Of the spans none may hold another.
    """
    calls = host.reindex(rows["launcher"])
    lanes, times = calls["lane"].cat.codes.to_numpy(), calls["start_ns"].fillna(0).to_numpy(np.int64)
    inside = np.full(len(rows), -1)
    for lane in np.unique(lanes[lanes >= 0]):
        there, mine = spans[spans["lane"].cat.codes == lane], np.flatnonzero(lanes == lane)
        place = np.searchsorted(there["start_ns"].to_numpy(), times[mine], side="right") - 1
        if len(there):
            held = (place >= 0) & (times[mine] <= there["end_ns"].to_numpy()[place])
            inside[mine[held]] = there.index.to_numpy()[place[held]]
    return inside


def _group_names(told: pd.DataFrame) -> dict[tuple[Any, Any], str]:
    """A name for each group of the file: its description, or description and number where that says too little."""
    pairs = list(told[["group", "group_description"]].dropna(how="all").drop_duplicates().itertuples(index=False))
    described = [_text(description) for _, description in pairs]
    named = {}
    for (group, description), text in zip(pairs, described, strict=True):
        if text is None:
            named[group, description] = _text(group) or ALL_RANKS
        else:
            alone = described.count(text) == 1 or _text(group) is None
            named[group, description] = text if alone else f"{text}:{group}"
    return named


def _text(value: Any) -> str | None:
    """The text of an argument; None where it is absent or says only that it is not known."""
    text = str(value).strip()
    return None if value is None or text in ("", "undefined", "None", "nan") else text


def _call(row: Any, args: Any, annotation: str | None, group: str, measures: bool) -> tuple[Any, ...]:
    spelled = [text for text in (_text(args.collective), annotation, row.name) if text]
    op = next((found for text in spelled if (found := names.operation(text)) != "unknown"), "unknown")
    algorithm, protocol = names.algorithm_protocol(row.name)
    sizes = (_text(args.dtype), whole(args.elements_in), whole(args.elements_out))
    peer = {"send": args.destination, "recv": args.source}.get(op)
    return (
        *(0, 0, -1, group, op, whole(args.sequence), names.call_bytes(op, *sizes), sizes[0], algorithm, protocol),
        *(row.lane, row.start_ns, row.end_ns, whole(peer), None, "none", _text(args.call_id)),
        *(whole(args.group_size), _text(args.group_ranks), measures),
    )
