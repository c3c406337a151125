from tests import lanes
from tracekit.analysis import Analysis
from tracekit.report.overview import manual, overview

DRAWING = """
    step 0000000000
    0/7  CC........
    0/20 ..NNNN....  op=all_reduce group=dp bytes=2048
    1/7  CCCC......
    1/20 ....NN....  op=all_reduce group=dp bytes=2048
"""


def of(drawing):
    return overview(Analysis(lanes.run(drawing)))


def test_the_verdict_comes_first():
    told = of(DRAWING)
    assert told.verdict[0].startswith("Step 10.00 µs on average over the ranks: compute 30 %, exposed comm 30 %")
    assert told.told["layout"] == "dp 2"


def test_ranks_with_the_most_time_of_their_own_first():
    ranks = of(DRAWING).ranks
    assert ranks.headings[:3] == ("rank", "step, µs", "own, µs")
    assert [row[:3] for row in ranks.rows] == [("1", "10.00", "10.00"), ("0", "10.00", "8.00")]


def test_what_is_absent_has_its_reason():
    told = of("step 000\n0/7 CCC")
    assert "overlap" in told.absent
    assert told.ranks.rows[0][0] == "0"


def test_a_run_without_complete_steps_has_no_table_of_ranks():
    told = of("step 000 incomplete=0\n0/7 CCC")
    assert told.ranks is None
    assert "No step is complete" in told.verdict[0]


def test_findings_bring_their_manual_page():
    told = of(
        DRAWING.replace("CCCC......", "CCCCCCCC..").replace("....NN....", "........NN").replace("NNNN....", "NNNNNNNN")
    )
    assert told.findings
    assert all(one.manual for one in told.findings)
    assert any(paragraph.startswith("What to do:") for paragraph in manual("slow-device"))
    assert manual("no such code") == ()
