"""A run replayed: as it was, and with some of its durations replaced.

First with the durations that were measured: how far that is from the measured steps (`error_frac`) says how far what
follows can be trusted. Then in scenarios: each rank at a variant of its own durations (`pace`), each kind of transfer
at so much of its measured and its median length.

Definitions as in "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI 2025): the slowdown S
is replayed / ideal, where ideal sets each class of work to its mean over all ranks, stages, micro-batches and steps and
each transfer (a call's time from its last member's arrival) to its median. S of one rank, stage or class is that when
all but it is ideal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit import axes
from tracekit.errors import NotMeasured
from tracekit.model import Asked, Run
from tracekit.replay import unseen
from tracekit.replay.graph import Graph, Scenario, graph_of
from tracekit.replay.joined import joined
from tracekit.replay.pace import IDEAL, MEASURED, NO_HOST, Pace, pace_of
from tracekit.replay.rank import Stretches
from tracekit.replay.segments import DONE, NO_NODE, READY, UNEXPLAINED, edges, first_look
from tracekit.replay.unseen import NOBODY
from tracekit.replay.work import CLASSES, HOST, UNRECORDED

TRUSTED_FRAC = 0.05
"""Above this `error_frac` a replay is not to be trusted; the study leaves out jobs beyond the same bound."""

Weights = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
NO_PLACES = pd.DataFrame(columns=["rank", "axis", "group", "place", "size"])


@dataclass(frozen=True)
class Replay:
    """The graph of a run in one window, and what is needed to ask it."""

    run: Run
    graph: Graph
    pace: Pace
    ranks: tuple[int, ...]
    kinds: tuple[str, ...]
    stage_of: Mapping[int, int]
    data_of: Mapping[int, int]
    stretches: Stretches
    counted: npt.NDArray[np.bool_]
    unexplained_ns: Codes

    @property
    def step_numbers(self) -> list[int]:
        """The steps that count: those that are complete on every rank and take time."""
        return [int(step) for step in self.graph.steps[self.counted]]

    def scenario(
        self,
        variant: int | Callable[[int], int] = MEASURED,
        *,
        measured: float | Callable[[int, str], float] = 1.0,
        median: float | Callable[[int, str], float] = 0.0,
        free: bool = False,
    ) -> Scenario:
        """A scenario of which ranks' variants and kinds of transfers (by rank and kind) are told by functions."""
        chosen = [variant(rank) if callable(variant) else variant for rank in self.ranks]
        return Scenario(np.array(chosen, np.int64), self._moved(measured), self._moved(median), free)

    def _moved(self, share: float | Callable[[int, str], float]) -> Weights:
        if not callable(share):
            return np.full((len(self.ranks), max(len(self.kinds), 1)), float(share))
        rows = [[share(rank, kind) for kind in self.kinds] or [0.0] for rank in self.ranks]
        return np.array(rows, np.float64)

    def step_ns(self, scenarios: Mapping[str, Scenario]) -> dict[str, Weights]:
        """The steps' lengths in each scenario, of the steps that count."""
        ends = self.graph.replayed(list(scenarios.values()))[:, self.counted]
        return dict(zip(scenarios, ends, strict=True))

    @property
    def measured(self) -> Scenario:
        """All as it was."""
        return self.scenario()

    @property
    def ideal(self) -> Scenario:
        """All as the ideal has it."""
        return self.all_ideal_but(())

    def all_ideal_but(self, ranks: Collection[int]) -> Scenario:
        """All ideal, but these ranks and their transfers as measured."""
        return self._apart(ranks, IDEAL, MEASURED)

    def only_ideal(self, ranks: Collection[int]) -> Scenario:
        """All as measured, but these ranks and their transfers ideal."""
        return self._apart(ranks, MEASURED, IDEAL)

    def _apart(self, ranks: Collection[int], others: int, own: int) -> Scenario:
        held = frozenset(ranks)
        own_is_ideal = own == IDEAL
        return self.scenario(
            lambda rank: own if rank in held else others,
            measured=lambda rank, _: float((rank in held) != own_is_ideal),
            median=lambda rank, _: float((rank in held) == own_is_ideal),
        )

    def ideal_but_class(self, cls: int) -> Scenario:
        """All ideal, but one class of work as measured."""
        return self.scenario(self.pace.all_but(cls), measured=0.0, median=1.0)

    def ideal_but_kind(self, kind: str) -> Scenario:
        """All ideal, but one kind of transfer as measured."""
        return self.scenario(
            IDEAL, measured=lambda _, one: float(one == kind), median=lambda _, one: float(one != kind)
        )

    def variant(self, number: int) -> Scenario:
        """Every rank at one variant, transfers as measured."""
        return self.scenario(number)

    def host_free(self) -> Scenario:
        """A host that takes no time."""
        return self.scenario(NO_HOST)

    def links(self, times: float) -> Scenario:
        """Links so many times as fast: transfers take that much less, waits for members stay what they become."""
        return self.scenario(measured=1.0 / times)

    def calls_free(self, *, waiting: bool) -> Scenario:
        """Communication that takes no time; with `waiting` it still begins when its last member arrives."""
        return self.scenario(measured=0.0, free=not waiting)

    @property
    def classes(self) -> list[str]:
        """The classes of work that the job has."""
        return [CLASSES[cls] for cls in self.pace.classes]


