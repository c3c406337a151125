"""The critical path of a job: the one chain of work, across ranks and lanes, that each step took as long as.

From a step's end back to its beginning, at every moment what was waited for last: work on a rank's lane, a transfer
after its last member came, or the host until it launched. Shortening anything else shortens no step.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.model import RankTables
from tracekit.replay.rank import look_at
from tracekit.replay.replay import Replay
from tracekit.replay.segments import DONE, READY, STEP_END
from tracekit.replay.work import CLASSES, COLLECTION, HOST, LOADING

COLUMNS = {
    "step": "int64", "rank": "int64", "lane": "str", "what": "str", "name": "str", "start_ns": "int64",
    "end_ns": "int64", "length_ns": "int64",
}  # fmt: skip
"""`what` is a class of work, `host`, or a kind of transfer; `name` the longest work there. Times are those of the
replay with measured durations, on the run's clock. A step's lengths sum to its replayed length."""
HOST_LANE = "host"
CPU = "cpu"
SHORT_NS = 1_000_000
"""The host does not tell of less than this between two spans of one class."""

Codes = npt.NDArray[np.int64]


def critical_path(replay: Replay) -> pd.DataFrame:
    """The path's pieces in order of time: the columns of `COLUMNS`."""
    rows = pd.DataFrame(list(_pieces(replay)), columns=["stretch", "rank", "lane", "what", "name", "from", "to"])
    rows = _cut_at_steps(replay, _joined(rows.iloc[::-1].reset_index(drop=True)))
    begin = replay.stretches.begin_ns[rows["stretch"].to_numpy(np.int64)]
    start, end = (np.rint(rows[edge].to_numpy(np.float64)).astype(np.int64) + begin for edge in ("from", "to"))
    rows = rows.assign(start_ns=start, end_ns=end, length_ns=end - start)
    rows = rows[rows["length_ns"] > 0].sort_values("start_ns", kind="stable", ignore_index=True)
    return _hosts_told_apart(replay, rows[list(COLUMNS)].astype(COLUMNS))


def _hosts_told_apart(replay: Replay, path: pd.DataFrame) -> pd.DataFrame:
    """The path, the host's pieces cut by what it does there: on a CPU trace it computes, too."""
    host = path[path["lane"] == HOST_LANE]
    alike = (replay.run.ranks["device"] != CPU).all() and not {LOADING, COLLECTION} & set(replay.classes)
    if host.empty or alike:
        return path
    parts = replay.run.map(partial(_of_host, host=host, base_ns=replay.stretches.base_ns))
    rows = pd.concat([path[path["lane"] != HOST_LANE], parts[list(COLUMNS)].astype(COLUMNS)])
    return rows.sort_values("start_ns", kind="stable", ignore_index=True)


