import pandas as pd
import pytest

from tests import lanes
from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured


def rows(drawing, *columns):
    table = Analysis(lanes.run(drawing))["collectives"][["group", "op", *columns]]
    return [[None if pd.isna(value) else value for value in row] for row in table.astype(object).values.tolist()]


def test_a_matched_call_counts_once_and_its_members_waits_and_transfers_are_summed():
    drawing = """
        0/20 NNNNNN..NN  bytes=8000
        1/20 ...NNN..NN  bytes=8000
        2/20 .NNNNN..NN  bytes=8000
    """
    assert rows(drawing, "calls", "bytes", "wait_ns", "transfer_ns") == [
        ["default", "all_reduce", 2, 16000, 5000, 3 * 3000 + 3 * 2000]
    ]


def test_bandwidth_is_size_over_the_shortest_members_transfer():
    # 8000 bytes in 2 us and in 2 us: 4 GB/s, on the bus of 4 ranks 2 * 3/4 of it
    drawing = """
        0/20 NNNNN...NN.  bytes=8000 size=4
        1/20 ..NN....NNN  bytes=8000 size=4
    """
    assert rows(drawing, "algbw_gbs", "busbw_gbs") == [["default", "all_reduce", 4.0, 6.0]]


def test_group_and_operation_are_told_apart():
    drawing = """
        0/20 NN........  group=dp op=all_gather bytes=4000
        0/20 ...NN.....  group=dp bytes=4000
        0/20 ......NNNN  group=tp bytes=4000
        1/20 NN........  group=dp op=all_gather bytes=4000
        1/20 ...NN.....  group=dp bytes=4000
        1/20 ......NNNN  group=tp bytes=4000
    """
    assert rows(drawing, "busbw_gbs") == [
        ["dp", "all_gather", 1.0],
        ["dp", "all_reduce", 2.0],
        ["tp", "all_reduce", 1.0],
    ]


def test_a_send_and_its_receive_are_one_call():
    drawing = """
        0/20 ..NN  op=send peer=1 bytes=4000
        1/20 NNNN  op=recv peer=0 bytes=4000
    """
    assert rows(drawing, "calls", "bytes", "wait_ns", "algbw_gbs", "busbw_gbs") == [
        ["default", "send", 1, 4000, 2000, 2.0, 2.0]
    ]


def test_what_is_not_matched_is_counted_apart():
    drawing = """
        0/20 NN.NN.NN  bytes=8000
        1/20 NN......  bytes=8000
        1/21 ...NN...  op=all_gather
    """
    assert rows(drawing, "calls", "unmatched", "bytes") == [
        ["default", "all_gather", 0, 1, None],
        ["default", "all_reduce", 1, 2, 8000],
    ]


def test_a_size_that_is_not_told_is_not_zero():
    drawing = """
        0/20 NN......  bytes=4000
        0/20 ....NNNN
        1/20 NN......  bytes=4000
        1/20 ....NNNN
    """
    assert rows(drawing, "calls", "bytes", "algbw_gbs") == [["default", "all_reduce", 2, None, 2.0]]
    assert rows("0/20 NN\n1/20 NN", "small_frac", "algbw_gbs") == [["default", "all_reduce", None, None]]


def test_small_messages():
    drawing = """
        0/20 N........  bytes=1048576
        0/20 ..N.N.N..  bytes=1048575
        1/20 N........  bytes=1048576
        1/20 ..N.N.N..  bytes=1048575
    """
    assert rows(drawing, "small_frac") == [["default", "all_reduce", 0.75]]


def test_of_a_broadcast_only_the_last_ones_transfer_is_known():
    drawing = """
        0/20 NNNN  op=broadcast bytes=6000
        1/20 .NNN  op=broadcast bytes=6000
    """
    assert rows(drawing, "wait_ns", "transfer_ns", "algbw_gbs") == [["default", "broadcast", None, None, 2.0]]


def test_a_call_that_nobody_transfers_in_has_no_bandwidth():
    assert rows("0/20 NN...  bytes=8\n1/20 ...NN  bytes=8", "algbw_gbs") == [["default", "all_reduce", None]]


@pytest.mark.parametrize(("drawing", "why"), [("0/20 NN", "no second rank"), ("0/7 CC\n1/7 CC", "no communication")])
def test_nothing_to_measure_is_a_sentence(drawing, why):
    with pytest.raises(NotMeasured, match=why):
        rows(drawing)