def replay_of(asked: Asked, window: int | None = None) -> Replay:
    """The run made ready to be replayed; NotMeasured where there is nothing to replay.

    Of several windows the first is taken unless one is named.
    """
    run = _of_window(asked.run, window)
    if run.steps.empty or run.ranks.empty:
        raise NotMeasured("the run has no step that could be replayed")
    places = _places(asked)
    run = joined(run, places)
    stretches = _stretches(run)
    stage_of, data_of = (_place_of(places, axis) for axis in (axes.PIPELINE, axes.DATA))
    complete = run.steps.groupby("step")["complete"].all()
    seen = run.map(partial(first_look, stretches=stretches))
    ranks = tuple(sorted(set(run.ranks["rank"].tolist())))
    calls, kinds = _transfers(run.calls, complete)
    instances = seen[seen["kind"] == NO_NODE]
    lengths = instances[["rank", "step", "what", "length_ns"]].astype("int64")
    if lengths.empty or not complete.any():
        raise NotMeasured("the run has no complete step that could be replayed")
    met = NOBODY
    if (seen["unseen"] >= 0).any():
        met = _met(graph_of(_nodes(seen, ranks), calls, stretches), run, ranks)
    lengths = _without(lengths, met)
    lengths = lengths[lengths["step"].map(complete).astype(bool)]
    pace = pace_of(lengths.rename(columns={"what": "cls", "length_ns": "total_ns"}), ranks, stage_of)
    late = seen[seen["kind"] == UNEXPLAINED].groupby("rank")["length_ns"].sum().reindex(ranks, fill_value=0)
    del seen, instances  # with thousands of ranks they are large, and so is what comes now
    rows = partial(edges, stretches=stretches, pace=pace, met=met)
    graph = graph_of(_nodes(run.map(rows), ranks), calls, stretches)
    counted = complete.reindex(graph.steps).to_numpy(bool) & (graph.measured_step_ns > 0)
    if not counted.any():
        raise NotMeasured("the run has no complete step that takes any time")
    return Replay(run, graph, pace, ranks, kinds, stage_of, data_of, stretches, counted, late.to_numpy(np.int64))


def _nodes(rows: pd.DataFrame, ranks: tuple[int, ...]) -> pd.DataFrame:
    """The rows that are edges, with the place of their rank."""
    others = rows["kind"] < 0
    rows = rows[~others] if others.any() else rows
    nth = np.searchsorted(np.array(ranks), rows["rank"].to_numpy())
    return rows.drop(columns=["rank", "window"], errors="ignore").assign(nth_rank=nth)


