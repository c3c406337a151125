from dataclasses import dataclass

import pandas as pd
import pytest

from tests import lanes
from tests.rules.drawn import LAUNCHING, found, healthy, job, late, long, slow
from tracekit.errors import NotMeasured
from tracekit.replay.costs import Costs
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


@dataclass
class Pipelined:
    """Two stages, of which each micro-batch takes so many microseconds forward and backward; nothing is replayed."""

    steps: tuple[tuple[tuple[int, int], ...], ...]
    costs = Costs(None)

    @property
    def run(self):
        return lanes.run(job(*(healthy() for _ in self.steps)))

    def __getitem__(self, measure):
        if measure == "pace":
            return pd.DataFrame(columns=["rank", "step", "factor"])
        assert measure in ("microbatches", "stages")
        rows = [
            (rank, step, rank, action, nth, 1000 * us)
            for rank in (0, 1)
            for step, lengths in enumerate(self.steps)
            for nth, both in enumerate(lengths)
            for action, us in zip(("forward", "backward"), both, strict=True)
        ]
        return pd.DataFrame(rows, columns=["rank", "step", "stage", "action", "microbatch", "busy_ns"])


def test_another_micro_batch_in_each_step():
    """In each step one of three takes 6 + 6 us and one 2 + 2: the long one 4 us more than usual."""
    lengths = (((6, 6), (2, 2), (4, 4)), ((2, 2), (4, 4), (6, 6)), ((4, 4), (6, 6), (2, 2)))
    [finding] = length_imbalance.check(Pipelined(lengths))
    assert (finding.code, finding.ranks, finding.cost_ns) == ("length-imbalance", (), 4000)
    assert finding.title.startswith("micro-batches are unequal work, others in each step")


@pytest.mark.parametrize(
    "lengths",
    [
        (((4, 4), (4, 4), (4, 4)),) * 3,
        (((6, 6), (2, 2), (4, 4)),) * 3,  # always the same
        (((4, 4), (4, 4), (4, 4)), ((8, 8), (8, 8), (8, 8)), ((2, 2), (2, 2), (2, 2))),  # whole steps
        (((6, 2), (2, 6), (4, 4)), ((2, 6), (4, 4), (6, 2)), ((4, 4), (6, 2), (2, 6))),  # not forward with backward
        (((6, 6), (2, 2), (4, 4)), ((2, 2), (4, 4), (6, 6))),  # too few steps
    ],
)
def test_silent_about_micro_batches(lengths):
    assert list(length_imbalance.check(Pipelined(lengths))) == []
