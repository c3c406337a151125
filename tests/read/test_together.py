import pytest

from tests.read.drawn_calls import calls
from tracekit.read.clock import Clock
from tracekit.read.together import overlapping, possible, strangers

HOUR_NS = 3600 * 10**9
SINCE_1970_NS = 1_700_000_000 * 10**9


def test_files_that_overlap_through_others_are_one_set():
    assert overlapping({0: (0, 10), 1: (20, 30), 2: (9, 15), 3: (15, 16)}) == [[0, 2, 3], [1]]


@pytest.mark.parametrize(
    ("base_ns", "hours", "sets"),
    [(SINCE_1970_NS, 0.5, [[0, 1]]), (SINCE_1970_NS, 2, [[0], [1]]), (0, 2, [[0, 1]])],
)
def test_clocks_that_count_from_1970_are_not_hours_wrong(base_ns, hours, sets):
    later_ns = base_ns + round(hours * HOUR_NS)
    assert possible({0: (base_ns, base_ns + 5), 1: (later_ns, later_ns + 5)}) == sets


def joined(drawing):
    found = calls(drawing)
    return found.assign(match=found.groupby("rank").cumcount())


CLOCKS = {0: Clock(0, 0), 1: Clock(0, 0), 2: Clock(0, 0)}


def test_calls_that_end_before_others_begin_are_strangers():
    drawn = joined("""
        0  RRR...RRR...RRR
        1  RRR.......RRR.RRR
        2  .....RRR..RRRRR.
    """)
    # rank 1: one of three apart, which may be a mishap; rank 2: two of three.
    assert strangers(drawn, CLOCKS) == [2]


def test_a_clock_that_drifts_is_no_stranger():
    drawn = joined("0 RRR....RRR.....\n1 ....RRR....RRR.")
    assert strangers(drawn, CLOCKS) == [1]
    assert strangers(drawn, {**CLOCKS, 1: Clock(0, 0, drift_ppb=900)}) == []


def test_a_broadcast_may_be_over_before_others_begin():
    assert strangers(joined("0 BBB....BBB.....\n1 ....BBB....BBB."), CLOCKS) == []
