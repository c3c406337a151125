"""One rank's communication calls: what each moved, in which group, as far as its own file tells.

A device call is a communication kernel. It is told about by its own NCCL arguments; else by the `record_param_comms`
row or the backend's annotation (`nccl:all_reduce`) inside which it was launched; else by its kernel's name alone. On a
CPU trace a call is a span of gloo's; its `send` and `recv` last as long as a handle, which measures no transfer, so
where annotations tell how long the program waits for one, that is its span.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.model import CALLS, COMM, NO_STEP
from tracekit.read import names
from tracekit.read.annotated import ProcessGroup, awaited, told_by_annotations
from tracekit.read.columns import count, whole
from tracekit.read.work import Sorted

ALL_RANKS = "all"
"""The group that is assumed where a file names none."""

Rows = npt.NDArray[np.int64]


def calls_of(found: Sorted, collectives: pd.DataFrame, process_groups: Mapping[str, ProcessGroup]) -> pd.DataFrame:
    """The rank's rows of `CALLS`, in order of start, indexed by their rows' labels; rank, window and step stay open."""
    work = found.work[(found.work["kind"] == COMM).to_numpy()]
    if found.on_cpu:
        handles = found.host[_named(found.host, _is_handle)]
        rows = pd.concat([work, handles]).sort_values("start_ns", kind="stable")
        told = told_by_annotations(rows, found.host, collectives, process_groups)
        waits = awaited(rows, told, found.host)
        told.loc[list(waits.untold), ["sequence", "source", "destination"]] = None
        rows, told = (table[~table.index.isin(waits.handles)] for table in (rows, told))
        arrivals_ns, annotations = waits.arrivals_ns, list(rows["name"])
    else:
        rows, arrivals_ns = work, {}
        told, annotations = _told(rows, found.host, collectives)
    members = [_members(*pair, process_groups) for pair in zip(told["group"], told["group_ranks"], strict=True)]
    groups = _group_names(told)
    spelled = [
        _spelled(_text(collective), annotation, kernel)
        for collective, annotation, kernel in zip(told["collective"], annotations, rows["name"], strict=True)
    ]
    dtypes = [_text(dtype) for dtype in told["dtype"]]
    sizes = zip(dtypes, map(count, told["elements_in"]), map(count, told["elements_out"]), strict=True)
    ends = zip(spelled, told["source"], told["destination"], strict=True)
    columns: dict[str, Any] = {
        "rank": 0, "window": 0, "step": NO_STEP,
        "group": [groups.get(pair, ALL_RANKS) for pair in zip(told["group"], told["group_description"], strict=True)],
        "op": [op for op, _, _ in spelled],
        "seq": list(map(whole, told["sequence"])),
        "bytes": [
            count(array if size is None else size)
            for array, size in zip(
                told["array_bytes"],
                (names.call_bytes(op, *size) for (op, _, _), size in zip(spelled, sizes, strict=True)),
                strict=True,
            )
        ],
        "dtype": dtypes,
        "algorithm": [algorithm for _, algorithm, _ in spelled],
        "protocol": [protocol for _, _, protocol in spelled],
        "lane": rows["lane"].astype(object), "start_ns": rows["start_ns"], "end_ns": rows["end_ns"],
        "peer": [whole({"send": to, "recv": by}.get(op)) for (op, _, _), by, to in ends],
        "match": None, "how": "none",
        "comms_id": list(map(_text, told["call_id"])),
        "group_size": list(map(count, told["group_size"])),
        "group_ranks": members,
        "device_work": rows.index.isin(work.index),
        "arrival_ns": [arrivals_ns.get(label) for label in rows.index],
    }  # fmt: skip
    return pd.DataFrame(columns, index=rows.index, columns=list(CALLS)).astype(CALLS)


def _is_handle(name: str) -> bool:
    return names.is_gloo(name) and names.operation(name) in ("send", "recv", "sendrecv")


def _named(rows: pd.DataFrame, wanted: Callable[[str], bool]) -> npt.NDArray[np.bool_]:
    """Which rows have a name that is wanted."""
    return np.array([wanted(name) for name in rows["name"].cat.categories], bool)[rows["name"].cat.codes]


def _told(rows: pd.DataFrame, host: pd.DataFrame, collectives: pd.DataFrame) -> tuple[pd.DataFrame, list[str | None]]:
    """What is told about each kernel's call: arguments, and the name of the annotation that it was launched in."""
    recorded = host[host.index.isin(collectives.index[collectives["collective"].notna()])]
    annotations = host[_named(host, names.is_collective_annotation)]
    silent = ~rows.index.isin(collectives.index)
    told = collectives.reindex(np.where(silent, _launched_inside(rows, recorded), rows.index))
    annotated = _launched_inside(rows, annotations)
    sizes = collectives["array_bytes"].reindex(annotated).to_numpy(object)
    told = told.assign(array_bytes=np.where(told["array_bytes"].isna(), sizes, told["array_bytes"]))
    inside = pd.Series(annotations["name"].astype(object)).reindex(annotated)
    return told, [name if isinstance(name, str) else None for name in inside]


def _launched_inside(rows: pd.DataFrame, spans: pd.DataFrame) -> Rows:
    """For each row the label of the span on the launching thread that holds its launch, -1 where there is none.

    Of the spans none may hold another.
    """
    lanes, times = rows["launch_lane"].to_numpy(), rows["launch_ns"].to_numpy()
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


def _members(group: Any, listed: Any, process_groups: Mapping[str, ProcessGroup]) -> str | None:
    """The list of a group's members: the file's own, since the one beside a call may be cut; else that one."""
    known = process_groups.get(str(group))
    return str(list(known.members)) if known else _text(listed)


def _text(value: Any) -> str | None:
    """The text of an argument; None where it is absent or says only that it is not known."""
    text = str(value).strip()
    return None if value is None or text in ("", "undefined", "None", "nan") else text


@lru_cache(maxsize=4096)
def _spelled(collective: str | None, annotation: str | None, kernel: str) -> tuple[str, str | None, str | None]:
    """Operation, algorithm and protocol of a call."""
    spellings = [text for text in (collective, annotation, kernel) if text]
    op = next((found for text in spellings if (found := names.operation(text)) != "unknown"), "unknown")
    return (op, *names.algorithm_protocol(kernel))
