from tests import lanes
from tracekit.idling import CAUSES, idle_by_cause
from tracekit.intervals import length


def test_each_gap_goes_to_its_cause():
    # [1, 4) until the launch of b, [4, 5) its latency, [8, 10) until the launch of c, behind a wait: [10, 12)
    one = lanes.run("""
        step    000000000000000
        0/main  a...b....Rc....
        0/7     C....CCC....CCC  by=abc
        0/7     .........W.....
    """).rank(0)
    assert [length(idle_by_cause(one)[cause]) for cause in CAUSES] == [5000, 2000, 1000, 0]


def test_a_launch_that_is_not_in_the_file():
    one = lanes.run("step 00000\n0/7 C..CC  by=--").rank(0)
    assert [length(idle_by_cause(one)[cause]) for cause in CAUSES] == [0, 0, 0, 2000]
