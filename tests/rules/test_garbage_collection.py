import pytest

from tests.rules.drawn import COLLECTING, LAUNCHING, LOADING, SYNCHRONIZING, all_late, found, healthy, job, late, long
from tracekit.rules import garbage_collection

CASE = COLLECTING


def test_one_rank_lastingly():
    """Its device has nothing to do from 5 to 8 us, until `b` is launched; without that all would end 3 us earlier."""
    [finding] = found(garbage_collection, job(late(CASE), late(CASE), late(CASE)))
    assert (finding.code, finding.ranks, finding.steps, finding.cost_ns) == (
        "garbage-collection",
        (2,),
        (0, 1, 2),
        3000,
    )
    assert finding.title == "rank 2's device is idle while its host collects garbage, and the other ranks wait"
    assert finding.evidence == (
        "its device is idle for 0.003 ms a step in garbage collection, its peers' not at all; "
        "that shows in 3 of 3 steps",
    )


def test_from_some_step_on():
    """3 us in two of four steps."""
    [finding] = found(garbage_collection, job(healthy(), healthy(), late(CASE), late(CASE)))
    assert (finding.ranks, finding.steps, finding.cost_ns) == ((2,), (2, 3), 1500)


def test_all_ranks_alike():
    [finding] = found(garbage_collection, job(all_late(CASE), all_late(CASE)))
    assert (finding.ranks, finding.cost_ns) == ((), 3000)
    assert finding.title == "devices are idle while their hosts collect garbage"
    assert finding.evidence == ("half of the devices are idle for 0.003 ms a step or more in garbage collection",)


def test_again_and_again_but_not_in_most_steps():
    """3 us in two of five steps: a pause needs not last, only come back."""
    steps = [healthy(), late(CASE), healthy(), late(CASE), healthy()]
    [finding] = found(garbage_collection, job(*steps))
    assert (finding.ranks, finding.steps, finding.cost_ns) == ((2,), (1, 3), 1200)


def test_each_rank_once():
    """No rank pauses twice, but some rank pauses in three of four steps: 9 us in four steps."""
    [finding] = found(garbage_collection, job(healthy(), *(late(CASE, rank) for rank in range(3))))
    assert (finding.ranks, finding.steps, finding.cost_ns) == ((0, 1, 2), (1, 2, 3), 2250)
    assert finding.title == "ranks collect garbage in different steps, and all others wait each time"
    assert finding.evidence == ("ranks 0-2 pause, some rank in 3 of 4 steps, 0.00225 ms a step in the mean",)


@pytest.mark.parametrize(
    "drawing",
    [
        job(healthy(), healthy(), healthy()),
        job(healthy(), late(CASE), healthy()),  # in one step only
        *(job(late(other), late(other)) for other in (LOADING, LAUNCHING, SYNCHRONIZING)),  # another cause
        job(long(late(CASE)), long(late(CASE))),  # 3 us of 811
        job(long(all_late(CASE)), long(all_late(CASE))),
    ],
)
def test_silent(drawing):
    assert found(garbage_collection, drawing) == []
