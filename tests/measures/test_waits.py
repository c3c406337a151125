import pytest

from tests import lanes
from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured


def rows(drawing, *columns):
    return Analysis(lanes.run(drawing))["waits"][["rank", "step", "group", *columns]].values.tolist()


def test_members_wait_until_the_last_one_comes():
    drawing = """
        0/20 NNNNNN
        1/20 ...NNN
        2/20 .NNNNN
    """
    assert rows(drawing, "wait_ns", "calls") == [
        [0, 0, "default", 3000, 1],
        [1, 0, "default", 0, 1],
        [2, 0, "default", 2000, 1],
    ]


def test_each_group_and_step_by_itself():
    drawing = """
        step 0000011111
        0/20 NNNN.NNN..  group=dp
        0/21 ......NN..  group=tp
        1/20 ..NN.NNN..  group=dp
        1/21 .......N..  group=tp
    """
    assert rows(drawing, "wait_ns") == [
        [0, 0, "dp", 2000],
        [0, 1, "dp", 0],
        [0, 1, "tp", 1000],
        [1, 0, "dp", 0],
        [1, 1, "dp", 0],
        [1, 1, "tp", 0],
    ]


def test_what_the_rank_computes_meanwhile_is_not_exposed():
    drawing = """
        0/20 NNNNNN
        0/7  .CC...
        1/20 ....NN
    """
    assert rows(drawing, "wait_ns", "exposed_wait_ns") == [[0, 0, "default", 4000, 2000], [1, 0, "default", 0, 0]]


def test_waits_at_once_are_counted_each_for_itself():
    drawing = """
        0/20 NNNNN.  group=dp
        0/21 .NNNNN  group=tp
        1/20 ...NN.  group=dp
        1/21 ....NN  group=tp
    """
    assert [row[3] for row in rows(drawing, "wait_ns")] == [3000, 3000, 0, 0]


def test_a_wait_over_the_border_of_steps_is_cut():
    drawing = """
        step 0000011111
        0/20 ..NNNNNN..
        1/20 ......NN..
    """
    assert rows(drawing, "wait_ns", "calls") == [
        [0, 0, "default", 3000, 1],
        [0, 1, "default", 1000, 0],
        [1, 1, "default", 0, 1],
    ]


def test_receivers_wait_for_senders_and_senders_for_receivers():
    drawing = """
        0/20 ..NN..NNN  op=send peer=1
        1/21 NNNN....N  op=recv peer=0
    """
    assert rows(drawing, "wait_ns", "calls") == [[0, 0, "default", 2000, 2], [1, 0, "default", 2000, 2]]


def test_a_call_that_ends_before_the_last_member_came_waited_all_its_time():
    assert rows("0/20 NN...\n1/20 ...NN", "wait_ns")[0] == [0, 0, "default", 2000]


def test_unmatched_calls_are_counted_and_do_not_wait():
    drawing = """
        0/20 NNN.NN
        1/20 ..N...
    """
    assert rows(drawing, "wait_ns", "calls", "unmatched") == [[0, 0, "default", 2000, 2, 1], [1, 0, "default", 0, 1, 0]]


def test_a_group_of_one_is_not_unmatched():
    drawing = """
        0/20 NN  group=dp
        1/20 NN  group=dp
        0/21 NN  group=alone size=1
    """
    assert rows(drawing, "calls", "unmatched")[0] == [0, 0, "alone", 1, 0]


def test_who_waits_in_a_broadcast_is_not_told():
    drawing = """
        0/20 NNN
        1/20 .NN
        0/21 ....NNN  op=broadcast
        1/21 .....NN  op=broadcast
    """
    assert [row[3] for row in rows(drawing, "wait_ns")] == [1000, 0]


def test_waits_below_the_error_of_the_clocks_are_counted():
    run = lanes.run("0/20 NNNN.NNNN\n1/20 .NNN...NN")
    run.ranks["clock_error_ns"] = 700  # of the two 1400
    assert Analysis(run)["waits"][["wait_ns", "unresolvable"]].values.tolist() == [[3000, 1], [0, 2]]


@pytest.mark.parametrize(
    ("drawing", "why"),
    [
        ("0/7 CC\n1/7 CC", "no communication call"),
        ("0/20 NN", "no second rank"),
        ("0/20 NN group=a\n1/20 NN group=b", "could be matched"),
        ("0/gloo NN op=send peer=1\n1/gloo NN op=recv peer=0", "annotation around each wait"),
    ],
)
def test_nothing_to_measure_is_a_sentence(drawing, why):
    with pytest.raises(NotMeasured, match=why):
        rows(drawing)
