import pytest

from tests import lanes
from tests.rules.drawn import LOADING, analysis, healthy, job, late, slow
from tracekit.analysis import Analysis
from tracekit.replay.costs import Costs

SLOW = job(slow(2), slow(2), slow(2))
"""Rank 2 computes 12 us instead of 8; a step takes 16 us, 2 of which are a transfer that nothing hides."""


def costs(drawing):
    return analysis(drawing).costs


def test_what_mending_a_rank_saves():
    assert costs(SLOW).saved_ns("rank:2", 1e9) == 4000


def test_a_rank_that_nobody_waits_for_saves_nothing():
    assert costs(SLOW).saved_ns("rank:0", 1e9) == 0


def test_never_more_than_what_was_amiss():
    assert costs(SLOW).saved_ns("rank:2", 1500.4) == 1500


def test_never_less_than_nothing():
    assert costs(SLOW).saved_ns("rank:2", -5) == 0


def test_an_ideal_is_spelled_with_its_kind():
    """With (8 + 8 + 12) / 3 us on every rank."""
    assert costs(SLOW).saved_ns("ideal:work", 1e9) == round(12_000 - 28_000 / 3)


def test_each_answer_is_computed_once(monkeypatch):
    asked = costs(job(late(LOADING), late(LOADING)))
    first = asked.saved_ns("rank:2", 1e9)
    monkeypatch.setattr("tracekit.replay.costs.fix", None)
    assert asked.saved_ns("rank:2", 1e9) == first >= 3000


def test_transfers_that_took_no_time():
    """Of 16 us the transfer takes 2, whoever is late."""
    assert costs(SLOW).exposed_ns("data", 1e9) == 2000
    assert costs(SLOW).exposed_ns("data", 500) == 500


def test_an_axis_that_the_replay_does_not_know_costs_what_was_measured():
    assert costs(SLOW).exposed_ns("tensor", 700) == 700


def test_links_of_a_group_of_all_have_no_like():
    """No transfer is without rank 2, so none can be made like others."""
    assert costs(SLOW).saved_by_links_ns(2, 1e9) == 0


def test_without_a_replay_costs_are_what_was_measured():
    none = Costs(None)
    assert not none.trusted
    assert (none.saved_ns("rank:2", 1500.4), none.saved_by_links_ns(2, 10.0), none.exposed_ns("data", 9)) == (
        1500,
        10,
        9,
    )
    assert none.saved_ns("rank:2", -1) == 0


@pytest.mark.parametrize("drawing", ["0/main R", "step 00 incomplete=0\n0/7 CC"])
def test_nothing_to_replay_is_no_error(drawing):
    assert not Analysis(lanes.run(drawing)).costs.trusted


def test_a_replay_that_comes_out_as_measured_is_trusted():
    assert costs(SLOW).trusted
    assert costs(job(healthy(), healthy())).trusted
