import pytest

from tests.report.verdicts import drifting, slower, unsure
from tracekit.report import gate_wording as wording


@pytest.mark.parametrize(("metric", "name"), [
    ("breakdown.step_ns", "step"), ("exposed.exposed_ns[data]", "exposed_comm[data]"),
    ("breakdown.exposed_comm_ns", "exposed_comm"), ("host.sync_ns", "host.sync_ns"),
])  # fmt: skip
def test_names(metric, name):
    assert wording.metric_name(metric) == name


@pytest.mark.parametrize(("unit", "number", "text"), [
    ("ns", 12.3e6, "12.30 ms"), ("ns", -12.3e6, "-12.30 ms"), ("bytes", 2**30, "1.0 GiB"), ("frac", 0.123, "12.3 %"),
    ("GB/s", 123.456, "123.5 GB/s"), ("count", 1234.0, "1,234"), ("ns", None, "-"),
])  # fmt: skip
def test_values(unit, number, text):
    assert wording.value(unit, number) == text


def test_changes():
    assert wording.signed("frac", -0.021) == "-2.1 points"
    assert wording.signed("ns", 5e6) == "+5.00 ms"
    [step] = slower().gated
    assert wording.change(step) == "+30.0 %"
    assert wording.limit(step) == "1.0 %"


def test_the_sides():
    assert wording.sides(slower()) == "base: 1 run, 10 steps at abc; new: 1 run, 10 steps at abc"


def test_the_first_line():
    assert wording.first_line(unsure()) == "cannot be told for sure: step +3.0 %"
    assert "worse than the base" in wording.first_line(drifting())
