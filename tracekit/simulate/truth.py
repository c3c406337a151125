"""What happened, exactly: the truth that stands beside simulated traces, as tables and as JSON.

Times are on the job's true clock, from its beginning. Definitions are tracekit's; the numbers are the simulator's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from tracekit.plan import pipeline
from tracekit.simulate.accounting import Account, account, action_rows, axis_rows, call_rows, pipeline_rows, step_rows
from tracekit.simulate.clocks import file_clock
from tracekit.simulate.costs import Costs
from tracekit.simulate.engine import World, carried_out
from tracekit.simulate.faults import OF_RECORDING, Fault
from tracekit.simulate.job import Job
from tracekit.simulate.training import place_in_pipeline

SCHEMA = 1


@dataclass(frozen=True)
class Injected:
    """A fault with the ranks whose doing it is (all: none named), its cause, and the mean step without it."""

    fault: Fault
    ranks: tuple[int, ...]
    cause: str
    step_ns_without: int
    cost_ns: int


@dataclass(frozen=True)
class Truth:
    """Tables of what happened.

    `ranks`: rank, node, clock_offset_ns, clock_drift_ppb, has_file. `steps`: per rank and step the window, breakdown,
    overlap, own and waiting time, idle by cause. `axes`: per rank, step and axis its communication and what of it is
    exposed. `calls`: every call with its wait. `pipeline`: bubbles with phases and causes; `actions`: its forwards and
    backwards. `groups`: number, axis, members. `step_ns` is the mean step over ranks and steps, `healthy_step_ns` that
    of the same job without faults (with samples of one length, where they differ, and as much work in all).
    """

    job: Job
    ranks: pd.DataFrame
    groups: pd.DataFrame
    steps: pd.DataFrame
    axes: pd.DataFrame
    calls: pd.DataFrame
    pipeline: pd.DataFrame
    actions: pd.DataFrame
    theory: Mapping[str, Any] | None
    faults: tuple[Injected, ...]
    step_ns: int
    healthy_step_ns: int


def truth_of(world: World) -> Truth:
    """The truth of a job that was carried out; each fault's cost by carrying the job out again without it."""
    job = world.job
    accounts = [account(one) for one in world.ranks]
    step_ns = _mean_step(accounts)
    healthy_ns = _without(job, *job.faults) if job.faults else step_ns
    return Truth(
        job=job,
        ranks=_ranks(job),
        groups=_groups(world),
        steps=pd.concat([step_rows(told) for told in accounts], ignore_index=True),
        axes=pd.concat([axis_rows(*both) for both in zip(world.ranks, accounts, strict=True)], ignore_index=True),
        calls=pd.concat([call_rows(world, one) for one in world.ranks], ignore_index=True),
        pipeline=pipeline_rows(world, accounts),
        actions=pd.concat([action_rows(told) for told in accounts], ignore_index=True),
        theory=_theory(job),
        faults=tuple(_injected(job, fault, step_ns, healthy_ns) for fault in job.faults),
        step_ns=step_ns,
        healthy_step_ns=healthy_ns,
    )


def _mean_step(accounts: list[Account]) -> int:
    lengths = [int(length) for told in accounts for length in told.windows[1] - told.windows[0]]
    return round(sum(lengths) / len(lengths))


def _without(job: Job, *faults: Fault) -> int:
    """The mean step of the job without some faults."""
    world = carried_out(Costs(job.without(*faults)))
    return _mean_step([account(one) for one in world.ranks])


def _injected(job: Job, fault: Fault, step_ns: int, healthy_ns: int) -> Injected:
    without_ns = step_ns
    if fault.kind not in OF_RECORDING:
        without_ns = healthy_ns if len(job.faults) == 1 else _without(job, fault)
    return Injected(fault, _culprits(job, fault), fault.cause, without_ns, step_ns - without_ns)


def _culprits(job: Job, fault: Fault) -> tuple[int, ...]:
    """The rank, or all that hold the stage; none where all ranks are befallen."""
    if fault.rank is None:
        return ()
    if fault.kind != "stage_imbalance":
        return (fault.rank,)
    place = place_in_pipeline(job, fault.rank)
    return tuple(rank for rank in range(job.ranks) if place_in_pipeline(job, rank) == place)


def _ranks(job: Job) -> pd.DataFrame:
    clocks = [file_clock(job, rank) for rank in range(job.ranks)]
    lost = {fault.rank for fault in job.faults if fault.kind == "missing_ranks"}
    return pd.DataFrame({
        "rank": range(job.ranks), "node": [job.cluster.node(rank) for rank in range(job.ranks)],
        "clock_offset_ns": [one.offset_ns for one in clocks], "clock_drift_ppb": [one.drift_ppb for one in clocks],
        "has_file": [rank not in lost for rank in range(job.ranks)],
    })  # fmt: skip


def _groups(world: World) -> pd.DataFrame:
    groups = [group for of_axis in world.groups.values() for group in of_axis]
    return pd.DataFrame({
        "number": [group.number for group in groups], "axis": [group.axis for group in groups],
        "members": [list(group.members) for group in groups],
    })  # fmt: skip


def _theory(job: Job) -> Mapping[str, Any] | None:
    layout = job.layout
    if layout.pipeline == 1:
        return None
    sizes = (layout.schedule, layout.pipeline, layout.microbatches, layout.stages_per_rank)
    return {
        "schedule": layout.schedule, "ranks": layout.pipeline, "microbatches": layout.microbatches,
        "stages_per_rank": layout.stages_per_rank, "of_makespan": pipeline.bubble_of_makespan(*sizes),
        "of_ideal": pipeline.bubble_of_ideal(*sizes),
    }  # fmt: skip


def write_truth(truth: Truth, path: Path) -> None:
    """`truth.json`: tables as their columns and rows."""
    told = {
        "schema": SCHEMA, "job": described(truth.job), "step_ns": truth.step_ns,
        "healthy_step_ns": truth.healthy_step_ns, "theory": truth.theory,
        "faults": [
            {
                "fault": str(one.fault), "kind": one.fault.kind, "ranks": list(one.ranks), "cause": one.cause,
                "first_step": one.fault.step, "step_ns_without": one.step_ns_without, "cost_ns": one.cost_ns,
            }
            for one in truth.faults
        ],
    }  # fmt: skip
    tables = {
        name: getattr(truth, name) for name in ("ranks", "groups", "steps", "axes", "pipeline", "actions", "calls")
    }
    with path.open("wb") as file:
        file.write(msgspec.json.encode(told)[:-1])
        for name, table in tables.items():
            file.write(b',\n"%s":{"columns":' % name.encode() + msgspec.json.encode(list(table.columns)) + b',"rows":[')
            for first in range(0, len(table), ROWS_AT_ONCE):
                file.write(b",\n" if first else b"\n")
                file.write(msgspec.json.encode(_rows(table.iloc[first : first + ROWS_AT_ONCE]))[1:-1])
            file.write(b"]}")
        file.write(b"}\n")


ROWS_AT_ONCE = 100_000


def _rows(table: pd.DataFrame) -> list[tuple[object, ...]]:
    columns = [column.astype(object).where(column.notna(), None).tolist() for _, column in table.items()]
    return list(zip(*columns, strict=True))


def described(job: Job) -> dict[str, Any]:
    """The job as plain values."""
    told: dict[str, Any] = msgspec.to_builtins(job)
    return {**told, "faults": [str(fault) for fault in job.faults]}
