from dataclasses import replace

from tests import lanes
from tracekit import intervals, split
from tracekit.model import COMM


def one_rank(drawing):
    return lanes.run(drawing).rank(0)


def lengths(parts):
    return {name: intervals.length(spans) for name, spans in parts.items()}


DRAWING = """
    0/20 NNNN......  group=dp op=all_gather
    0/21 ..NNNN....  group=tp
    0/21 .......NN.  group=tp op=all_gather
"""


def test_communication_by_a_column():
    assert lengths(split.communication(one_rank(DRAWING), "group")) == {"dp": 4000, "tp": 6000}
    assert lengths(split.communication(one_rank(DRAWING), "op")) == {"all_gather": 6000, "all_reduce": 4000}


def test_what_no_call_names_is_unknown():
    one = one_rank(DRAWING)
    one = replace(one, calls=one.calls.assign(group=["dp", "", None]))
    assert lengths(split.communication(one, "group")) == {"dp": 4000, "unknown": 6000}


def test_communication_without_a_call_is_unknown():
    one = one_rank(DRAWING)
    one = replace(one, calls=one.calls.drop(index=1))
    parts = split.communication(one, "group")
    assert lengths(parts) == {"dp": 4000, "tp": 2000, "unknown": 2000}
    assert intervals.length(intervals.merge(list(parts.values()))) == intervals.length(one.busy(COMM))


def test_handles_are_no_communication():
    assert split.communication(one_rank("0/gloo NNNN op=recv"), "op") == {}


def test_no_step_no_row():
    one = one_rank("step ....\n0/20 NNNN")
    assert len(split.overlap_by(one, "group")) == 0


def test_nothing_that_overlaps():
    rows = split.overlap_by(one_rank("0/7 CC...\n0/20 .NNN."), "group")
    assert rows.values.tolist() == [[0, "default", 3000, 1000, 2000]]
