import pytest

from tests import lanes
from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured
from tracekit.report.lines import labelled, shares


def not_measured(analysis):
    raise NotMeasured("the run has no such thing")


def test_a_line_for_each_sentence_that_says_something():
    analysis = Analysis(lanes.run("0/7 CC"))
    sentences = {"said": lambda _: "something", "unsaid": lambda _: "", "not measured": not_measured}
    [table] = labelled(sentences, analysis)
    assert table.row_count == 1
    assert list(labelled({"unsaid": lambda _: ""}, analysis)) == []


@pytest.mark.parametrize(
    ("parts", "least_frac", "told"),
    [
        ({"dp": 62.0, "tp": 38.0}, 0.0, "62 % dp, 38 % tp"),
        ({str(n): 1.0 for n in range(8)}, 0.0, "12 % 0, 12 % 1, 12 % 2, 12 % 3, 12 % 4 and 3 more"),
        ({"dp": 90.0, "tp": 6.0, "pp": 4.0}, 0.05, "90 % dp, 6 % tp and 1 more"),
        ({"dp": 999.0, "tp": 1.0}, 0.01, "100 % dp"),
    ],
)
def test_shares(parts, least_frac, told):
    assert shares(parts, "", least_frac) == told


def test_what_stands_before_each_name():
    assert shares({"3": 2.0, "1": 2.0}, "for rank ") == "50 % for rank 3, 50 % for rank 1"
