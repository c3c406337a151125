"""How long does each rank wait for others, in which process group?

A call that all members take part in begins when the last of them arrives. Until then a member waits: `wait_ns` is the
sum of the waits of a group's calls, each for itself (two at once count twice), cut at the step's window;
`exposed_wait_ns` is the part in which the rank computes nothing. A receiver waits until its sender starts, and a sender
likewise. `calls` start in the step; `unmatched` of them show no counterpart on some member whose file is at hand, and
are left out of the waits; the waits of `unresolvable` ones are below the error of the clocks. Of broadcast, reduce,
gather and scatter the root is not told, so nobody is said to wait. Where members have no file, waits are lower bounds.
"""

from __future__ import annotations

import pandas as pd

from tracekit.model import Asked, Column, RankTables
from tracekit.waiting import measured, waits_in_steps

COLUMNS = {
    "rank": Column(),
    "step": Column(),
    "group": Column(),
    "wait_ns": Column("ns", better="down"),
    "exposed_wait_ns": Column("ns", better="down"),
    "calls": Column("1"),
    "unmatched": Column("1", better="down"),
    "unresolvable": Column("1", better="down"),
}
KEYS = ["step", "group"]


def measure(asked: Asked) -> pd.DataFrame:
    """One row per rank, step and group that communicates; NotMeasured where no wait is known."""
    return measured(asked.run).map(_of_rank)


def _of_rank(one: RankTables) -> pd.DataFrame:
    waits = waits_in_steps(one).groupby(KEYS)[["wait_ns", "exposed_wait_ns"]].sum()
    rows = waits.join(_counts(one), how="outer").fillna(0).astype("int64")
    return rows.reset_index()[[column for column in COLUMNS if column != "rank"]]


def _counts(one: RankTables) -> pd.DataFrame:
    """How many calls of each group start in each step."""
    nth = one.nth_step(one.calls["start_ns"].to_numpy())
    calls = one.calls[nth >= 0]
    alone = (calls["group_size"] == 1).fillna(False)
    counted = calls.assign(
        step=one.steps["step"].to_numpy()[nth[nth >= 0]],
        calls=1,
        unmatched=calls["match"].isna() & ~alone,
        unresolvable=~calls["resolvable"].fillna(True),
    )
    return counted.groupby(KEYS)[["calls", "unmatched", "unresolvable"]].sum()
