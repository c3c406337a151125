import pytest

from tests import lanes
from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured


def stalls(drawing, rank=0):
    """Microseconds stalled, and of it in loading, collection, synchronising calls and launching (not in profiling)."""
    rows = Analysis(lanes.run(drawing))["stalls"].set_index("rank").loc[[rank]].drop(columns=["step", "profiling_ns"])
    return [tuple(value / 1000 for value in row) for row in rows.values.tolist()]


def test_what_the_host_does_while_the_device_is_idle():
    # idle from 3 until the launch at 9, of it 4 in the loader and 2 in a collection; the rest is latency
    assert stalls("""
        step    00000000000000
        0/main  aDDDDDDGGb....
        0/7     .CC.......CCCC  by=ab
    """) == [(6, 4, 2, 0, 0)]


def test_work_that_was_queued_hides_the_host():
    assert stalls("""
        step    0000000000
        0/main  abDDDDDDDD
        0/7     CCCCCccccc  by=ab
    """) == [(0, 0, 0, 0, 0)]


def test_a_gap_behind_a_call_that_waits_for_the_device():
    # the host waits until 5, when the device is done since 4; it launches at 6
    assert stalls("""
        step    0000000000
        0/main  aSSSS.b...
        0/7     .CCC...CCC  by=ab
    """) == [(2, 0, 0, 2, 0)]


def test_launches_that_come_late():
    assert stalls("""
        step    0000000000
        0/main  a....b....
        0/7     CC....CCCC  by=ab
    """) == [(3, 0, 0, 0, 3)]


def test_loading_on_a_cpu_trace():
    assert stalls("""
        step    0000000000
        0/main  CC....CCC.
        0/main  ..DDD.....
    """) == [(5, 3, 0, 0, 2)]


def test_waiting_for_another_rank_is_no_stall():
    drawing = """
        step    0000000000
        0/main  CCNNNNN...
        1/main  CCCCCNN...
    """
    assert stalls(drawing, rank=0) == stalls(drawing, rank=1) == [(3, 0, 0, 0, 3)]


def test_no_step():
    with pytest.raises(NotMeasured, match="no step"):
        stalls("0/7 .\n0/main A")


def test_the_profilers_own_work_is_no_late_launch():
    # idle from 5 until the launch at 8, in the profiler's span until 7
    drawing = """
        step    0000000000000
        0/main  aVVVVVV.b....
        0/7     .CCCC....CCCC  by=ab
    """
    rows = Analysis(lanes.run(drawing))["stalls"]
    columns = ["stalled_ns", "profiling_ns", "synchronizing_ns", "launching_ns"]
    assert rows[columns].values.tolist() == [[3000, 2000, 0, 1000]]
