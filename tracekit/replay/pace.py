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

from tracekit.replay.work import CLASSES, HOST_CLASSES, Codes

MEASURED, IDEAL, LIKE_PEERS, LIKE_STAGES, BALANCED, NO_HOST = range(6)
"""Variants; after these come, for each class of the job, all ideal but it, and only it ideal."""
FIXED = 6

Factors = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Targets:
    """For one rank: the target of each class (a place in `CLASSES`) by variant, NaN where it stays as measured.

    `balance` is the factor by class that makes the rank's stage as long as the mean stage.
    """

    ideal: Factors
    peers: Factors
    stages: Factors
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

    def factors(self, rank: int, cls: Codes, total_ns: Codes) -> Factors:
        """By instance and variant, how many nanoseconds one of it takes; the last row is for what is no instance."""
        told = self.of_rank[rank]
        own = np.where(total_ns > 0, total_ns, np.nan)
        ideal, peers, stages = ((target[cls] / own) for target in (told.ideal, told.peers, told.stages))
        columns = [np.ones(len(cls)), ideal, peers, stages, told.balance[cls], ~np.isin(cls, _HOST) * 1.0]
        for one in self.classes:
            columns += [np.where(cls == one, 1.0, ideal), np.where(cls == one, ideal, 1.0)]
        table = np.column_stack(columns) if len(cls) else np.empty((0, self.variants))
        return np.vstack([np.nan_to_num(table, nan=1.0), np.ones((1, self.variants))])


_HOST = [CLASSES.index(name) for name in HOST_CLASSES]


def pace_of(instances: pd.DataFrame, ranks: Sequence[int], stage_of: Mapping[int, int]) -> Pace:
    """The pace of a job from the totals of its instances: `rank, step, cls, total_ns`."""
    rows = instances[(instances["total_ns"] > 0) | instances["cls"].isin(_HOST)]
    rows = rows.assign(stage=rows["rank"].map(stage_of).fillna(-1).astype(int))
    classes = sorted(set(rows.loc[rows["total_ns"] > 0, "cls"].tolist()))
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
        of_rank[rank] = Targets(ideal, peers, others, np.nan_to_num(balance, nan=1.0))
    return Pace(of_rank, classes)


def ideal_of_stages(by_stage: pd.DataFrame) -> Factors:
    """The mean over the stages of their own means."""
    return _array((by_stage["sum"] / by_stage["count"]).groupby(level="cls").mean())


def _sums(rows: pd.DataFrame, by: str) -> pd.DataFrame:
    return rows.groupby([by, "cls"])["total_ns"].agg(["sum", "count"])


def _of(table: pd.DataFrame, key: int) -> pd.DataFrame:
    rows = table.xs(key, level=0) if key in table.index.get_level_values(0) else table.iloc[:0].droplevel(0)
    return pd.DataFrame(rows).reindex(range(len(CLASSES)), fill_value=0)


def _mean(table: pd.DataFrame) -> Factors:
    table = table.reindex(range(len(CLASSES)), fill_value=0)
    return _array((table["sum"] / table["count"].where(table["count"] > 0)).astype(float))


def _array(column: pd.Series) -> Factors:
    return column.reindex(range(len(CLASSES))).to_numpy(np.float64, copy=True)
