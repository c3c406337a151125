import re
from fractions import Fraction

import pytest

from tracekit.plan.pipeline import bubble_of_makespan
from tracekit.plan.schedule import Action, makespan, recognised

KINDS = {"F": "forward", "B": "backward", "I": "backward_input", "W": "backward_weight"}


def order(text):
    """`0F3` is stage 0's forward of micro-batch 3."""
    return [Action(KINDS[kind], int(stage), int(mb)) for stage, kind, mb in re.findall(r"(\d)([FBIW])(\d)", text)]


def orders(*texts):
    return [order(text) for text in texts]


GPIPE = orders("0F0 0F1 0B0 0B1", "1F0 1F1 1B0 1B1")
ONE_F_ONE_B = orders("0F0 0F1 0B0 0F2 0B1 0B2", "1F0 1B0 1F1 1B1 1F2 1B2")
INTERLEAVED = orders("0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1", "1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1")
ZERO_BUBBLE = orders("0F0 0F1 0I0 0F2 0I1 0W0 0I2 0W1 0W2", "1F0 1I0 1F1 1I1 1F2 1I2 1W0 1W1 1W2")
ZBV = orders("0F0 0F1 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 0I1 0W1", "1F0 2F0 1F1 2F1 2I0 2W0 1I0 1W0 2I1 2W1 1I1 1W1")


@pytest.mark.parametrize(
    ("ran", "schedule"),
    [
        (GPIPE, "gpipe"),
        (ONE_F_ONE_B, "1f1b"),
        (INTERLEAVED, "interleaved"),
        (orders("0F0 2F0 2B0 0B0", "1F0 3F0 3B0 1B0"), "looped-bfs"),
        (ZERO_BUBBLE, "zero-bubble"),
        (ZBV, "zbv"),
        (orders("0F0 3F0 3B0 0I0 0W0", "1F0 2F0 2B0 1I0 1W0"), "dualpipev"),
        (orders("0F0 2F0 2I0 0I0 0W0 2W0", "1F0 3F0 3I0 3W0 1I0 1W0"), "interleaved-zero-bubble"),
    ],
)
def test_a_schedule_is_told_by_its_order(ran, schedule):
    assert recognised(ran) == schedule


def test_one_rank_missing_changes_nothing():
    assert recognised([ONE_F_ONE_B[0], []]) == "1f1b"
    assert recognised([[], ONE_F_ONE_B[1]]) == "1f1b"


def test_more_in_flight_than_1f1b_is_none_of_them_unless_transfers_told_it():
    ran = orders("0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3", "1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3")
    assert recognised(ran) is None
    assert recognised(ran, slack=1) == "1f1b"


def test_forwards_alone_or_nothing_are_no_schedule():
    assert recognised(orders("0F0", "1F0")) is None
    assert recognised([[], []]) is None


def taking_turns(ran, **durations):
    """The orders as what `makespan` takes: actions of all ranks, one after another, each after those it needs."""
    ahead, placed = [list(one) for one in ran], set()
    while any(ahead):
        for rank, one in enumerate(ahead):
            while one and all(need in placed or need.stage > 3 for need in needed(one[0], ran)):
                placed.add(one[0])
                yield rank, one[0], durations[one[0].kind]
                one.pop(0)


def needed(action, ran):
    kind, stage, mb = action
    if kind == "forward":
        return [Action(kind, stage - 1, mb)] if stage else []
    beyond = Action(kind, stage + 1, mb)
    return [beyond] if kind != "backward_weight" and any(beyond in one for one in ran) else []


@pytest.mark.parametrize(("ran", "m", "v"), [(GPIPE, 2, 1), (ONE_F_ONE_B, 3, 1), (INTERLEAVED, 2, 2)])
def test_replayed_with_equal_stages_the_bubble_is_the_formulas(ran, m, v):
    schedule = recognised(ran)
    work = m * v * (1 + 2)
    bubble = Fraction(int(makespan(taking_turns(ran, forward=1, backward=2))) - work)
    assert float(bubble / (bubble + work)) == pytest.approx(bubble_of_makespan(schedule, 2, m, v))


def test_zero_bubble_replayed():
    times = {"forward": 1, "backward_input": 1, "backward_weight": 1}
    assert makespan(taking_turns(ZERO_BUBBLE, **times)) == 9 + 1
    assert bubble_of_makespan("zero-bubble", 2, 3) == 1 / 10


def test_what_is_not_given_is_not_waited_for():
    assert makespan([(1, Action("forward", 1, 0), 5), (1, Action("backward", 1, 0), 7)]) == 12
    assert makespan([]) == 0
