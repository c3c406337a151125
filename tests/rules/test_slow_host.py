import pytest

from tests.rules.drawn import COLLECTING, LAUNCHING, LOADING, SYNCHRONIZING, all_late, found, healthy, job, late, long
from tracekit.rules import slow_host

CASE = LAUNCHING


def test_one_rank_lastingly():
    """Its device has nothing to do from 5 to 8 us, until `b` is launched; without that all would end 3 us earlier."""
    [finding] = found(slow_host, job(late(CASE), late(CASE), late(CASE)))
    assert (finding.code, finding.ranks, finding.steps, finding.cost_ns) == ("slow-host", (2,), (0, 1, 2), 3000)
    assert finding.title == "rank 2's device is idle while its host is late to launch work, and the other ranks wait"
    assert finding.evidence == (
        "its device is idle for 0.003 ms a step because Python is late, its peers' not at all; "
        "that shows in 3 of 3 steps",
    )


def test_from_some_step_on():
    """3 us in two of four steps."""
    [finding] = found(slow_host, job(healthy(), healthy(), late(CASE), late(CASE)))
    assert (finding.ranks, finding.steps, finding.cost_ns) == ((2,), (2, 3), 1500)


def test_now_and_then():
    """3 us in the first and the third of five steps, as pauses for garbage that no span tells of come."""
    [finding] = found(slow_host, job(late(CASE), healthy(), late(CASE), healthy(), healthy()))
    assert (finding.ranks, finding.steps, finding.cost_ns) == ((2,), (0, 2), 1200)


def test_all_ranks_alike():
    [finding] = found(slow_host, job(all_late(CASE), all_late(CASE)))
    assert (finding.ranks, finding.cost_ns) == ((), 3000)
    assert finding.title == "devices are idle while their hosts are late to launch work"
    assert finding.evidence == ("half of the devices are idle for 0.003 ms a step or more because Python is late",)


@pytest.mark.parametrize(
    "drawing",
    [
        job(healthy(), healthy(), healthy()),
        job(healthy(), late(CASE), healthy()),  # in one step only
        *(job(late(other), late(other)) for other in (LOADING, COLLECTING, SYNCHRONIZING)),  # another cause
        job(long(late(CASE)), long(late(CASE))),  # 3 us of 811
        job(long(late(CASE)), long(healthy()), long(late(CASE)), long(healthy())),
        job(long(all_late(CASE)), long(all_late(CASE))),
    ],
)
def test_silent(drawing):
    assert found(slow_host, drawing) == []
