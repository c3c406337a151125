import pandas as pd
import pytest

from tests import lanes
from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured


def rows(drawing):
    """Rank, step, direction, copies, bytes, nanoseconds, 10^9 bytes a second."""
    table = Analysis(lanes.run(drawing))["copies"].astype(object)
    return table.where(table.notna(), None).values.tolist()


def test_each_direction_by_itself():
    assert rows("""
        step  0000000000
        0/7   MM.MM.....  bytes=8000
        0/8   .MM.......  bytes=2000 op=device_to_host
    """) == [
        [0, 0, "device_to_host", 1, 2000, 2000, 1.0],
        [0, 0, "host_to_device", 2, 16000, 4000, 4.0],
    ]


def test_copies_at_once_share_the_time_but_not_the_bandwidth():
    assert rows("""
        step  00000000
        0/7   MMMM....  bytes=8000
        0/8   ..MMMM..  bytes=8000
    """) == [[0, 0, "host_to_device", 2, 16000, 6000, 2.0]]


def test_a_copy_over_the_border_counts_where_it_starts_and_takes_time_in_both():
    assert rows("""
        step  000011112222
        0/7   ..MMMM......  bytes=8000
    """) == [[0, 0, "host_to_device", 1, 8000, 2000, 2.0], [0, 1, "host_to_device", 0, 0, 2000, None]]


def test_unknown_bytes_are_not_zero():
    assert rows("""
        step  00000000
        0/7   MM......
        0/7   ....MM..  bytes=4000
        0/8   MM......  op=set
    """) == [[0, 0, "host_to_device", 2, None, 4000, 2.0], [0, 0, "set", 1, None, 2000, None]]


def test_a_direction_that_the_trace_does_not_tell():
    run = lanes.run("0/7 MM")
    tables = run.sources[0, 0].tables
    tables["work"] = tables["work"].assign(operation=pd.Categorical([None], categories=["set"]))
    assert Analysis(run)["copies"]["direction"].to_list() == ["unknown"]


def test_ranks_and_steps_without_a_copy_have_no_row():
    assert rows("""
        step  00001111
        0/7   CC...M..  bytes=1000
        1/7   CCCCCCCC
    """) == [[0, 1, "host_to_device", 1, 1000, 1000, 1.0]]


def test_no_copy():
    with pytest.raises(NotMeasured, match="no copy"):
        rows("0/7 CCC\n1/main CCC")
