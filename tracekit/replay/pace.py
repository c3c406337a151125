"""How long each class of work takes under each variant of a rank: as measured, ideal, like its peers ...

A class of work of one rank and step (and micro-batch, where annotations tell them) is an instance. A variant sets an
instance to a target: its length is stretched evenly, so that work, gaps between its pieces and their order stay.
Targets are plain means over instances, as in the study ("mean over all ranks, stages, micro-batches and steps").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.replay.work import CLASSES, HOST, HOST_CLASSES, UNRECORDED, Codes

MEASURED, IDEAL, LIKE_PEERS, LIKE_STAGES, BALANCED, NO_HOST, EVEN = range(7)
"""Variants; after these come, for each class of the job, all ideal but it, and only it ideal."""
FIXED = 7
PLACES = range(len(CLASSES) + 1)
"""Of classes, and of what is not recorded of the host's."""

Factors = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Targets:
    """For one rank: the target of each class (one of `PLACES`) by variant, NaN where it stays as measured.

    `even` is the mean of the rank's own stage, of device work only; `balance` is the factor by class that makes the
    rank's stage as long as the mean stage.
    """

    ideal: Factors
    peers: Factors
    stages: Factors
    even: Factors
    balance: Factors


@dataclass(frozen=True)
class Pace:
    """The targets of all ranks and the job's classes of work, in the order of their variants."""

    of_rank: Mapping[int, Targets]
    classes: Sequence[int]

    @property
    def variants(self) -> int:
        """How many variants there are."""
        return FIXED + 2 * len(self.classes)

    def all_but(self, cls: int) -> int:
        """The variant in which all is ideal but this class."""
        return FIXED + 2 * list(self.classes).index(cls)

    def only(self, cls: int) -> int:
        """The variant in which only this class is ideal."""
        return self.all_but(cls) + 1

    def factors(self, rank: int, cls: Codes, total_ns: Codes, unseen_ns: Codes | None = None) -> Factors:
        """By code (see `RankWork`) and variant, how many nanoseconds one of it takes.

        `unseen_ns` is how much of each of the host's instances is not recorded. Where that is more than its own target,
        what makes the host too long is taken from it first: a pause is mended where it is, not by a little everywhere.
        """
        told = self.of_rank[rank]
        own = np.where(total_ns > 0, total_ns, np.nan)
        targets = (told.ideal, told.peers, told.stages, told.even)
        ideal, peers, stages, even = (target[cls] / own for target in targets)
        columns = [np.ones(len(cls)), ideal, peers, stages, told.balance[cls], ~np.isin(cls, _HOST) * 1.0, even]
        for one in self.classes:
            columns += [np.where(cls == one, 1.0, ideal), np.where(cls == one, ideal, 1.0)]
        table = np.nan_to_num(np.column_stack(columns) if len(cls) else np.empty((0, self.variants)), nan=1.0)
        host = np.flatnonzero(cls == HOST_PLACE)
        unseen = np.zeros(len(host)) if unseen_ns is None else unseen_ns.astype(float)
        pause = _beyond(self._unrecorded(told), unseen)
        table[host], of_unseen = _pauses_first(table[host], total_ns[host].astype(float), unseen, pause)
        return np.vstack([table, np.ones((1, self.variants)), of_unseen])

    def _unrecorded(self, told: Targets) -> Factors:
        """The target by variant of what is not recorded of the host's time, NaN where it stays as measured."""
        ideal, peers, stages = (target[UNRECORDED] for target in (told.ideal, told.peers, told.stages))
        of_host = [(np.nan, ideal) if one == HOST_PLACE else (ideal, np.nan) for one in self.classes]
        return np.array(
            [np.nan, ideal, peers, stages, np.nan, np.nan, np.nan, *(target for pair in of_host for target in pair)]
        )


def _beyond(target: Factors, unseen: Factors) -> Factors:
    """By host and variant, how much of what is not recorded is beyond its target."""
    return np.nan_to_num(np.clip(unseen[:, None] - target, 0, None))


def _pauses_first(factors: Factors, total: Factors, unseen: Factors, pause: Factors) -> tuple[Factors, Factors]:
    """The factors of hosts apart: of what is recorded of each, and of what is not.

    What is too long is taken from pauses that others do not make, and then evenly from all that is left.
    """
    total, unseen = total[:, None], unseen[:, None]
    taken = np.minimum(np.clip(total * (1 - factors), 0, None), pause)
    evenly = np.where(total > taken, total * factors / np.maximum(total - taken, 1e-9), factors)
    return evenly, np.where(unseen > 0, evenly * (unseen - taken) / np.maximum(unseen, 1e-9), evenly)


HOST_PLACE = CLASSES.index(HOST)
_HOST = [*(CLASSES.index(name) for name in HOST_CLASSES), UNRECORDED]


def pace_of(instances: pd.DataFrame, ranks: Sequence[int], stage_of: Mapping[int, int]) -> Pace:
    """The pace of a job from the totals of its instances: `rank, step, cls, total_ns`."""
    rows = instances[(instances["total_ns"] > 0) | instances["cls"].isin(_HOST)]
    rows = rows.assign(stage=rows["rank"].map(stage_of).fillna(-1).astype(int))
    classes = sorted(set(rows.loc[rows["total_ns"] > 0, "cls"].tolist()) - {UNRECORDED})
    by_rank = _sums(rows, "rank")
    by_stage = _sums(rows, "stage")
    whole = by_rank.groupby(level="cls").sum()
    ideal = _array(whole["sum"] / whole["count"])
    of_rank = {}
    for rank in ranks:
        stage = stage_of.get(rank, -1)
        own, mine = _of(by_rank, rank), _of(by_stage, stage)
        others = _mean(whole - mine)
        in_role = _mean(mine - own)
        peers = np.where(np.isnan(in_role), _mean(whole - own), in_role)
        own_mean = _mean(mine)
        balance = ideal_of_stages(by_stage) / np.where(own_mean > 0, own_mean, np.nan)
        balance[_HOST] = np.nan
        even = own_mean.copy()
        even[_HOST] = np.nan
        of_rank[rank] = Targets(ideal, peers, others, even, np.nan_to_num(balance, nan=1.0))
    return Pace(of_rank, classes)


def ideal_of_stages(by_stage: pd.DataFrame) -> Factors:
    """The mean over the stages of their own means."""
    return _array((by_stage["sum"] / by_stage["count"]).groupby(level="cls").mean())


def _sums(rows: pd.DataFrame, by: str) -> pd.DataFrame:
    return rows.groupby([by, "cls"])["total_ns"].agg(["sum", "count"])


def _of(table: pd.DataFrame, key: int) -> pd.DataFrame:
    rows = table.xs(key, level=0) if key in table.index.get_level_values(0) else table.iloc[:0].droplevel(0)
    return pd.DataFrame(rows).reindex(PLACES, fill_value=0)


def _mean(table: pd.DataFrame) -> Factors:
    table = table.reindex(PLACES, fill_value=0)
    return _array((table["sum"] / table["count"].where(table["count"] > 0)).astype(float))


def _array(column: pd.Series) -> Factors:
    return column.reindex(PLACES).to_numpy(np.float64, copy=True)
