import pytest

from tests import lanes
from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured


def rows(drawing):
    return Analysis(lanes.run(drawing))["kernels"].drop(columns="kind").values.tolist()


def totals(drawing):
    """Name, calls and total in microseconds."""
    return [(name, calls, total // 1000) for _, name, calls, total, *_ in rows(drawing)]


def test_the_longest_total_first():
    assert rows("""
        step  0000000000
        0/7   CC...CC...  name=gemm
        0/8   .....CCCCC  name=attention
        0/20  .N........  name=nccl
    """) == [
        [0, "attention", 1, 5000, 5000, 5000, 5 / 10, 5 / 10],
        [0, "gemm", 2, 4000, 2000, 4000, 4 / 10, 4 / 10],
        [0, "nccl", 1, 1000, 1000, 1000, 1 / 10, 1 / 10],
    ]


def test_over_the_complete_steps_of_each_rank():
    assert rows("""
        step  000111222...  incomplete=2
        0/7   C..CCCCC.CCC  name=gemm
        1/7   ...C........  name=gemm
    """) == [
        [0, "gemm", 2, 4000, 2000, 2000, 4 / 6, 1.0],
        [1, "gemm", 1, 1000, 1000, 500, 1 / 6, 1.0],
    ]


def test_over_all_steps_where_none_is_complete():
    assert totals("""
        step  000111  incomplete=01
        0/7   CC..CC  name=gemm
    """) == [("gemm", 2, 4)]


def test_a_call_over_the_border_of_steps_counts_once():
    assert totals("""
        step  .00001111.
        0/7   CC.CCC..CC  name=gemm
    """) == [("gemm", 3, 1 + 3 + 1)]


def test_a_call_without_length_is_a_call():
    assert totals("""
        step  00000
        0/7   .!.CC  name=gemm
    """) == [("gemm", 2, 2)]


def test_work_that_overlaps_on_one_stream_keeps_its_time():
    assert totals("""
        0/7   CCCC....  name=first
        0/7   ...CCCCC  name=second
    """) == [("second", 1, 5), ("first", 1, 4)]


def test_operators_of_a_cpu_trace_have_their_self_time():
    assert totals("""
        0/main  CCCCCCCCCC  name=linear
        0/main  .CCCC.CC..  name=addmm
        0/main  ..CC......  name=copy
        0/back  ..CCCCC...  name=mul
        0/back  ..C.......  name=copy
    """) == [("addmm", 2, 2 + 2), ("linear", 1, 10 - 4 - 2), ("mul", 1, 5 - 1), ("copy", 2, 2 + 1)]


def test_self_time_inside_the_steps():
    assert totals("""
        step    ...000
        0/main  CCCCCC  name=linear
        0/main  .CCCC.  name=addmm
        0/main  .C..C.  name=copy
    """) == [("addmm", 1, 1), ("copy", 1, 1), ("linear", 1, 1)]


def test_nested_spans_of_one_extent():
    assert totals("""
        0/main  CCC..  name=outer
        0/main  CCC..  name=inner
        0/main  ...CC  name=next
    """) == [("inner", 1, 3), ("next", 1, 2), ("outer", 1, 0)]


def test_nothing_ran():
    with pytest.raises(NotMeasured, match="no kernel"):
        rows("step 000...\n0/7 ...CCC")
