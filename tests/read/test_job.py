import json

import pandas as pd

from tests import lanes
from tests.read.drawn_calls import calls
from tracekit import load
from tracekit.read.job import across_ranks
from tracekit.read.tables import Identity


def identity(rank, device="GPU"):
    return Identity(rank, 2, "nccl", None, device, 0, 1, 1, 0)


def test_each_window_is_matched_by_itself_and_matches_are_numbered_on():
    first = calls("0 RRR\n1 RRR")
    joined = across_ranks(
        pd.concat([first, first.assign(window=1)], ignore_index=True),
        {(rank, window): identity(rank) for rank in (0, 1) for window in (0, 1)},
    )
    assert joined.calls.groupby(["window", "rank"])["match"].first().tolist() == [0, 0, 1, 1]


def test_a_corrected_clock_is_told():
    joined = across_ranks(
        calls("0 RRR..RR group=dp ranks=[0,1] seq=1,2\n1 RRR..RR group=dp ranks=[0,1] seq=1,2 ahead=5000"),
        {(0, 0): identity(0), (1, 0): identity(1)},
    )
    [note] = joined.notes
    assert (note.code, note.rank) == ("clock-offset", 1)
    assert "5000.0 us ahead of rank 0's" in note.message


def test_unmatched_calls_are_counted_per_operation():
    joined = across_ranks(
        calls("0 RRR..RR group=dp ranks=[0,1] seq=1,2\n1 ...RR group=dp ranks=[0,1] seq=2"),
        {(0, 0): identity(0), (1, 0): identity(1)},
    )
    assert [(note.code, note.count) for note in joined.notes if note.code == "unmatched-calls"] == [
        ("unmatched-calls", 1)
    ]


def test_events_steps_and_calls_are_on_the_same_clock(tmp_path):
    drawing = """
        0/7   CC......CC
        0/20  ..NNNN....
        1/7   CCCC....CC
        1/20  ....NN....
    """
    paths = lanes.kineto(drawing, tmp_path)
    late = json.loads(paths[1].read_text())
    paths[1].write_text(json.dumps({**late, "baseTimeNanoseconds": late.get("baseTimeNanoseconds", 0) + 3000}))
    run = load(tmp_path)
    assert run.ranks["clock_offset_ns"].tolist() == [0, 3000]
    for rank in (0, 1):
        one = run.rank(rank)
        comm = one.work[one.work["kind"] == "comm"]
        assert comm["end_ns"].tolist() == one.calls["end_ns"].tolist()
        assert one.steps["start_ns"].iloc[0] == one.work["start_ns"].min()
