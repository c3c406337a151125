"""All that is found out about one rank for a replay: its work, what that waits for, and what its host does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from tracekit.model import RankTables
from tracekit.replay.causes import before_on_lane, latest_of, tolerance, usual_latency, waits
from tracekit.replay.host import (
    Blocks,
    blocks_of_program,
    blocks_on_device,
    host_timeline,
    step_spans,
    with_marks,
)
from tracekit.replay.timeline import Timeline
from tracekit.replay.work import Codes, RankWork, Times, Work, rank_work

KEPT_NS = 20_000
"""A delay that nothing explains is kept in a replay up to this; the rest is left out, and shows as its error."""


@dataclass(frozen=True)
class Stretches:
    """Steps that follow each other: the stretch of each step, and when each stretch begins on the run's clock."""

    of_step: Mapping[int, int]
    begin_ns: Times
    base_ns: int

    def of(self, step: Codes) -> Codes:
        """The stretch of each step."""
        keys = np.array(sorted(self.of_step), np.int64)
        values = np.array([self.of_step[key] for key in keys.tolist()], np.int64)
        return values[np.searchsorted(keys, step)]


@dataclass(frozen=True)
class Rank:
    """All that is found out about a rank before any pace is chosen."""

    told: RankWork
    blocks: Blocks
    timeline: Timeline
    steps: tuple[Times, Times]
    step_numbers: Codes
    before: Codes
    pairs: tuple[Codes, Codes]
    latency: Times
    delay: Times
    unexplained: Times
    base_ns: int

    @property
    def work(self) -> Work:
        return self.told.work

    @cached_property
    def totals(self) -> Times:
        """Nanoseconds of each instance, of the host's with what is not recorded."""
        work, count = self.work, len(self.told.instances.cls)
        of_device = np.bincount(work.instance[work.instance >= 0], (work.end - work.start)[work.instance >= 0], count)
        total_ns = (of_device + self._of_host[:count]).astype(np.int64)
        total_ns[self.told.hosts] += self.unseen_ns
        return np.asarray(total_ns, np.int64)

    @property
    def unseen_ns(self) -> Times:
        """Nanoseconds that are not recorded of each of the host's instances."""
        return self._of_host[self.told.as_measured + 1 :]

    @cached_property
    def _of_host(self) -> Times:
        """Nanoseconds of each code on the host's timeline."""
        doing, lengths = self.timeline.doing, self.timeline.lengths
        return np.asarray(np.bincount(doing[doing >= 0], lengths[doing >= 0], self.told.codes), np.int64)


def look_at(one: RankTables, base_ns: int, met: pd.DataFrame | None = None) -> Rank:
    """The rank's work and what it waits for; `met` is whom it met unseen (see `unseen.met`), if that is known."""
    told = rank_work(one, base_ns)
    work = told.work
    steps = step_spans(one, work, base_ns)
    before = before_on_lane(work)
    latency = np.zeros(len(work), np.int64)
    pairs = (np.empty(0, np.int64), np.empty(0, np.int64))
    if one.on_cpu:
        blocks = blocks_of_program(work, told.program, np.concatenate(steps))
        ready = work.launch.copy()
    else:
        latency = np.minimum(np.where(work.launched, work.start - work.launch, 0), usual_latency(work, before))
        blocks = blocks_on_device(one, work, steps[0], base_ns)
        launched = np.where(work.launched, work.launch + latency, np.iinfo(np.int64).min)
        ready = np.where(before >= 0, np.maximum(work.end[before], launched), launched)
        ready = np.where(ready == np.iinfo(np.int64).min, work.start, ready)
        pairs = waits(work, one.host, base_ns, before, ready)
    latest = latest_of(pairs, work.end, ready)
    late = work.start - latest
    delay = np.clip(late, -tolerance(work), KEPT_NS)
    waited = np.zeros(int(blocks.unseen.sum()), np.int64)
    if met is not None:
        blocks = with_marks(blocks, work.launch[np.isin(work.call, met.loc[met["unseen"] < 0, "call"])])
        own = met[met["unseen"] >= 0]
        waited[own["unseen"].to_numpy(np.int64)] = own["waited_ns"].to_numpy(np.int64)
    timeline = host_timeline(one, told, blocks, waited, steps, base_ns)
    numbers = one.steps["step"].to_numpy()
    return Rank(told, blocks, timeline, steps, numbers, before, pairs, latency, delay, late - delay, base_ns)
