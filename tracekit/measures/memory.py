"""How much device memory does each step need at its peak?

The highest `Total Allocated` and `Total Reserved` that the allocator's `[memory]` events show from the last event
before the step to its end, per device: what was held when the step began counts as well. Reserved is what PyTorch's
caching allocator took from the device, allocated is what tensors hold of it. A step before the first event has no row.
Same values as `torch.cuda.max_memory_allocated` and `max_memory_reserved` with a reset at each step.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from tracekit.errors import NotMeasured
from tracekit.model import Asked, Column, RankTables

COLUMNS = {
    "rank": Column(),
    "step": Column(),
    "device": Column(),
    "peak_allocated_bytes": Column("bytes", better="down"),
    "peak_reserved_bytes": Column("bytes", better="down"),
}


def measure(asked: Asked) -> pd.DataFrame:
    """One row per rank, step and device; NotMeasured where memory was not profiled."""
    rows = asked.run.map(_of_rank)
    if rows.empty:
        raise NotMeasured("the run has no memory events: profile with profile_memory=True")
    return rows


def _of_rank(one: RankTables) -> pd.DataFrame:
    rows = [
        (step, str(device), *peaks)
        for device, events in one.allocations.groupby("device")
        for step, peaks in _peaks(one.steps, events)
    ]
    table = pd.DataFrame(rows, columns=list(COLUMNS)[1:])
    return table.sort_values(["step", "device"], ignore_index=True)


def _peaks(steps: pd.DataFrame, events: pd.DataFrame) -> list[tuple[int, tuple[int, int]]]:
    """Each step with its two peaks on one device."""
    held = events[["allocated_bytes", "reserved_bytes"]].to_numpy()
    times = events["time_ns"].to_numpy()
    first = np.maximum(np.searchsorted(times, steps["start_ns"], side="left") - 1, 0)
    last = np.searchsorted(times, steps["end_ns"], side="left")
    spans = zip(steps["step"].tolist(), first.tolist(), last.tolist(), strict=True)
    return [(step, tuple(held[a:b].max(axis=0).tolist())) for step, a, b in spans if a < b]
