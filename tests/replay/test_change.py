import pytest

from tests.replay.drawn import TWO_RANKS, analysis
from tracekit.errors import WrongUse
from tracekit.replay import change


@pytest.fixture(scope="module")
def replay():
    return analysis(TWO_RANKS).replay


def step_us(replay, chosen):
    return replay.step_ns({"it": chosen.scenario})["it"][0] / 1000


@pytest.mark.parametrize(
    ("spelled", "us"), [("rank:1", 7), ("rank:0", 11), ("class:other compute", 9), ("axis:data", 11)]
)
def test_fixes(replay, spelled, us):
    assert step_us(replay, change.fix(replay, spelled)) == us


@pytest.mark.parametrize(
    ("spelled", "us"), [("comm", 9), ("collectives", 9), ("axis:data", 9), ("host", 11), ("lengths", 9)]
)
def test_ideals(replay, spelled, us):
    assert step_us(replay, change.ideal(replay, spelled)) == us


@pytest.mark.parametrize(("spelled", "us"), [("2x", 10), ("2", 10), ("0.5x", 13)])
def test_links(replay, spelled, us):
    assert step_us(replay, change.links(replay, spelled)) == us


def test_together(replay):
    """Rank 1 like rank 0, and no transfer: 1 us until it begins, 4 us of compute."""
    both = change.together(replay, [change.fix(replay, "rank:1"), change.ideal(replay, "collectives")])
    assert step_us(replay, both) == 5
    assert both.what == "rank:1 + collectives"


def test_two_changes_of_one_rank_do_not_go_together(replay):
    assert change.together(replay, [change.fix(replay, "class:host"), change.ideal(replay, "host")]) is None


@pytest.mark.parametrize("spelled", ["rank:7", "rank", "stage:0", "class:backward", "axis:tensor", "nothing:1"])
def test_what_is_not_there_cannot_be_fixed(replay, spelled):
    with pytest.raises(WrongUse, match=r"the run has no|--fix takes"):
        change.fix(replay, spelled)


@pytest.mark.parametrize("spelled", ["stages", "axis:tensor", "everything"])
def test_what_is_not_there_cannot_be_ideal(replay, spelled):
    with pytest.raises(WrongUse, match=r"no pipeline stages|the run has no|--ideal takes"):
        change.ideal(replay, spelled)


@pytest.mark.parametrize("spelled", ["0x", "fast", "", "-2x"])
def test_links_take_a_number(replay, spelled):
    with pytest.raises(WrongUse, match="--links takes"):
        change.links(replay, spelled)


def test_all_changes_are_there_once(replay):
    names = [one.what for one in change.all_changes(replay)]
    assert len(names) == len(set(names))
    assert {"rank:0", "rank:1", "class:host", "axis:data", "host", "comm", "collectives", "links:2x"} <= set(names)
