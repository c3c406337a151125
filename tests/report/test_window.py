import pytest

from tests import lanes
from tracekit.errors import NotMeasured
from tracekit.report import window
from tracekit.report.window import Timeline

DRAWING = """
    step 0000000000
    0/7  CCCC......
    0/20 ..NNNN....  op=all_reduce group=dp
    1/7  CC........
    1/20 ....NN....  op=all_reduce group=dp
"""


def timeline():
    return Timeline(lanes.run(DRAWING))


def test_single_spans_while_there_are_few():
    one = timeline()
    figure = one.figure(one.start_ns, one.end_ns, [0, 1])
    assert list(figure.layout.yaxis.ticktext) == ["rank 0 compute", "rank 0 comm", "rank 1 compute", "rank 1 comm"]
    comm = next(trace for trace in figure.data if trace.name == "comm")
    assert (list(comm.base), list(comm.x), list(comm.y)) == ([0.002, 0.004], [0.004, 0.002], [1, 3])  # ms


def test_a_window_cuts_what_reaches_over_its_ends():
    one = timeline()
    figure = one.figure(one.start_ns + 3_000, one.start_ns + 5_000, [0])
    found = {trace.name: (list(trace.base), list(trace.x)) for trace in figure.data if trace.type == "bar"}
    assert found == {"compute": ([0.003], [0.001]), "comm": ([0.003], [0.002])}


def test_many_spans_become_shares_of_bins(monkeypatch):
    monkeypatch.setattr(window, "MOST_SPANS", 1)
    monkeypatch.setattr(window, "MOST_CELLS", 0)  # 60 bins of a sixth of a microsecond
    one = timeline()
    figure = one.figure(one.start_ns, one.end_ns, [0])
    busy = {trace.name: trace.z.tolist() for trace in figure.data if trace.type == "heatmap"}
    assert [round(value) for value in busy["compute"][0]] == [1] * 24 + [0] * 36
    assert [round(value) for value in busy["comm"][1]] == [0] * 12 + [1] * 24 + [0] * 24


def test_members_of_a_call_are_its_peers():
    one = timeline()
    comm = next(trace for trace in one.figure(one.start_ns, one.end_ns, [0]).data if trace.name == "comm")
    peers = one.peers(int(comm.customdata[0][1]))
    assert peers[["rank", "wait_ns"]].values.tolist() == [[0, 2000], [1, 0]]
    told = window.member_rows(peers, one.start_ns)
    waits = told.headings.index("wait, µs")
    assert [(row[0], row[waits]) for row in told.rows] == [("1", "0.00"), ("0", "2.00")]


def test_steps_are_marked():
    one = timeline()
    marks = one.figure(one.start_ns, one.end_ns, [0, 1]).data[-1]
    assert list(marks.text) == ["rank 0 step 0 begins", "rank 1 step 0 begins"]
    assert list(marks.y) == [0, 2]


def test_a_window_without_work_says_so():
    one = timeline()
    with pytest.raises(NotMeasured, match="nothing runs"):
        one.figure(one.start_ns + 7_000, one.start_ns + 9_000, [0, 1])