def _of_host(one: RankTables, host: pd.DataFrame, base_ns: int) -> pd.DataFrame:
    """One rank's pieces of the path on its host, cut."""
    mine = host[host["rank"] == one.rank].drop(columns="rank")
    if mine.empty:
        return mine
    rank = look_at(one, base_ns)
    doing = rank.timeline.doing
    others = np.full(rank.told.codes - rank.told.as_measured, CLASSES.index(HOST))
    cls = np.where(doing >= 0, np.append(rank.told.instances.cls, others)[doing], CLASSES.index(HOST))
    borders = rank.timeline.times[1:-1][_lasts(cls, rank.timeline.lengths)] + base_ns
    start, end = mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy()
    first, last = np.searchsorted(borders, start, side="right"), np.searchsorted(borders, end, side="left")
    count = last - first + 1
    row = np.repeat(np.arange(len(mine)), count)
    nth = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count - first, count)
    begin = np.maximum(np.append(base_ns, borders)[nth], start[row])
    over = np.minimum(np.append(borders, np.iinfo(np.int64).max)[nth], end[row])
    at = np.searchsorted(rank.timeline.times, (begin + over) // 2 - base_ns, side="right") - 1
    what = np.array(CLASSES, object)[_smoothed(cls, rank.timeline.lengths)[np.clip(at, 0, len(cls) - 1)]]
    return mine.iloc[row].assign(start_ns=begin, end_ns=over, length_ns=over - begin, what=what)


def _smoothed(cls: Codes, lengths: Codes) -> Codes:
    """The classes, a short time between two of one class taken as more of it."""
    between = np.zeros(len(cls), bool)
    between[1:-1] = (cls[:-2] == cls[2:]) & (lengths[1:-1] < SHORT_NS)
    return np.where(between, np.append(cls[0], cls[:-1]), cls)


def _lasts(cls: Codes, lengths: Codes) -> npt.NDArray[np.bool_]:
    """After which of all but the last the class changes."""
    smooth = _smoothed(cls, lengths)
    return np.asarray(smooth[1:] != smooth[:-1])


def shares(path: pd.DataFrame) -> pd.DataFrame:
    """How much of the path each `what` is: `what, length_ns` (a mean over the steps), `frac`, the longest first."""
    steps = max(path["step"].nunique(), 1)
    lengths = path.groupby("what")["length_ns"].sum().sort_values(ascending=False, kind="stable")
    rows = pd.DataFrame({"length_ns": (lengths / steps).round().astype("int64"), "frac": lengths / lengths.sum()})
    return rows.reset_index()


def _pieces(replay: Replay) -> Iterator[tuple[int, int, str, str, str, float, float]]:
    """What the path is made of, the last first."""
    edges = list(replay.graph.path(replay.measured))
    rows = replay.graph.rows.iloc[[edge for edge, _, _ in edges]]
    names = ("nth_rank", "kind", "lane", "what", "name", "device_ns", "transfer")
    columns = (rows[name].astype(object).tolist() for name in names)
    stretch, reached = -1, -np.inf
    for (_, begin, end), nth, kind, lane, what, name, device_ns, moved in zip(edges, *columns, strict=True):
        if kind == STEP_END and end > reached:
            stretch, reached = stretch + 1, end  # each stretch is told from its end
        told = (stretch, replay.ranks[int(nth)])
        end, begin = min(end, reached), min(begin, reached)  # clocks may have work begin a little before its cause
        reached = begin
        if kind == DONE:
            yield (*told, lane, replay.kinds[moved], name, begin, end)
            continue
        launched = end if kind == READY else max(begin, end - max(device_ns, 0.0))
        if launched < end:
            yield (*told, lane, CLASSES[int(what)] if what >= 0 else HOST, name, launched, end)
        if begin < launched:
            yield (*told, HOST_LANE, HOST, "", begin, launched)


def _joined(rows: pd.DataFrame) -> pd.DataFrame:
    """Pieces in order of time, those of one kind on one lane that touch as one."""
    keys = rows[["stretch", "rank", "lane", "what"]]
    new = (keys != keys.shift()).any(axis=1)
    joined: pd.DataFrame = rows.groupby(new.cumsum().to_numpy(), as_index=False).agg(
        {**dict.fromkeys(["stretch", "rank", "lane", "what", "name", "from"], "first"), "to": "last"}
    )
    return joined


def _cut_at_steps(replay: Replay, rows: pd.DataFrame) -> pd.DataFrame:
    """Pieces cut where a step ends, with their `step`; only steps that count."""
    graph = replay.graph
    ends = graph.moments([replay.measured])[graph.step_nodes, 0]
    parts = []
    for nth, (step, stretch) in enumerate(zip(graph.steps.tolist(), graph.step_stretch.tolist(), strict=True)):
        begin = ends[nth - 1] if nth and graph.step_stretch[nth - 1] == stretch else -np.inf
        mine = rows[(rows["stretch"] == stretch) & (rows["from"] < ends[nth]) & (rows["to"] > begin)]
        cut = mine.assign(step=step, to=mine["to"].clip(upper=ends[nth]))
        first = max(begin, 0.0)
        parts.append(cut.assign(**{"from": cut["from"].clip(lower=first), "to": cut["to"].clip(lower=first)}))
    table = pd.concat(parts, ignore_index=True)
    return pd.DataFrame(table[table["step"].isin(replay.step_numbers)])
