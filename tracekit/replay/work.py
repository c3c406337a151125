"""One rank's work as arrays: what runs on which lane, when it was launched, and what class of work it is.

Device work is told by its launch: inside a micro-batch's annotation, else inside autograd's spans (backward), inside an
optimizer's, or after a step's last backward (other compute); what is left is forward. A class of work of one rank and
step, and of one micro-batch where annotations tell them, is an instance: what an ideal makes as long as its mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.actions import action_spans, annotation_of
from tracekit.intervals import Spans, union
from tracekit.model import (
    ANNOTATION,
    COMM,
    COMPUTE,
    DATA_LOADING,
    GARBAGE_COLLECTION,
    LAUNCH,
    MEMORY,
    NO_TIME,
    OPERATOR,
    RankTables,
)

FORWARD, BACKWARD, OPTIMIZER, OTHER = "forward", "backward", "optimizer", "other compute"
COPIES, HOST, LOADING, COLLECTION = "copies", "host", "data loading", "garbage collection"
PHASES = ("forward", "backward", "backward input", "backward weight", "overlapped forward and backward")
CLASSES = (*PHASES, OPTIMIZER, OTHER, COPIES, HOST, LOADING, COLLECTION)
UNRECORDED = len(CLASSES)
"""Beside the classes: what is not recorded of the host's time."""
HOST_CLASSES = (HOST, LOADING, COLLECTION)
"""Classes that are the host's time: an instance is a rank's step, also where it is nought."""

UNTOLD, NO_RECEIVE = -1, -2

Times = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Work:
    """A rank's work in order of start; `call` is the call's `row` in the job, -1 for other work.

    `source` is the rank that a receive comes from (`UNTOLD` where its file does not say), `NO_RECEIVE` for other work;
    `purposes[purpose]` names the kind and the stage of the micro-batch's action, -1 for work outside of all.
    On a CPU trace that is only communication; what the program computes is part of the host's time.
    """

    start: Times
    end: Times
    launch: Times
    lane: Codes
    step: Codes
    call: Codes
    instance: Codes
    source: Codes
    action: Codes
    lanes: tuple[str, ...]
    names: tuple[str, ...]
    name: Codes
    purpose: Codes
    purposes: tuple[tuple[str, str], ...]

    def __len__(self) -> int:
        return len(self.start)

    @property
    def is_comm(self) -> Flags:
        """Which work is communication."""
        return np.asarray(self.call >= 0)

    @property
    def launched(self) -> Flags:
        """Which work has a launch in the file."""
        return np.asarray(self.launch != NO_TIME)


@dataclass(frozen=True)
class Instances:
    """The instances of a rank: each one's class (a place in `CLASSES`), step and micro-batch's annotation (or -1)."""

    cls: Codes
    step: Codes
    action: Codes

    def of(self, cls: Codes, step: Codes, action: Codes) -> Codes:
        """The place of each class, step and action."""
        return np.searchsorted(_key(self.cls, self.step, self.action), _key(cls, step, action))


def _key(cls: Codes, step: Codes, action: Codes) -> Codes:
    return (np.asarray(step) * 2**20 + np.asarray(action) + 1) * len(CLASSES) + np.asarray(cls)


UNTOLD_FRAC = 0.05
"""A step of which more work than this has no launch in the file began before it: it is no example of a step."""


@dataclass(frozen=True)
class RankWork:
    """A rank's device work, what its program computes (on a CPU trace), and the instances of both.

    Work of steps that are no `example` of a step (most often the first, launched before the profile began) is of no
    instance: it stays as measured, in no mean.
    """

    work: Work
    program: tuple[Times, Times, Codes]
    instances: Instances
    example: Flags

    @property
    def as_measured(self) -> int:
        """The code of work of no instance."""
        return len(self.instances.cls)

    @cached_property
    def hosts(self) -> Codes:
        """The instances of the host, one for each step that is an example."""
        return np.flatnonzero(self.instances.cls == CLASSES.index(HOST))

    def unseen_of(self, hosts: Codes) -> Codes:
        """The codes of what is not recorded of the host's instances; the code of no instance stays."""
        return np.where(hosts == self.as_measured, hosts, self.as_measured + 1 + np.searchsorted(self.hosts, hosts))

    @property
    def codes(self) -> int:
        """How many codes there are: of instances, of no instance, and of what is not recorded of a step's host."""
        return self.as_measured + 1 + len(self.hosts)


