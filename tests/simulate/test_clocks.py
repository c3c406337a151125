import numpy as np

from tracekit.simulate.clocks import FileClock, file_clock
from tracekit.simulate.job import job_of


def test_a_clock_that_is_ahead_and_runs_fast():
    times = np.array([0, 1_000_000_000])
    assert FileClock(5_000, 20_000).told(times).tolist() == [5_000, 1_000_025_000]


def test_faults_of_a_rank_add_up():
    job = job_of({"layout": "dp 2", "faults": ["clock_skew:1:5", "clock_skew:1:2", "clock_drift:1:20"]})
    assert file_clock(job, 1) == FileClock(7_000_000, 20_000)
    assert file_clock(job, 0) == FileClock(0, 0)
