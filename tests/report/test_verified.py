import pytest

from tests import lanes
from tracekit.analysis import Analysis
from tracekit.plan.hardware import Cluster, Link
from tracekit.plan.layout import Layout
from tracekit.plan.memory import PRECISIONS
from tracekit.plan.step import predict
from tracekit.plan.transformer import Transformer
from tracekit.report.verified import Row, verified, verified_text

MODEL = Transformer(2, 64, 4, 32, 100)
CLUSTER = Cluster(2, 2, 1e9, 1e12, 1.0, Link(1e9, 1e-6), Link(1e9, 1e-6))
PLAN = predict(MODEL, Layout(data=2), CLUSTER, PRECISIONS["fp32-adam"])


@pytest.fixture
def rows():
    run = lanes.run("""
        0/7  CCCCCC....
        0/20 ....NNNN..
        1/7  CCCCCC....
        1/20 ....NNNN..
    """)
    return {row.what: row for row in verified(PLAN, Analysis(run), state_bytes=16.0 * MODEL.parameters)}


def test_step_and_compute_are_those_of_the_run(rows):
    assert (rows["compute"].measured, rows["step"].measured) == (6e-6, 8e-6)
    assert rows["step"].planned == PLAN.seconds


def test_states_are_what_the_run_says_and_the_plan_reckons(rows):
    states = rows["states on the fullest rank"]
    assert states.planned == states.measured


def test_what_the_run_has_not_is_said_and_not_zero(rows):
    assert rows["peak memory"].measured is None
    assert "profile_memory" in rows["peak memory"].why
    assert rows["sent along data"].measured is None
    text = verified_text(list(rows.values()))
    assert "peak memory is not measured: the run has no memory events" in text


def test_rows_read_with_their_ratio():
    text = verified_text(
        [Row("step", "s", 2.0, 3.0), Row("bubble", "1", 0.25, None, "no pipeline"), Row("x", "B", 2e6, 1e6)]
    )
    assert [line.split() for line in text.splitlines()[1:4]] == [
        ["step", "2.00", "s", "3.00", "s", "1.50"],
        ["bubble", "25.0%", "-", "-"],
        ["x", "2.00", "MB", "1.00", "MB", "0.50"],
    ]
    assert "bubble is not measured: no pipeline" in text


def test_without_a_pipeline_on_either_side_there_is_no_row_for_it(rows):
    assert "bubble" not in verified_text(list(rows.values()))