def rank_work(one: RankTables, base_ns: int) -> RankWork:
    """The work of the steps of `one`, in times from `base_ns` on."""
    rows = one.work[one.work["step"].isin(one.steps["step"])]
    phases = _Phases.of(one)
    cls, action = phases.of_work(one, rows)
    computes = (rows["kind"] == COMPUTE).to_numpy()
    cls[(rows["kind"] == MEMORY).to_numpy()] = CLASSES.index(COPIES)
    step, numbers = rows["step"].to_numpy(), one.steps["step"].to_numpy()
    untold = pd.Series((rows["launch_ns"] == NO_TIME).to_numpy() & (not one.on_cpu)).groupby(step).mean()
    example = ~(untold.reindex(numbers, fill_value=0) > UNTOLD_FRAC).to_numpy(bool) | (untold.min() > UNTOLD_FRAC)
    host_cls = np.tile([CLASSES.index(name) for name in HOST_CLASSES], int(example.sum()))
    host_step = np.repeat(numbers[example], len(HOST_CLASSES))
    told = (rows["kind"] != COMM).to_numpy() & np.isin(step, numbers[example])
    all_keys = _key(
        np.concatenate((cls[told], host_cls)), np.concatenate((step[told], host_step)),
        np.concatenate((action[told], np.full(len(host_cls), -1))),
    )  # fmt: skip
    keys = np.unique(all_keys)
    rest = keys // len(CLASSES)
    instances = Instances(keys % len(CLASSES), rest // 2**20, rest % 2**20 - 1)
    instance = np.full(len(rows), -1)
    instance[told] = instances.of(cls[told], step[told], action[told])
    if one.on_cpu:
        program = _program(rows[computes], instance[computes], base_ns)
        return RankWork(_of_calls(one, base_ns), program, instances, example)
    nothing = np.empty(0, np.int64)
    return RankWork(_on_device(one, rows, instance, action, base_ns), (nothing, nothing, nothing), instances, example)


@dataclass(frozen=True)
class _Phases:
    """Where a rank's annotations, or autograd's spans and the optimizer's, tell what its work is for."""

    starts: Times
    ends: Times
    cls: Codes
    backward: Spans
    optimizer: Spans

    @staticmethod
    def of(one: RankTables) -> _Phases:
        host = one.host
        spans = action_spans(host)
        words = [str(told).split("+") for told in spans["operation"]]
        cls = [
            PHASES.index(named[0].split(":")[0].replace("_", " ")) if len(named) == 1 else len(PHASES) - 1
            for named in words
        ]
        autograd = _named(host[host["kind"] == OPERATOR], "autograd::engine::evaluate_function")
        return _Phases(
            spans["start_ns"].to_numpy(), spans["end_ns"].to_numpy(), np.array(cls, np.int64),
            _spans(autograd), _spans(_named(host[host["kind"] == ANNOTATION], "Optimizer.step")),
        )  # fmt: skip

    def of_work(self, one: RankTables, work: pd.DataFrame) -> tuple[Codes, Codes]:
        """The class and the annotation of each piece of work."""
        at = work["start_ns" if one.on_cpu else "launch_ns"].to_numpy()
        at = np.where(at == NO_TIME, work["start_ns"].to_numpy(), at)
        action = annotation_of(work, self.starts, self.ends, on_cpu=one.on_cpu)
        cls = np.full(len(work), CLASSES.index(OTHER))
        if len(self.starts):
            cls = np.where(action >= 0, np.append(self.cls, 0)[action], cls)
        elif len(self.backward):
            cls = np.where(_before_its_last(self.backward, at, work["step"].to_numpy()), CLASSES.index(FORWARD), cls)
            cls[_inside(self.backward, at)] = CLASSES.index(BACKWARD)
        cls[_inside(self.optimizer, at) & (action < 0)] = CLASSES.index(OPTIMIZER)
        return cls, action


def _named(rows: pd.DataFrame, begins: str) -> pd.DataFrame:
    wanted = np.array([str(name).startswith(begins) for name in rows["name"].cat.categories], bool)
    return rows[wanted[rows["name"].cat.codes]] if len(wanted) else rows.iloc[:0]


def _spans(rows: pd.DataFrame) -> Spans:
    return union(rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy())


def _inside(spans: Spans, at: Times) -> Flags:
    place = np.searchsorted(spans.starts, at, side="right") - 1
    inside = place >= 0
    inside[inside] = at[inside] < spans.ends[place[inside]]
    return inside


def _before_its_last(spans: Spans, at: Times, step: Codes) -> Flags:
    """Which moments of a step are followed by one of the spans before the step's work is over."""
    last = pd.Series(at).groupby(step).transform("max").to_numpy()
    following = np.searchsorted(spans.starts, at, side="right")
    return np.asarray(following < np.searchsorted(spans.starts, last, side="right"))


def _on_device(one: RankTables, rows: pd.DataFrame, instance: Codes, action: Codes, base_ns: int) -> Work:
    told = _purposes(one.host)
    calls = one.calls[one.calls["device_work"]].drop_duplicates(["lane", "start_ns"])
    keys = pd.MultiIndex.from_arrays([rows["lane"].astype(str), rows["start_ns"]])
    place = pd.MultiIndex.from_arrays([calls["lane"], calls["start_ns"]]).get_indexer(keys)
    is_comm = (rows["kind"] == COMM).to_numpy()
    call = np.where(is_comm & (place >= 0), np.append(calls["row"].to_numpy(), -1)[place], -1)
    launch = rows["launch_ns"].to_numpy()
    order = np.lexsort((rows["end_ns"].to_numpy(), rows["start_ns"].to_numpy()))
    return Work(
        start=rows["start_ns"].to_numpy()[order] - base_ns, end=rows["end_ns"].to_numpy()[order] - base_ns,
        launch=np.where(launch == NO_TIME, NO_TIME, launch - base_ns)[order],
        lane=_codes(rows["lane"])[order], step=rows["step"].to_numpy()[order], call=call[order],
        instance=instance[order],
        source=np.where(is_comm & (place >= 0), np.append(_sources(calls), NO_RECEIVE)[place], NO_RECEIVE)[order],
        action=action[order], lanes=tuple(map(str, rows["lane"].cat.categories)),
        names=tuple(map(str, rows["name"].cat.categories)), name=_codes(rows["name"])[order],
        purpose=np.append(told[0], -1)[action][order], purposes=told[1],
    )  # fmt: skip


def _purposes(host: pd.DataFrame) -> tuple[Codes, tuple[tuple[str, str], ...]]:
    """For each action's annotation the number of its kind and stage, and these; two at once count as none."""
    parts = [str(told).split(":") for told in action_spans(host)["operation"]]
    named = [(kind, stage) if "+" not in rest else ("", "") for kind, stage, *rest in parts]
    codes, kinds = pd.factorize(pd.Series(named, dtype=object), sort=False)
    return np.asarray(codes, np.int64), tuple(kinds)


def _sources(calls: pd.DataFrame) -> Codes:
    peer = calls["peer"].fillna(UNTOLD).to_numpy(np.int64)
    return np.where(calls["op"].to_numpy(object) == "recv", peer, NO_RECEIVE)


def _codes(column: pd.Series) -> Codes:
    return column.cat.codes.to_numpy().astype(np.int64)


def _of_calls(one: RankTables, base_ns: int) -> Work:
    """The communication of a CPU trace; the program issues a call where its span begins."""
    calls = one.calls[one.calls["step"].isin(one.steps["step"])].sort_values(["issued_ns", "end_ns"], kind="stable")
    lane, lanes = pd.factorize(calls["lane"])
    name, names = pd.factorize(calls["op"])
    start = calls["issued_ns"].to_numpy() - base_ns
    untold = np.full(len(calls), -1)
    return Work(
        start, calls["end_ns"].to_numpy() - base_ns, start, np.asarray(lane, np.int64), calls["step"].to_numpy(),
        calls["row"].to_numpy(), untold, _sources(calls), untold, tuple(map(str, lanes)),
        tuple(map(str, names)), np.asarray(name, np.int64), untold, (),
    )  # fmt: skip


def _program(rows: pd.DataFrame, instance: Codes, base_ns: int) -> tuple[Times, Times, Codes]:
    """What the program computes, spans inside others left out, as starts, ends and instances in order."""
    start, end = rows["start_ns"].to_numpy() - base_ns, rows["end_ns"].to_numpy() - base_ns
    order = np.lexsort((-end, start))
    start, end, instance = start[order], end[order], instance[order]
    reach = np.maximum.accumulate(np.append(np.iinfo(np.int64).min, end))[:-1] if len(end) else end
    start = np.maximum(start, reach)
    held = end > start
    return start[held], end[held], instance[held]


def launching_lanes(one: RankTables) -> list[str]:
    """The threads that launch device work."""
    return list(one.host.loc[one.host["kind"] == LAUNCH, "lane"].unique())


def spans_of(host: pd.DataFrame, kind: str, base_ns: int) -> tuple[Times, Times]:
    """The time that a kind of host span covers, as starts and ends: `data_loading`, `garbage_collection`."""
    found = _spans(host[host["kind"] == kind])
    return found.starts - base_ns, found.ends - base_ns


LAYERS = ((LOADING, DATA_LOADING), (COLLECTION, GARBAGE_COLLECTION))
