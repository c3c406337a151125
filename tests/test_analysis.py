from types import SimpleNamespace

import pandas as pd
import pytest

from tests import lanes
from tracekit import analysis
from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured, WrongUse
from tracekit.model import Column

DRAWING = "0/7 CC.C\n0/20 .NN."


def counted(monkeypatch, answer):
    """An analysis whose only measure is `answer`, and the list of times that it was asked."""

    times = []

    def measure(asked):
        times.append(asked)
        if isinstance(answer, Exception):
            raise answer
        return answer

    module = SimpleNamespace(COLUMNS={"rank": Column(), "x_ns": Column("ns")}, measure=measure)
    monkeypatch.setattr(analysis, "measure_module", lambda name: module)
    return Analysis(lanes.run(DRAWING)), times


def test_a_measure_is_computed_once_and_handed_the_analysis(monkeypatch):
    run, asked = counted(monkeypatch, pd.DataFrame({"x_ns": [1], "rank": [0], "of its own": [2]}))
    assert list(run["some"]) == ["rank", "x_ns"]
    assert run["some"].equals(run["some"])
    assert asked == [run]


def test_not_measured_is_an_answer_that_is_kept(monkeypatch):
    run, asked = counted(monkeypatch, NotMeasured("the run has no x"))
    for _ in range(2):
        with pytest.raises(NotMeasured, match="the run has no x"):
            run["some"]
    assert len(asked) == 1


def test_windows_stand_beside_the_rank(monkeypatch):
    run, _ = counted(monkeypatch, pd.DataFrame({"x_ns": [1], "window": [0], "rank": [0]}))
    assert list(run["some"]) == ["rank", "window", "x_ns"]


def test_what_a_reader_does_to_an_answer_changes_no_other():
    run = Analysis(lanes.run(DRAWING))
    mine = run["overlap"]
    mine["overlap_frac"] = 7.0
    mine.loc[0, "comm_ns"] = 7
    assert run["overlap"].values.tolist() == [[0, 0, 2000, 1000, 0.5]]


def test_the_run_is_at_hand():
    run = lanes.run(DRAWING)
    assert Analysis(run).run is run


def test_a_measure_that_is_not_there():
    with pytest.raises(WrongUse, match=r"'overlaps'.*breakdown.*overlap"):
        Analysis(lanes.run(DRAWING))["overlaps"]


def test_measures_are_found_by_place():
    assert {"breakdown", "overlap", "overlap_group", "overlap_operation"} <= set(analysis.measure_names())
    assert analysis.measure_names() == sorted(analysis.measure_names())
    assert analysis.measure_columns("overlap")["overlap_frac"] == Column("1", better="up")
