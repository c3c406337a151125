import pytest

from tests import lanes
from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured


def table(drawing):
    return Analysis(lanes.run(drawing))["overlap_operation"].values.tolist()


def test_each_operation_by_itself_and_what_both_cover_shared():
    assert table("""
        0/7  CC..........
        0/20 .NNN....NN..  op=all_gather
        0/21 ..NNNN......  op=reduce_scatter
    """) == [
        [0, 0, "all_gather", 5000, 1000, 0.2, 1000 + 2000],
        [0, 0, "reduce_scatter", 4000, 0, 0.0, 1000 + 2000],
    ]


def test_the_same_operation_of_two_groups_counts_once():
    assert table("""
        0/20 NNNN......  group=dp
        0/21 ..NNNN....  group=tp
    """) == [[0, 0, "all_reduce", 6000, 0, 0.0, 6000]]


def test_collectives_of_a_cpu_rank_but_not_its_handles():
    assert table("""
        0/main CCCC......
        0/gloo ...NNN....  op=broadcast
        0/gloo .NNNNNNNN.  op=send
    """) == [[0, 0, "broadcast", 3000, 1000, 1 / 3, 2000]]


def test_no_communication_is_not_zero():
    with pytest.raises(NotMeasured, match="no communication"):
        table("0/7 CCC")
