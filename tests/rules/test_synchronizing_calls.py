import pytest

from tests.rules.drawn import COLLECTING, LAUNCHING, LOADING, SYNCHRONIZING, all_late, found, healthy, job, late, long
from tracekit.rules import synchronizing_calls

CASE = SYNCHRONIZING
"""The host waits until 6 us, one more than the device needs, and launches 2 us later; steps begin behind a wait."""


def test_one_rank_lastingly():
    """Idle from 5 to 8 us in the middle, and for the first microsecond as all others are."""
    finding, of_all = found(synchronizing_calls, job(late(CASE), late(CASE), late(CASE)))
    assert (finding.code, finding.ranks, finding.steps) == ("synchronizing-calls", (2,), (0, 1, 2))
    assert 2000 <= finding.cost_ns <= 3000
    assert finding.title.startswith("rank 2's device is idle while its host waits for it before it launches more")
    assert finding.evidence == (
        "its device is idle for 0.004 ms a step behind calls that wait for it, its peers' 0.001 ms; that shows in 3 of "
        "3 steps",
    )
    assert of_all.ranks == ()


def test_all_ranks_alike():
    """4 us in gaps behind calls, and 1 us of latency after the launch in the middle, of 15."""
    [finding] = found(synchronizing_calls, job(all_late(CASE), all_late(CASE)))
    assert finding.ranks == ()
    assert 3000 <= finding.cost_ns <= 5000
    assert finding.title == "devices are idle while their hosts wait for them before they launch more"


@pytest.mark.parametrize(
    "drawing",
    [
        job(long(healthy()), long(healthy())),
        job(*(long(late(other)) for other in (LOADING, COLLECTING, LAUNCHING))),
        job(long(late(CASE)), long(late(CASE))),  # 4 us of 811
        job(long(all_late(CASE)), long(all_late(CASE))),
    ],
)
def test_silent(drawing):
    assert found(synchronizing_calls, drawing) == []


def test_one_step_only_names_nobody():
    """What is left is that all hosts wait for their devices once a step."""
    assert [one.ranks for one in found(synchronizing_calls, job(healthy(), late(CASE), healthy()))] == [()]
