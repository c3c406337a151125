"""When does each rank compute the forward and the backward of which micro-batch?

One row per rank, step and action, in order of time: `action` is forward, backward, or backward_input and
backward_weight where a schedule computes the two apart; `stage` is the pipeline's stage and null where no annotation
tells one. Told by the annotations that pipeline schedules and training loops write (`PP:0F3`, `Forward 3`, `backward
microbatch=3`, ...); of nested ones those that name a stage count, and of these the inner ones. `host_start_ns` and
`host_end_ns` are the annotation's own span. It may hold the wait for an input, so what an action takes is told by the
compute launched inside, from any thread (on a CPU trace: the operators that begin inside): `start_ns` is the first such
work's start, `end_ns` the last one's end. `busy_ns` is how long the rank computes in between, or takes part in
collectives launched inside, without their waits; sends and receives never count. Two actions that one annotation names
share its time equally. An action that computes nothing has no row. All times are on the run's one clock.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from tracekit.actions import action_spans, annotation_of, useful
from tracekit.errors import NotMeasured
from tracekit.intervals import length_within
from tracekit.model import COMPUTE, Asked, Column, RankTables
from tracekit.waiting import with_waits

COLUMNS = {
    "rank": Column(),
    "step": Column(),
    "stage": Column(),
    "action": Column(),
    "microbatch": Column(),
    "start_ns": Column("ns"),
    "end_ns": Column("ns"),
    "busy_ns": Column("ns", better="down"),
    "host_start_ns": Column("ns"),
    "host_end_ns": Column("ns"),
}
OF_RANK = {
    "step": "int64", "stage": "Int64", "action": "str", "microbatch": "int64", "start_ns": "int64", "end_ns": "int64",
    "host_start_ns": "int64", "host_end_ns": "int64",
}  # fmt: skip


def measure(asked: Asked) -> pd.DataFrame:
    """One row per rank, step and action; NotMeasured where no annotation tells any."""
    rows = with_waits(asked.run).map(_of_rank)
    if rows.empty:
        raise NotMeasured("the run has no annotation of a micro-batch's forward or backward")
    return rows


def _of_rank(one: RankTables) -> pd.DataFrame:
    spans = action_spans(one.host)
    starts, ends = spans["start_ns"].to_numpy(), spans["end_ns"].to_numpy()
    work = one.work[(one.work["kind"] == COMPUTE) & (one.work["end_ns"] > one.work["start_ns"])]
    nth = annotation_of(work, starts, ends, on_cpu=one.on_cpu)
    extents = work[nth >= 0].groupby(nth[nth >= 0]).agg({"step": "first", "start_ns": "min", "end_ns": "max"})
    told = spans.iloc[extents.index][["operation", "start_ns", "end_ns"]].reset_index(drop=True)
    both = zip(extents.itertuples(index=False), told.itertuples(index=False), strict=True)
    rows = [row for extent, annotation in both for row in _rows(*extent, *annotation)]
    table = pd.DataFrame(rows, columns=list(OF_RANK)).astype(OF_RANK)
    table["busy_ns"] = length_within(useful(one, starts, ends), table["start_ns"], table["end_ns"])
    in_steps = table[table["step"].isin(one.steps["step"])]
    return in_steps.sort_values(["step", "start_ns"], kind="stable", ignore_index=True)


def _rows(
    step: int, start_ns: int, end_ns: int, actions: str, host_start_ns: int, host_end_ns: int
) -> Iterator[tuple[object, ...]]:
    """A row for each action that an annotation names."""
    named = [part.split(":") for part in str(actions).split("+")]
    for nth, (action, stage, microbatch) in enumerate(named):
        begin, end = (start_ns + (end_ns - start_ns) * part // len(named) for part in (nth, nth + 1))
        yield step, int(stage) if stage else None, action, int(microbatch), begin, end, host_start_ns, host_end_ns
