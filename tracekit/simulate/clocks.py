"""How a rank's file tells the time: skewed and drifting as its faults say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracekit.simulate.faults import total
from tracekit.simulate.job import Job

PPB = 10**9


@dataclass(frozen=True)
class FileClock:
    """How far a file's clock is ahead at the job's beginning, and by how many parts per 10^9 it runs fast."""

    offset_ns: int
    drift_ppb: int

    def told(self, times_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """True times as the file tells them."""
        return times_ns + self.offset_ns + times_ns * self.drift_ppb // PPB


def file_clock(job: Job, rank: int) -> FileClock:
    """The clock of a rank's file."""
    skew_ms, drift_ppm = (
        total(job.faults, "clock_skew", rank, job.steps),
        total(job.faults, "clock_drift", rank, job.steps),
    )
    return FileClock(round(skew_ms * 1e6), round(drift_ppm * 1e3))
