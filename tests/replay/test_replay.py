import pytest

from tests.replay.drawn import TWO_RANKS, analysis, step_us
from tracekit.errors import NotMeasured

HOST_BOUND = """
    step   0000000000000000
    0/main a....b....c.....
    0/7    .CC...CC...CC...  by=abc
"""
QUEUED = """
    step   0000000000000000
    0/main abc.............
    0/7    .CCCCccccCCCC...  by=abc
"""
SYNCHRONISED = """
    step   0000000000000000
    0/main a.SSSSSb........
    0/7    .CCCCCC.CCCC....  by=ab
"""
TWO_STEPS = """
    step   0000000000111111111111
    0/main ab........cd..........
    0/7    .CC........CC.........  by=ac
    0/20   ...NNNNNN....NNNNNNNN.  by=bd
    1/main ab........cd..........
    1/7    .CCCCCC....CCCCCCCC...  by=ac
    1/20   .......NN..........NN.  by=bd
"""


def test_as_measured():
    assert step_us(TWO_RANKS) == [11]


def test_a_collective_begins_when_its_last_member_arrives():
    """With rank 1 as long as rank 0, both arrive at 5 us."""
    assert step_us(TWO_RANKS, lambda replay: replay.all_ideal_but([0])) == [9]  # ideal: 6 us of compute on rank 1
    assert step_us(TWO_RANKS, lambda replay: replay.all_ideal_but([1])) == [11]


def test_ideal_takes_means():
    """(4 + 8) / 2 = 6 us of compute, after 1 us until the launch takes effect, before 2 us of transfer."""
    assert step_us(TWO_RANKS, lambda replay: replay.ideal) == [9]


def test_links_twice_as_fast():
    assert step_us(TWO_RANKS, lambda replay: replay.links(2)) == [10]


def test_communication_free():
    """Rank 1's compute alone is left; that is so too where calls still wait."""
    assert step_us(TWO_RANKS, lambda replay: replay.calls_free(waiting=False)) == [9]
    assert step_us(TWO_RANKS, lambda replay: replay.calls_free(waiting=True)) == [9]


def test_free_calls_wait_for_nobody():
    """Rank 0 goes on computing 4 us after the call; it needs not wait for rank 1 any more."""
    drawing = """
        step   0000000000000000000000
        0/main ab.c..................
        0/7    .CC............CCCC...  by=ac
        0/20   ...NNNNNNNNNNNN.......  by=b
        1/main ab....................
        1/7    .CCCCCCCCCCCC.........  by=a
        1/20   .............NN.......  by=b
    """
    assert step_us(drawing) == [19]
    assert step_us(drawing, lambda replay: replay.calls_free(waiting=True)) == [17]  # rank 1 comes at 13, then 4 us
    assert step_us(drawing, lambda replay: replay.calls_free(waiting=False)) == [13]  # rank 0 is done at 8 already


def test_a_kernel_waits_for_its_launch():
    """Launched at 0, 5 and 10 us, each begins 1 us later: without the host's time all follow each other."""
    assert step_us(HOST_BOUND) == [13]
    assert step_us(HOST_BOUND, lambda replay: replay.host_free()) == [7]


def test_a_kernel_that_is_queued_waits_for_the_device():
    assert step_us(QUEUED) == [13]
    assert step_us(QUEUED, lambda replay: replay.host_free()) == [13]


def test_the_host_waits_in_a_synchronising_call():
    """The second launch comes after the first kernel whatever the host does; 1 us of latency stays."""
    assert step_us(SYNCHRONISED) == [12]
    assert step_us(SYNCHRONISED, lambda replay: replay.host_free()) == [12]


def test_steps_follow_each_other():
    assert step_us(TWO_STEPS) == [9, 12]
    assert step_us(TWO_STEPS, lambda replay: replay.links(2)) == [8, 12]


def test_steps_that_are_not_complete_do_not_count():
    drawing = TWO_STEPS.replace("step   0000000000111111111111", "step   0000000000111111111111 incomplete=0")
    assert analysis(drawing).replay.step_numbers == [1]


def test_no_step_is_no_replay():
    with pytest.raises(NotMeasured, match="no step"):
        _ = analysis("0/main R").replay


def test_a_sleep_that_nothing_records_is_the_hosts():
    """Rank 1 does nothing that is seen for 2 ms; rank 0 waits for it in the collective."""
    sleep = "." * 2000
    drawing = f"""
        step   {"0" * 2012}
        0/main ab{sleep}..........
        0/7    .CC{sleep}.........  by=a
        0/20   ...{"N" * 2000}NN.......  by=b
        1/main a{sleep}b..........
        1/7    .CC{sleep}.........  by=a
        1/20   ...{sleep}NN.......  by=b
    """
    replay = analysis(drawing).replay
    lengths = replay.step_ns(
        {"measured": replay.measured, "slow": replay.all_ideal_but([1]), "host": replay.host_free()}
    )
    assert lengths["measured"].tolist() == [2_005_000]
    assert lengths["slow"].tolist() == [2_005_000]
    assert lengths["host"][0] < 10_000


def test_the_replay_is_made_once():
    asked = analysis()
    assert asked.replay is asked.replay
    assert asked.whatif is asked.whatif
