"""Faults put into real processes, as tracekit's findings name them; all cells: `python -m benchmarks.real_faults`."""

import pytest

from benchmarks.real_faults import tried


@pytest.mark.parametrize(("workload", "fault"), [("ddp", "slow_device"), ("pipeline", "stage_imbalance")])
def test_rank_and_cause_are_named(workload, fault):
    cell = tried(workload, fault, tries=3)
    assert (cell.cause_right, cell.rank_right) == (True, True), cell.told


def test_a_fault_that_cannot_happen_is_told():
    cell = tried("ddp", "stage_imbalance", tries=1)
    assert (cell.cause_right, cell.rank_right) == (None, None)
    assert "cannot happen in ddp" in cell.told
