import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import lanes
from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured


def causes(drawing):
    """Microseconds by rank and step: idle, then host late, stream wait, launch latency, unknown."""
    analysis = Analysis(lanes.run(drawing))
    table = analysis["idle"].set_index(["rank", "step"]) // 1000
    assert (table["idle_ns"] == table.drop(columns="idle_ns").sum(axis=1)).all()
    assert table["idle_ns"].to_list() == (analysis["breakdown"]["idle_ns"] // 1000).to_list()
    return table.apply(list, axis=1).to_dict()


def test_host_late_up_to_the_launch_then_latency():
    assert causes("""
        step    0000000000
        0/main  a....b....
        0/7     .CC....CCC  by=ab
    """) == {(0, 0): [5, 2, 0, 1 + 2, 0]}


def test_a_lane_that_waits_on_another():
    assert causes("""
        step    0000000000
        0/main  a.b.......
        0/7     .CC.......  by=a
        0/20    ......NNNN  by=b
        0/20    .W........
    """) == {(0, 0): [4, 0, 3, 1, 0]}


def test_a_wait_holds_only_the_next_launch_on_its_own_lane():
    assert causes("""
        step    000000000000
        0/main  a.b.c.......
        0/7     .CC.CC...CCC  by=abc
        0/7     .W..........
        0/20    .....W......
    """) == {(0, 0): [5, 0, 1, 1 + 3, 0]}


def test_the_host_can_be_late_before_a_wait():
    assert causes("""
        step    0000000000
        0/main  a...b.....
        0/7     CC.....CCC  by=ab
        0/7     ..W.......
    """) == {(0, 0): [5, 2, 3, 0, 0]}


def test_a_launch_that_is_not_in_the_file_is_unknown_and_a_gap_that_nothing_ends_is_the_hosts():
    assert causes("""
        step    0000000000
        0/main  a.........
        0/7     .CC..CC...  by=a-
    """) == {(0, 0): [6, 3, 0, 1, 2]}


def test_a_gap_over_the_border_of_steps_is_told_by_the_work_that_ends_it():
    assert causes("""
        step    0000011111
        0/main  a.....b...
        0/7     CCC....CCC  by=ab
    """) == {(0, 0): [2, 2, 0, 0, 0], (0, 1): [2, 1, 0, 1, 0]}


def test_work_after_the_last_step_ends_its_gap():
    assert causes("""
        step    00000.....
        0/main  ...a......
        0/7     C.....CCC.  by=-a
    """) == {(0, 0): [4, 2, 0, 2, 0]}


def test_of_work_that_ends_a_gap_at_once_the_first_launched_counts():
    assert causes("""
        step    000000
        0/main  .a.b..
        0/7     C...CC  by=-b
        0/8     ....CC
        0/20    ....NN  by=a
    """) == {(0, 0): [3, 0, 0, 3, 0]}


def test_work_without_length_ends_no_gap():
    assert causes("""
        step    000000
        0/main  .a..b.
        0/7     C..!.C  by=-ab
    """) == {(0, 0): [4, 3, 0, 1, 0]}


def test_steps_of_a_rank_without_work_and_incomplete_ones():
    assert causes("""
        step    000011  incomplete=1
        0/main  a.b...
        0/7     CC.CCC  by=ab
        1/7     ......
    """) == {(0, 0): [1, 0, 0, 1, 0], (0, 1): [0, 0, 0, 0, 0], (1, 0): [4, 4, 0, 0, 0], (1, 1): [2, 2, 0, 0, 0]}


LANE = st.tuples(st.text("Cc....", min_size=16, max_size=16), st.text("abcdef-", max_size=6))


@settings(max_examples=30)
@given(st.lists(LANE, min_size=1, max_size=3), st.text("W.", min_size=16, max_size=16))
def test_the_causes_sum_to_the_idle_time_of_any_drawing(streams, waits):
    lines = [f"0/{n} {cells}  by={launches}-" for n, (cells, launches) in enumerate(streams)]
    drawing = "\n".join(["step 0000000011111111", "0/main abcdef", f"0/1 {waits}", *lines])
    assert all(part >= 0 for step in causes(drawing).values() for part in step)


def test_a_cpu_trace_has_no_device_that_idles():
    with pytest.raises(NotMeasured, match="no device"):
        causes("0/main CC..CC")


def test_no_step():
    with pytest.raises(NotMeasured, match="no step"):
        causes("0/7 ....")
