import numpy as np

from tests import lanes
from tests.replay.drawn import TWO_RANKS
from tracekit.replay import causes
from tracekit.replay.joined import joined
from tracekit.replay.rank import look_at

from .test_joined import NO_PLACES


def rank(drawing, number=0):
    run = joined(lanes.run(drawing), NO_PLACES)
    return look_at(run.rank(number), 0)


def pairs(drawing):
    """Who waits for whom, as pairs of start times in us."""
    found = rank(drawing)
    start = found.work.start // 1000
    return [(int(start[one]), int(start[other])) for one, other in zip(*found.pairs, strict=True)]


def test_a_call_waits_for_the_work_launched_before_it():
    assert pairs(TWO_RANKS) == [(5, 1)]


def test_a_call_that_begins_before_that_is_over_does_not():
    long = "C" * 40
    assert (
        pairs(f"""
        step   {"0" * 50}
        0/main ab......
        0/7    .{long}...  by=a
        0/20   ..NN......  by=b
    """)
        == []
    )


def test_queued_work_that_begins_where_a_call_ends_waited_for_it():
    assert pairs("""
        step   000000000000000000000000
        0/main ab.c....................
        0/7    .CC..............CC.....  by=ac
        0/20   ...NNNNNNNNNNNNNN.......  by=b
    """) == [(3, 1), (17, 3)]


def test_work_launched_after_the_call_was_over_did_not():
    assert pairs("""
        step   000000000000000000000000
        0/main ab..............c.......
        0/7    .CC..............CC.....  by=ac
        0/20   ...NNNN.................  by=b
    """) == [(3, 1)]


def test_behind_a_stream_wait_work_waits_for_the_calls_before():
    """Nothing shows that the second kernel waited: the call was long over."""
    drawing = """
        step   000000000000000000000000
        0/main ab.cd...................
        0/main ...R....................  name=cudaStreamWaitEvent
        0/7    .CCCC...CCCC............  by=a{}
        0/20   .....NN.................  by=b
    """
    drawing = drawing.replace("by=a{}", "by=ad").replace("0/main ab.cd", "0/main ab..d")
    assert (8, 5) in pairs(drawing)
    assert (8, 5) not in pairs(drawing.replace("name=cudaStreamWaitEvent", "name=cudaEventQuery"))


def test_the_lane_before():
    found = rank("step 000000000000\n0/main ab\n0/7 .CC.CC by=ab\n0/8 .CCCCC")
    before = causes.before_on_lane(found.work)
    starts, lanes_of = found.work.start // 1000, [found.work.lanes[lane] for lane in found.work.lane]
    second = next(nth for nth in range(3) if (lanes_of[nth], starts[nth]) == ("0/7", 4))
    assert (starts[before[second]], lanes_of[before[second]]) == (1, "0/7")
    assert np.count_nonzero(before < 0) == 2


def test_latency_is_that_of_work_that_waits_for_nothing():
    found = rank("""
        step   00000000000000000000
        0/main a...b...c...........
        0/7    ..CC..CC.......CCC..  by=abc
    """)
    assert causes.usual_latency(found.work, found.before) == 2000


def test_contact_tells_for_which_of_two_calls_the_stream_waits():
    """The second kernel begins where the call on stream 20 ends; the one on 21 was over before, by chance."""
    found = pairs("""
        step   000000000000000000000000
        0/main abc.d...................
        0/main ...R....................  name=cudaStreamWaitEvent
        0/7    .CC..............CC.....  by=ad
        0/20   ...NNNNNNNNNNNNNN.......  by=c
        0/21   ...NNNNN................  by=b group=dp
    """)
    assert sorted(found) == [(3, 1), (3, 1), (17, 3)]
