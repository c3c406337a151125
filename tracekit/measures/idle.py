"""Why is each rank's device idle?

`idle_ns` is the breakdown's. Each gap, in which nothing runs on any lane, is told by the work that ends it: until the
host launched that work the gap is `host_late_ns`; the rest is `stream_wait_ns` if a wait for another stream was issued
on the work's lane between the launch before it and its own, else `launch_latency_ns`. Where work of several lanes ends
the gap at once, the one launched first counts. `unknown_ns` are gaps before work whose launch is not in the file. A gap
that no work ends is the host's: it launched nothing more. Work of no length ends no gap. The four sum to `idle_ns`.
The idea is HTA's idle time breakdown (host wait, kernel wait, other), told by launches instead of by a threshold.
"""

from __future__ import annotations

import pandas as pd

from tracekit.errors import NotMeasured
from tracekit.idling import CAUSES, idle_by_cause
from tracekit.model import Asked, Column, RankTables

COLUMNS = {
    "rank": Column(),
    "step": Column(),
    "idle_ns": Column("ns", better="down"),
    "host_late_ns": Column("ns", better="down"),
    "stream_wait_ns": Column("ns", better="down"),
    "launch_latency_ns": Column("ns", better="down"),
    "unknown_ns": Column("ns"),
}


def measure(asked: Asked) -> pd.DataFrame:
    """One row per rank and step; NotMeasured for traces without a device."""
    rows = asked.run.map(_of_rank)
    if rows.empty:
        on_cpu = (asked.run.ranks["device"] == "cpu").all()
        raise NotMeasured("the run has no device that could be idle" if on_cpu else "the run has no step")
    return rows


def _of_rank(one: RankTables) -> pd.DataFrame:
    if one.on_cpu:
        return pd.DataFrame(columns=["step", "idle_ns", *CAUSES])
    causes = {name: one.per_step(spans) for name, spans in idle_by_cause(one).items()}
    return pd.DataFrame({"step": one.steps["step"], "idle_ns": sum(causes.values()), **causes})
