import pytest

from tests.rules.drawn import COLLECTING, LAUNCHING, LOADING, found, healthy, held, job, late, long, slow
from tracekit.errors import NotMeasured
from tracekit.rules import late_transfers


def test_a_rank_that_is_late_for_no_reason_of_its_own():
    """Its call is issued at once and its compute is over at 9 us, as on the others, which wait until 13 us."""
    [finding] = found(late_transfers, job(held(), held(), held()))
    assert (finding.code, finding.ranks, finding.steps, finding.cost_ns) == ("late-transfers", (2,), (0, 1, 2), 4000)
    assert finding.title == "the others wait for rank 2, which computes and launches no later than they do"
    assert finding.evidence == (
        "100% of all exposed waiting is for it, 0.004 ms a step on each rank that waits",
        "its compute and its host explain 0 ms of that",
    )


MORE_WORK = slow(2).replace("CCCCCCcccccc", "CCCCcccc" + "CCcc")
"""Rank 2 runs as quick kernels as the others, but more of them."""


@pytest.mark.parametrize(
    "drawing",
    [
        job(healthy(), healthy(), healthy()),
        job(healthy(), healthy(), held(), healthy()),  # in one step only
        job(held(), healthy(), healthy(), healthy()),
        job(slow(2), slow(2), slow(2)),  # its compute is slow
        job(*[MORE_WORK.replace("by=aa\n    2/20", "by=aaaa\n    2/20")] * 3),
        *(job(*[late(host)] * 3) for host in (LAUNCHING, LOADING, COLLECTING)),  # its host is late
        job(held(0), held(1), held(2)),  # another one in each step
        job(*[long(held())] * 3),  # 4 us of 811
    ],
)
def test_silent(drawing):
    assert found(late_transfers, drawing) == []


def test_alone_nobody_waits():
    with pytest.raises(NotMeasured):
        found(late_transfers, job(healthy(1), healthy(1)))
