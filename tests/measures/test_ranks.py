import pytest

from tests import lanes
from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured


def rows(drawing):
    """Rank, step, own and wait in microseconds; own and wait are the step."""
    analysis = Analysis(lanes.run(drawing))
    table, steps = analysis["ranks"], analysis["breakdown"].set_index(["rank", "step"])["step_ns"]
    sums = table.set_index(["rank", "step"]).sum(axis=1)
    assert (sums == steps[sums.index]).all()
    return [[rank, step, own // 1000, wait // 1000] for rank, step, own, wait in table.values.tolist()]


def test_the_one_that_the_others_wait_for_has_the_most_time_of_its_own():
    assert rows("""
        0/7  CC........
        0/20 ..NNNNNNNN
        1/7  CCCCCCC...
        1/20 .......NNN
    """) == [[0, 0, 5, 5], [1, 0, 10, 0]]


def test_waiting_under_compute_is_the_ranks_own_time():
    assert rows("""
        0/7  CCCC....
        0/20 ..NNNNNN
        1/7  CCCCCC..
        1/20 ......NN
    """) == [[0, 0, 6, 2], [1, 0, 8, 0]]


def test_waits_at_once_count_once():
    assert rows("""
        0/20 NNNNN.  group=dp
        0/21 .NNNNN  group=tp
        1/20 ...NN.  group=dp
        1/21 ....NN  group=tp
    """) == [[0, 0, 2, 4], [1, 0, 3, 0]]


def test_sends_and_receives_wait_too():
    assert rows("""
        step 00000000
        0/7  CCCC....
        0/20 ....NN..  op=send peer=1
        1/21 NNNNNN..  op=recv peer=0
        1/7  ......CC
    """) == [[0, 0, 8, 0], [1, 0, 4, 4]]


def test_a_wait_over_the_border_belongs_to_both_steps():
    assert rows("""
        step 0000011111
        0/20 ..NNNNNN..
        1/20 ......NN..
    """) == [[0, 0, 2, 3], [0, 1, 4, 1], [1, 0, 5, 0], [1, 1, 5, 0]]


def test_a_rank_that_shares_no_call_has_no_row():
    assert [row[0] for row in rows("0/20 NN\n1/20 NN\n2/7 CC")] == [0, 1]


def test_a_world_of_one():
    with pytest.raises(NotMeasured, match="no second rank"):
        rows("0/20 NN")
