import pandas as pd
import pytest

from tests import lanes
from tests.rules.drawn import analysis, healthy, job
from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured
from tracekit.evidence import (
    Late,
    first_window,
    in_complete_steps,
    in_steps,
    lasting,
    late_ranks,
    ms,
    recurring,
    roles,
    step_ns,
)


def shows(text):
    return pd.Series([letter == "x" for letter in text], index=range(10, 10 + len(text)), dtype=bool)


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("xxx", (10, 11, 12)),
        ("x.xx.", (10, 12, 13)),  # 3 of 5
        ("...xx", (13, 14)),  # from then on
        ("....x", ()),  # the last one only
        ("x....", ()),
        ("x", ()),
        ("xx...", ()),  # 2 of 5, and over again
        (".....", ()),
        ("", ()),
    ],
)
def test_what_lasts(text, steps):
    assert lasting(shows(text)) == steps


@pytest.mark.parametrize(("text", "steps"), [("x...x...", (10, 14)), ("x.......", ()), ("........", ()), ("", ())])
def test_what_comes_back(text, steps):
    assert recurring(shows(text)) == steps


def run(complete=""):
    return lanes.run(f"step {'0' * 100}{'1' * 100}{'2' * 100}{complete}\n0/7 C\n1/7 C\n2/7 C")


def rows(*by_rank):
    """Values in microseconds per rank and step."""
    told = [(rank, step, 1000 * us) for rank, values in enumerate(by_rank) for step, us in enumerate(values)]
    return pd.DataFrame(told, columns=["rank", "step", "wasted_ns"])


def late(*by_rank, **options):
    return list(late_ranks(Analysis(run()), rows(*by_rank), "wasted_ns", **options))


def test_the_excess_over_the_peers():
    """10 us beyond the 4 us of the slower of its two peers, in each step of 100 us."""
    assert late([2, 2, 2], [4, 4, 4], [14, 14, 14]) == [Late(2, 10_000, 4_000, (0, 1, 2), 3)]


def test_of_two_ranks_each_is_the_others_peer():
    table = rows([1, 1, 1], [7, 7, 7])
    drawing = f"step {'0' * 100}{'1' * 100}{'2' * 100}\n0/7 C\n1/7 C"
    [one] = late_ranks(Analysis(lanes.run(drawing)), table, "wasted_ns")
    assert (one.rank, one.excess_ns, one.usual_ns) == (1, 6000, 1000)


@pytest.mark.parametrize(
    "by_rank",
    [
        ([2, 2, 2], [2, 2, 2], [2, 2, 2]),
        ([2, 2, 2], [2, 2, 2], [2, 90, 2]),  # once
        ([2, 2, 2], [2, 2, 2], [3, 3, 3]),  # 1 % of the step
        ([50, 50, 50], [50, 50, 50], [2, 2, 2]),  # less than its peers
    ],
)
def test_nobody_is_late(by_rank):
    assert late(*by_rank) == []


def test_what_recurs_need_not_last():
    by_rank = [0] * 5, [0] * 5, [0, 50, 0, 50, 0]
    drawing = "step " + "".join(str(step) * 100 for step in range(5)) + "\n0/7 C\n1/7 C\n2/7 C"
    asked = Analysis(lanes.run(drawing))
    assert list(late_ranks(asked, rows(*by_rank), "wasted_ns")) == []
    [one] = late_ranks(asked, rows(*by_rank), "wasted_ns", recurs=True)
    assert (one.rank, one.excess_ns, one.steps) == (2, 20_000, (1, 3))


def test_incomplete_steps_are_left_out():
    kept = in_complete_steps(rows([1, 2, 3]), run(" incomplete=1"))
    assert kept["step"].tolist() == [0, 2]
    asked = Analysis(run(" incomplete=12"))
    assert list(late_ranks(asked, rows([0, 0, 0], [0, 0, 0], [0, 50, 50]), "wasted_ns")) == []


def test_only_the_first_window_counts():
    table = pd.DataFrame({"window": [1, 1, 2], "value": [1, 2, 3]})
    assert first_window(table)["value"].tolist() == [1, 2]
    assert first_window(table[["value"]])["value"].tolist() == [1, 2, 3]


def test_the_steps_length():
    assert step_ns(run()) == 100_000
    with pytest.raises(NotMeasured, match="no complete step"):
        step_ns(run(" incomplete=012"))


def test_without_a_pipeline_all_are_peers():
    assert roles(analysis(job(healthy()))) == {}


PIPELINE = """
    {0}/main  AA.........  op=forward:{2}:0
    {0}/7     C..........
    {0}/21    .....N.....  group=pp-{1} op={3} peer={4} bytes=8
    {0}/22    ........N..  group=dp-{2} bytes=8 size=2
"""


def test_the_place_in_the_pipeline_is_the_role():
    ranks = [(0, 0, 0, "send", 2), (1, 1, 0, "send", 3), (2, 0, 1, "recv", 0), (3, 1, 1, "recv", 1)]
    assert roles(analysis("".join(PIPELINE.format(*rank) for rank in ranks))) == {0: 0, 1: 0, 2: 1, 3: 1}


def test_where_a_place_has_one_rank_only_all_are_peers():
    ranks = [(0, 0, 0, "send", 1), (1, 0, 1, "recv", 0)]
    assert roles(analysis("".join(PIPELINE.format(*rank) for rank in ranks))) == {}


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0 ms"), (4000, "0.004 ms"), (12_340_000, "12.3 ms"), (99_960_000, "100 ms"), (1.5e9, "1,500 ms")],
)
def test_milliseconds(ns, text):
    assert ms(ns) == text


def test_in_how_many_steps():
    assert in_steps(Late(0, 1.0, 0.0, (1, 3), 5)) == "in 2 of 5 steps"
