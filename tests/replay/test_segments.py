from tests import lanes
from tests.replay.drawn import TWO_RANKS
from tests.replay.test_joined import NO_PLACES
from tracekit.replay.joined import joined
from tracekit.replay.replay import _stretches
from tracekit.replay.segments import DONE, NO_NODE, READY, SEGMENT, first_look


def look(drawing, number=0):
    run = joined(lanes.run(drawing), NO_PLACES)
    return first_look(run.rank(number), _stretches(run))


def test_work_with_nothing_between_is_one_segment():
    """Five kernels and no call: one segment, by the host's last launch or the lane's length."""
    told = look("""
        step   00000000000000
        0/main abcde.........
        0/7    .CCccCCccCC...  by=abcde
    """)
    [edge] = told[told["kind"] == SEGMENT].to_dict("records")
    assert edge["w0"] == 11_000  # from the step's begin: 1 us until the first launch works, 10 us of kernels
    assert edge["device_ns"] == 10_000


def test_a_call_cuts():
    told = look(TWO_RANKS)
    assert sorted(told.loc[told["kind"] >= 0, "kind"].unique().tolist()) == sorted({SEGMENT, READY, DONE, 3, 4})
    [ready] = told[(told["kind"] == READY) & (told["src_kind"] == SEGMENT)].to_dict("records")
    assert ready["w0"] == 0  # ready where its rank's compute ends


def test_instances_come_with_their_lengths():
    told = look(TWO_RANKS)
    lengths = told[told["kind"] == NO_NODE]
    assert lengths["length_ns"].max() == 4000
