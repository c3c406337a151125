import pytest

from tests.rules.drawn import LAUNCHING, LOADING, found, healthy, job, late, long, slow
from tracekit.errors import NotMeasured
from tracekit.rules import slow_device


def test_all_kernels_of_one_device_by_one_factor():
    """12 us instead of 8, and all wait for it."""
    [finding] = found(slow_device, job(slow(2), slow(2), slow(2)))
    assert (finding.code, finding.ranks, finding.steps, finding.cost_ns) == ("slow-device", (2,), (0, 1, 2), 4000)
    assert finding.title == "rank 2's device is slow: the same kernels take 1.50 times as long"
    assert finding.evidence == (
        "its kernels take 1.50 times as long as those of the same names on 2 other ranks, in 3 of 3 steps; half of "
        "them by weight within 0.0% of that factor",
        "it computes for 0.004 ms a step longer than at their pace",
    )


def test_one_other_rank():
    [finding] = found(slow_device, job(slow(1, ranks=2), slow(1, ranks=2)))
    assert finding.ranks == (1,)
    assert "on 1 other rank, in 2 of 2 steps" in finding.evidence[0]


def test_a_device_that_begins_to_throttle():
    """4 us in two of four steps."""
    [finding] = found(slow_device, job(healthy(), healthy(), slow(2), slow(2)))
    assert (finding.ranks, finding.steps, finding.cost_ns) == ((2,), (2, 3), 2000)
    assert finding.title.endswith("1.50 times as long, from step 2 on")


MORE_WORK = """
    step 000000001111111122222222
    0/7  CCcc....CCcc....CCcc....
    1/7  CCcc....CCcc....CCcc....
    2/7  CCccCCccCCccCCccCCccCCcc
"""
ONE_KERNEL = """
    step 000000001111111122222222
    0/7  CCCC....CCCC....CCCC.... name=gemm
    0/7  ....C.......C.......C... name=norm
    1/7  CCCC....CCCC....CCCC.... name=gemm
    1/7  ....C.......C.......C... name=norm
    2/7  CCCC....CCCC....CCCC.... name=gemm
    2/7  ....CCC.....CCC.....CCC. name=norm
"""
SWINGING = """
    step 000000111111222222333333
    0/7  CCCC..CCCCC.CCCC..CCCCC.
    1/7  CCCCC.CCCC..CCCCC.CCCC..
    2/7  CCCCC.CCCC..CCCCC.CCCCC.
"""


@pytest.mark.parametrize(
    "drawing",
    [
        job(healthy(), healthy(), healthy()),
        job(healthy(), slow(2), healthy()),  # in one step only
        job(late(LOADING), late(LOADING)),  # late, but no slower
        job(late(LAUNCHING), late(LAUNCHING)),
        job(slow(0), slow(1), slow(2), slow(1)),  # another one in each step
        MORE_WORK,
        ONE_KERNEL,
        SWINGING,
        "step 0011\n0/7 CCCC\n1/7 CCCC",  # equal
        f"step {'0' * 101}{'1' * 101}\n0/7 {('C' * 100 + '.') * 2}\n1/7 {'C' * 101 + 'c' * 101}",  # 1 %
        job(long(healthy()), long(healthy())),
    ],
)
def test_silent(drawing):
    assert found(slow_device, drawing) == []


def test_alone_it_cannot_be_told():
    with pytest.raises(NotMeasured, match="no second rank"):
        found(slow_device, "0/7 CC")
