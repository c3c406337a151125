import numpy as np
import pandas as pd
import pytest

from tests.read.drawn_calls import calls
from tracekit.read import clock
from tracekit.read.clock import Bounds, Clock, Tie

HOUR_NS = 3600 * 10**9


def tied(offset_us, error_us=1):
    return Tie(offset_us * 1000, error_us * 1000, 5)


def offsets(ranks, ties, bounds=None, hosts=None, on_cpu=()):
    clocks, parts = clock.solve(ranks, ties, bounds or {}, hosts or {}, frozenset(on_cpu))
    return {rank: one.offset_ns // 1000 for rank, one in clocks.items()}, parts


def test_the_median_of_the_shortest_quarter_and_the_deviation_of_ten_from_it():
    lengths = np.array([1, 2, 3, 4, 5, *range(100, 115)])  # 20 calls: a quarter is 5
    apart = np.array([10, 12, 11, 13, 14, 15, 9, 20, 6, 12, *([900] * 10)])
    assert clock.tie(apart, lengths, np.arange(20)) == Tie(12, 2, 5)


def test_of_many_calls_offset_and_error_are_the_shortest_quarters():
    lengths = np.arange(48)
    apart = np.array([10, 14, *([11, 13] * 5), *([900] * 36)])
    assert clock.tie(apart, lengths, np.arange(48)) == Tie(12, 1, 12, 0)


def test_of_few_calls_all_count():
    assert clock.tie(np.array([5, 7]), np.array([3, 900]), np.arange(2)) == Tie(6, 1, 2)


def test_a_chain_of_groups_adds_up_offsets_and_errors():
    clocks, parts = clock.solve([0, 1, 2], {(0, 1): tied(100, 2), (1, 2): tied(30, 3)}, {}, {}, frozenset())
    assert clocks == {0: Clock(0, 0), 1: Clock(100_000, 2000), 2: Clock(130_000, 5000)}
    assert parts == [[0, 1, 2]]


def test_the_path_of_least_error_wins():
    ties = {(0, 1): tied(10, 1), (1, 2): tied(10, 1), (0, 2): tied(500, 90)}
    assert offsets([0, 1, 2], ties)[0] == {0: 0, 1: 10, 2: 20}


def test_an_offset_within_its_error_is_none():
    assert offsets([0, 1], {(0, 1): tied(4, 5)})[0] == {0: 0, 1: 0}


def test_parts_that_nothing_ties_stay_as_they_are():
    clocks, parts = clock.solve([0, 1, 2, 3], {(0, 1): tied(9), (2, 3): tied(50)}, {}, {}, frozenset())
    assert parts == [[0, 1], [2, 3]]
    assert (clocks[2].offset_ns, clocks[3].offset_ns) == (0, 50_000)


def test_nothing_known_is_told_as_unknown():
    clocks, parts = clock.solve([0, 1], {}, {}, {}, frozenset())
    assert [one.error_ns for one in clocks.values()] == [None, None]
    assert parts == [[0], [1]]


@pytest.mark.parametrize(
    ("least_us", "most_us", "offset_us"),
    [(-10, 10, 0), (-1, 300, 0), (40, 60, 50), (-60, -40, -50)],
)
def test_sends_and_receives_bound_the_difference(least_us, most_us, offset_us):
    assert offsets([0, 1], {}, {(0, 1): Bounds(least_us * 1000, most_us * 1000)})[0] == {0: 0, 1: offset_us}


def test_bounds_of_both_directions_narrow_each_other():
    both = {(0, 1): Bounds(0, 100_000), (1, 0): Bounds(-60_000, -40_000)}  # 1 is ahead of 0 by 40 to 60 us
    assert offsets([0, 1], {}, both)[0] == {0: 0, 1: 50}


def test_no_receive_ends_before_its_send_began():
    drawn = calls("""
        0  ..sss...  peer=1
        1  rr......  peer=0
    """).assign(match=0)
    # The receiver's clock is behind: its receive begins at least 5 and ends at most 0 us ... before the send.
    assert clock.bounds(drawn) == {(0, 1): Bounds(-5000, 0)}


def test_processes_of_one_host_share_its_clock_on_a_cpu_trace():
    hosts = {0: "a", 1: "a"}
    assert offsets([0, 1], {(0, 1): tied(300, 2)}, hosts=hosts, on_cpu=(0, 1))[0] == {0: 0, 1: 0}
    assert offsets([0, 1], {(0, 1): tied(300, 2)}, hosts=hosts)[0] == {0: 0, 1: 300}  # devices have their own
    assert offsets([0, 1], {(0, 1): tied(50_000, 2)}, hosts=hosts, on_cpu=(0, 1))[0] == {0: 0, 1: 50_000}


def test_drift_is_told_only_where_it_is_sure():
    times = np.arange(40) * 10**9
    steady, growing = np.tile([0, 2], 20), np.arange(40) * 1000
    assert clock.tie(steady, np.ones(40), times).drift_ppb == 0
    assert clock.tie(growing[:39], np.ones(39), times[:39]).drift_ppb is None  # the shorter half is too few
    assert clock.tie(growing, np.ones(40), times).drift_ppb == 1000  # a microsecond a second
    assert clock.tie(growing + np.tile([0, 40_000], 20), np.ones(40), times).drift_ppb == 0  # it scatters as far


def drifts(ranks, ties, bounds=None):
    clocks, _ = clock.solve(ranks, ties, bounds or {}, {}, frozenset())
    return {rank: one.drift_ppb for rank, one in clocks.items()}


def test_drifts_are_told_along_ties_that_tell_of_them():
    ties = {(0, 1): Tie(0, 1, 5, 0), (1, 2): Tie(0, 1, 5, 700), (0, 2): Tie(0, 1, 5)}
    assert drifts([0, 1, 2], ties) == {0: None, 1: None, 2: 700}


def test_behind_a_clock_that_drifts_none_is_told():
    ties = {(0, 1): Tie(0, 1, 5, 700), (1, 2): Tie(0, 1, 5, -699)}
    assert drifts([0, 1, 2], ties) == {0: None, 1: 700, 2: None}


def test_a_whole_host_drifts():
    ties = {(0, 1): Tie(0, 1, 5, 700), (1, 2): Tie(0, 1, 5, 0)}
    assert drifts([0, 1, 2], ties) == {0: None, 1: 700, 2: 700}


def transfers(drift_ppb, length_ns=1000):
    """Each second for 20 seconds a transfer from rank 0 to rank 1 and one back, whose clock runs fast."""
    begin = np.arange(20) * 10**9
    rows = []
    for op, other, sender, offset in (("send", "recv", 0, 0), ("recv", "send", 1, 10**8)):
        for rank, what, ahead in ((0, op, 0), (1, other, drift_ppb)):
            start = begin + offset + (begin + offset) * ahead // 10**9
            match = np.arange(20) + 20 * sender
            rows.append(pd.DataFrame({
                "rank": rank, "op": what, "match": match, "start_ns": start, "end_ns": start + length_ns,
            }))  # fmt: skip
    return pd.concat(rows, ignore_index=True)


def test_a_drift_shows_in_sends_and_receives_that_no_one_difference_fits():
    fast = clock.bounds(transfers(200))
    assert {pair: one.drift_ppb for pair, one in fast.items()} == {(0, 1): 200, (1, 0): -200}
    assert drifts([0, 1], {}, fast) == {0: None, 1: 200}  # at last 3.8 us ahead, a transfer takes 1 us
    assert drifts([0, 1], {}, clock.bounds(transfers(200, 10_000))) == {0: None, 1: None}  # 0 fits all


def test_collectives_too_few_to_tell_of_a_drift_leave_it_to_sends_and_receives():
    assert drifts([0, 1], {(0, 1): Tie(0, 1, 5)}, clock.bounds(transfers(200))) == {0: None, 1: 200}


def test_ties_come_from_synchronising_calls_only():
    drawn = calls("""
        0  RRR.BBB
        1  RRR.BBB  ahead=7
    """)
    told = clock.ties(drawn.assign(match=[0, 1, 0, 1]))
    assert told == {(0, 1): Tie(7000, 0, 1)}
