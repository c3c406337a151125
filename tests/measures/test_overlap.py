import pytest

from tests import lanes
from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured


def table(drawing):
    return Analysis(lanes.run(drawing))["overlap"].values.tolist()


def test_half_of_it_is_hidden():
    assert table("""
        0/7  CCCCCC....
        0/20 ....NNNN..
    """) == [[0, 0, 4000, 2000, 0.5]]


def test_two_collectives_at_once_count_once():
    assert table("""
        0/7  CCC.......
        0/20 NNNN......
        0/21 ..NNNN....
    """) == [[0, 0, 6000, 3000, 0.5]]


def test_a_step_without_communication_has_no_row():
    assert table("""
        step 000111222
        0/7  CCCCCCCCC
        0/20 NN.....N.
        1/7  CCCCCCCCC
    """) == [[0, 0, 2000, 2000, 1.0], [0, 2, 1000, 1000, 1.0]]


def test_no_communication_is_not_zero():
    with pytest.raises(NotMeasured, match="no communication"):
        table("0/7 CCC")


def test_communication_outside_of_all_steps_is_none():
    with pytest.raises(NotMeasured, match="no communication"):
        table("""
            step 000...
            0/7  CCC...
            0/20 ...NNN
        """)
