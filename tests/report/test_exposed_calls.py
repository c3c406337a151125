from tests import lanes
from tests.measures.test_exposed_calls import DRAWING
from tracekit import Analysis
from tracekit.report.exposed_calls import longest


def test_the_longest_are_told_in_words():
    """Times of one unit, sizes where they are known, and how many more there are."""
    run = lanes.run(DRAWING.replace("seq=9", "seq=9 bytes=2048"))
    told = longest(Analysis(run)["exposed_calls"], most=1)
    assert told.rows == (("1", "1", "default", "all_reduce", "2.0 KiB", "20.00", "3.00", "3.00", "0.00"),)
    assert told.headings[-1] == "wait, µs"
    assert told.more.startswith("and 2 more calls")
