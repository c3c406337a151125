import pandas as pd
import pytest

from tests import lanes
from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured


def column(drawing, *names):
    """The columns' values row by row, None for null."""
    table = Analysis(lanes.run(drawing))["host"][list(names)]
    return [[None if pd.isna(value) else value for value in row] for row in table.astype(object).values.tolist()]


def test_launches_and_their_delay():
    assert column(
        """
        step    00000000001111
        0/main  a.b..c........
        0/7     .CC..CC...CC..  by=abc
        """,
        *("step", "launches", "launch_delay_median_ns", "launch_delay_max_ns"),
    ) == [[0, 3, 2000, 3000], [1, 0, 5000, 5000]]


def test_one_launch_of_several_kernels():
    assert column(
        """
        step    000000
        0/main  a.....
        0/7     .CcC..  by=aaa
        """,
        *("launches", "launch_delay_median_ns", "launch_delay_max_ns"),
    ) == [[1, 2000, 3000]]


def test_a_step_in_which_no_launched_work_starts_has_no_delay():
    assert column(
        """
        step    000111
        0/main  a.....
        0/7     .C..C.  by=a-
        """,
        *("launches", "launch_delay_max_ns", "queue_max"),
    ) == [[1, 1000, 1], [0, None, 0]]


def test_the_queue_is_what_is_launched_and_not_started():
    assert column(
        """
        step    0000000011111111
        0/main  abc.............
        0/7     ..CC......CC....  by=ab
        0/8     ....CC..........  by=c
        """,
        *("queue_mean", "queue_max"),
    ) == [[(2 + 7 + 2) / 8, 2], [2 / 8, 1]]


def test_a_queue_from_before_the_first_step():
    assert column(
        """
        step    ....0000
        0/main  ab......
        0/7     .....CCC  by=a
        0/8     ......CC  by=b
        """,
        *("queue_mean", "queue_max"),
    ) == [[(1 + 2) / 4, 2]]


def test_calls_that_wait_for_the_device():
    assert column(
        """
        step    0000001111
        0/main  .SS..SSS..
        0/other ..SS......
        0/7     CCCCCCCCCC
        """,
        *("sync_calls", "sync_ns"),
    ) == [[3, 3000 + 1000], [0, 2000]]


def test_data_loading_and_garbage_collection():
    assert column(
        """
        step    0000001111
        0/main  DDD.G..GG.
        0/load  ..DD......
        0/7     CCCCCCCCCC
        1/7     CCCCCCCCCC
        """,
        *("rank", "data_loading_ns", "garbage_collection_ns"),
    ) == [[0, 4000, 1000], [0, 0, 2000], [1, 0, 0], [1, 0, 0]]


def test_what_no_rank_shows_is_null():
    assert column(
        """
        0/main  .D..CC
        """,
        *("launches", "launch_delay_max_ns", "queue_mean", "sync_calls", "data_loading_ns", "garbage_collection_ns"),
    ) == [[None, None, None, None, 0, None]]


def test_no_host_events():
    with pytest.raises(NotMeasured, match="no launch"):
        column("0/7 CCC")
