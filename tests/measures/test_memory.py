import pytest

from tests import lanes
from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured


def rows(drawing):
    return Analysis(lanes.run(drawing))["memory"].values.tolist()


def test_the_peak_inside_the_step():
    assert rows("""
        step      00001111
        0/memory  1.3.25.4  reserved=8
    """) == [[0, 0, "cuda:0", 3, 8], [0, 1, "cuda:0", 5, 8]]


def test_what_was_held_before_the_step_counts():
    assert rows("""
        step      ..00112233
        0/memory  42....3...
    """) == [[0, 0, "cuda:0", 2, 9], [0, 1, "cuda:0", 2, 9], [0, 2, "cuda:0", 3, 9], [0, 3, "cuda:0", 3, 9]]


def test_a_step_before_the_first_event_has_no_row():
    assert rows("""
        step      000111  incomplete=1
        0/memory  ....5.
        1/memory  ......
    """) == [[0, 1, "cuda:0", 5, 9]]


def test_each_device_by_itself():
    assert rows("""
        step      0000
        0/memory  12..  reserved=4
        0/memory  ..73  device=cuda:1
    """) == [[0, 0, "cuda:0", 2, 4], [0, 0, "cuda:1", 7, 9]]


def test_memory_that_was_not_profiled():
    with pytest.raises(NotMeasured, match="profile_memory=True"):
        rows("0/7 CCC")