def _met(graph: Graph, run: Run, ranks: tuple[int, ...]) -> pd.DataFrame:
    """Who met whom unseen, by what was measured; with the `step` in which each began to wait."""
    shape = len(ranks), graph.kinds
    one = Scenario(np.zeros(len(ranks), np.int64), np.ones(shape), np.zeros(shape))
    rows = graph.rows.assign(rank=np.array(ranks)[graph.rows["nth_rank"]], slack_ns=graph.slack(one))
    what = run.calls.set_index("row")["what"]
    rows = rows.assign(what=what.reindex(rows["call"]).fillna("").to_numpy(), end_ns=rows["at_ns"])
    columns = ["rank", "unseen", "call", "what", "begin_ns", "end_ns", "slack_ns", "step"]
    rows = rows.astype({"begin_ns": "int64", "end_ns": "int64"})[["kind", "src_kind", *columns]]
    issued = rows[(rows["kind"] == DONE) & (rows["src_kind"] == READY)]
    return unseen.met(rows.loc[rows["unseen"] >= 0, columns], issued[columns])


def _without(lengths: pd.DataFrame, met: pd.DataFrame) -> pd.DataFrame:
    """The lengths of instances without what of the host's time is taken as waiting."""
    less = met[met["unseen"] >= 0].groupby(["rank", "step"])["waited_ns"].sum().rename("less").reset_index()
    of_host = pd.concat([less.assign(what=what) for what in (CLASSES.index(HOST), UNRECORDED)])
    rows = lengths.merge(of_host, on=["rank", "step", "what"], how="left")
    length_ns = (rows["length_ns"] - rows["less"].fillna(0)).clip(lower=0).astype("int64")
    return rows.assign(length_ns=length_ns).drop(columns="less")


def _of_window(run: Run, window: int | None) -> Run:
    """The run with one window of its ranks."""
    if not run.several_windows:
        return run
    chosen = int(run.ranks["window"].min()) if window is None else window
    ranks, steps, calls = (
        table[table["window"] == chosen].reset_index(drop=True) for table in (run.ranks, run.steps, run.calls)
    )
    sources = {key: one for key, one in run.sources.items() if key[1] == chosen}
    return replace(run, ranks=ranks, steps=steps, calls=calls, sources=sources)


def _places(asked: Asked) -> pd.DataFrame:
    try:
        return asked["places"]
    except NotMeasured:
        return NO_PLACES


def _place_of(places: pd.DataFrame, axis: str) -> dict[int, int]:
    rows = places[places["axis"] == axis]
    return dict(zip(rows["rank"].tolist(), rows["place"].tolist(), strict=True))


def _stretches(run: Run) -> Stretches:
    """Steps that follow each other without a gap in their numbers are one stretch."""
    numbers = np.unique(run.steps["step"].to_numpy())
    nth = np.cumsum(np.diff(numbers, prepend=numbers[0]) > 1)
    of_step = dict(zip(numbers.tolist(), nth.tolist(), strict=True))
    begins = run.steps.groupby(run.steps["step"].map(of_step))["start_ns"].min()
    return Stretches(of_step, begins.to_numpy(np.int64), int(run.steps["start_ns"].min()))


def _transfers(calls: pd.DataFrame, complete: pd.Series) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """What the graph needs of each call: its kind's number, and the median transfer of those of its kind and size.

    Where no size is told, of those that are the so-manieth of their kind in a step. A call whose other members are not
    at hand waits and transfers in one, so its ideal is never longer than itself.
    """
    number, kinds = pd.factorize(calls["what"], sort=True)
    held = calls["own_transfer_ns"].where(calls["step"].map(complete).fillna(False).astype(bool)).astype(float)
    nth = -1 - calls.groupby(["rank", "window", "step", "what", "op"]).cumcount()
    size = calls["bytes"].fillna(nth.astype("Int64"))
    median = held.groupby([calls["what"], calls["op"], size]).transform("median")
    median = median.fillna(calls["own_transfer_ns"])
    alone = (calls["meeting"] < 0) & (calls["group_size"].fillna(2) > 1)
    told = calls[["row", "meeting", "batch", "own_transfer_ns"]].assign(
        pair=calls["op"].isin(["send", "recv"]),
        transfer=number,
        median_transfer_ns=median.where(~alone, np.minimum(median, calls["own_transfer_ns"])),
    )
    return told.set_index("row"), tuple(map(str, kinds))
