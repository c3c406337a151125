import pytest

from tests.rules.drawn import LAUNCHING, LOADING, all_late, analysis, healthy, job, late
from tracekit.stalling import Stall, findings

STALL = Stall("loading_ns", "reads", "read", "in reading")


def told(drawing, **options):
    stall = Stall(**{**STALL.__dict__, **options})
    return [(one.title, one.ranks, one.cost_ns) for one in findings(analysis(drawing), "some-code", stall, "advice")]


def test_one_rank():
    [finding] = findings(analysis(job(late(LOADING), late(LOADING))), "some-code", STALL, "advice")
    assert (finding.code, finding.ranks, finding.steps, finding.advice) == ("some-code", (2,), (0, 1), "advice")
    assert finding.title == "rank 2's device is idle while its host reads, and the other ranks wait"
    assert finding.evidence == (
        "its device is idle for 0.003 ms a step in reading, its peers' not at all; that shows in 2 of 2 steps",
    )


def test_two_of_five_ranks():
    """Rank 1 of the first two and rank 4 of all five."""
    others = late(LOADING, 4, ranks=5).split("2/main", 1)[1]
    both = f"{late(LOADING, 1, ranks=2)}2/main{others}"
    assert [ranks for _, ranks, _ in told(job(both, both))] == [(1,), (4,)]


def test_all_ranks():
    """3 us of 16, which is 19 % of the step."""
    drawing = job(all_late(LOADING), all_late(LOADING))
    assert told(drawing) == [("devices are idle while their hosts read", (), 3000)]
    assert told(drawing, of_all_frac=0.18) == told(drawing)
    assert told(drawing, of_all_frac=0.2) == []


def test_latency_on_top():
    """Beside 4 us for the host, each device idles for 2 us of latency: after the step's first launch and after `b`."""
    [(_, _, cost_ns)] = told(job(all_late(LOADING), all_late(LOADING)), latency=True)
    assert 3000 <= cost_ns <= 5000


def test_once_is_not_lasting_but_twice_recurs():
    drawing = job(healthy(), late(LOADING), healthy(), late(LOADING), healthy())
    assert told(drawing) == []
    assert [(ranks, cost_ns) for _, ranks, cost_ns in told(drawing, recurs=True)] == [((2,), 1200)]


@pytest.mark.parametrize("drawing", [job(healthy(), healthy()), job(late(LAUNCHING), late(LAUNCHING))])
def test_another_cause_is_silent(drawing):
    assert told(drawing) == []
