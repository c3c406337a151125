import pytest

from tests import lanes
from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured


def rows(drawing, *columns):
    table = Analysis(lanes.run(drawing))["volume"][["rank", "step", "group", "op", *columns]].astype(object)
    return table.where(table.notna(), None).values.tolist()


def test_bytes_beside_what_a_ring_sends():
    drawing = """
        step 0000011111
        0/20 NN.NN.....  bytes=1000 size=4
        0/20 ......NN..  bytes=1000 size=4 op=reduce_scatter
    """
    assert rows(drawing, "ranks_in_group", "calls", "bytes", "ring_bytes") == [
        [0, 0, "default", "all_reduce", 4, 2, 2000, 3000],
        [0, 1, "default", "reduce_scatter", 4, 1, 1000, 750],
    ]


def test_a_sender_sends_and_a_receiver_does_not():
    drawing = """
        0/20 NN  op=send peer=1 bytes=1000
        1/20 NN  op=recv peer=0 bytes=1000
    """
    assert rows(drawing, "bytes", "ring_bytes") == [
        [0, 0, "default", "send", 1000, 1000],
        [1, 0, "default", "recv", 1000, 0],
    ]


def test_where_no_file_tells_the_groups_size_those_that_show_the_call_are_counted():
    assert [row[4] for row in rows("0/20 NN\n1/20 NN\n2/20 NN", "ranks_in_group")] == [3, 3, 3]
    assert rows("0/20 NN bytes=8", "ranks_in_group", "bytes", "ring_bytes") == [
        [0, 0, "default", "all_reduce", None, 8, None]
    ]


def test_a_size_that_is_not_told_is_not_zero():
    drawing = """
        0/20 NN......  bytes=4000 size=2
        0/20 ....NNNN  size=2
    """
    assert rows(drawing, "calls", "bytes", "ring_bytes") == [[0, 0, "default", "all_reduce", 2, None, None]]


def test_a_call_counts_in_the_step_in_which_it_starts():
    drawing = """
        step ..00..
        0/20 NN.NNN  bytes=8 size=2
    """
    assert rows(drawing, "calls") == [[0, 0, "default", "all_reduce", 1]]


def test_no_communication():
    with pytest.raises(NotMeasured, match="no communication call"):
        rows("0/7 CC")
