import pytest

from tests.rules.drawn import LAUNCHING, found, healthy, job, late, long, slow
from tracekit.errors import NotMeasured
from tracekit.rules import length_imbalance


def test_another_rank_in_each_step():
    """One of three ranks computes 12 us, the others 8; with 9 1/3 us everywhere a step is 2 2/3 us shorter."""
    [finding] = found(length_imbalance, job(slow(0), slow(1), slow(2)))
    assert (finding.code, finding.ranks, finding.steps, finding.cost_ns) == ("length-imbalance", (), (), 2667)
    assert finding.title.startswith("ranks have unequal work, another one the most in each step")


@pytest.mark.parametrize(
    "drawing",
    [
        job(healthy(), healthy(), healthy()),
        job(healthy(), slow(2), healthy(), healthy()),  # once
        job(slow(2), slow(2), slow(2)),  # a slow device
        job(healthy(), healthy(), slow(2), slow(2)),  # one that throttles
        job(late(LAUNCHING, 0), late(LAUNCHING, 1), late(LAUNCHING, 2)),  # late, with the same work
        job(slow(0), slow(1)),  # too few steps
        job(*(long(healthy()) for _ in range(3))),
    ],
)
def test_silent(drawing):
    assert found(length_imbalance, drawing) == []


def phases(*steps):
    """Two ranks whose forward and backward take so many microseconds: (rank 0's two, rank 1's two) in each step."""
    return job(*map(_phases, steps))


def _phases(step):
    longest = max(sum(step[:2]), sum(step[2:]))
    lines = []
    for rank in (0, 1):
        forward, backward = step[2 * rank : 2 * rank + 2]
        rest = "." * (longest - forward - backward)
        lines += [
            f"{rank}/main AA..{'.' * longest} op=forward::0",
            f"{rank}/main ..A.{'.' * longest} op=backward::0",
            f"{rank}/main aSbc{'S' * longest}",
            f"{rank}/7 .{'C' * forward}{'c' * backward}...{rest} by=ab",
            f"{rank}/20 .{'.' * (forward + backward)}{'N' * len(rest)}NN. by=c",
        ]
    return "\n".join(lines)


def test_forward_and_backward_go_along():
    """Each step some rank has 6 + 6 us, the other 4 + 4, by turns."""
    assert len(found(length_imbalance, phases((4, 4, 6, 6), (6, 6, 4, 4), (4, 4, 6, 6), (6, 6, 4, 4)))) == 1


def test_forward_and_backward_that_do_not_are_no_lengths():
    """The same sums, but backward is long when forward is short."""
    assert found(length_imbalance, phases((4, 6, 7, 4), (7, 4, 4, 6), (4, 7, 6, 4), (6, 4, 4, 7))) == []


def test_alone_it_cannot_be_told():
    with pytest.raises(NotMeasured, match="no second rank"):
        found(length_imbalance, "0/7 CC")
