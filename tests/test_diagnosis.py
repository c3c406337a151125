from types import SimpleNamespace

import pytest

from tests import lanes
from tests.rules.drawn import LOADING, analysis, healthy, job, late, long, slow
from tracekit import diagnosis
from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured, WrongUse
from tracekit.model import Finding

STEP = "0" * 100
ONE_STEP = f"step {STEP}\n0/7 {'C' * 100}\n1/7 {'C' * 100}"
"""A step of 100 us: one microsecond is one per cent."""


def of_costs(monkeypatch, *costs_us, drawing=ONE_STEP):
    """The findings where each rule finds one thing, which costs so many microseconds (or None)."""

    def rule(code, cost_us):
        cost_ns = None if cost_us is None else round(cost_us * 1000)
        return SimpleNamespace(CODE=code, check=lambda _: iter([Finding(code, "warning", code, cost_ns=cost_ns)]))

    modules = {f"rule-{nth}": rule(f"rule-{nth}", cost_us) for nth, cost_us in enumerate(costs_us)}
    monkeypatch.setattr(diagnosis, "rule_modules", lambda: modules)
    return diagnosis.findings_of(Analysis(lanes.run(drawing)))


def told(findings):
    return [(one.code, None if one.cost_ns is None else one.cost_ns / 1000) for one in findings]


def test_costs_never_add_up_to_more_than_the_step(monkeypatch):
    assert told(of_costs(monkeypatch, 30, 60, 50)) == [("rule-1", 60), ("rule-2", 40)]


def test_the_costliest_first_and_what_costs_nothing_last(monkeypatch):
    assert told(of_costs(monkeypatch, None, 5, 20)) == [("rule-2", 20), ("rule-1", 5), ("rule-0", None)]


@pytest.mark.parametrize(
    ("cost_us", "severity"),
    [(1, "info"), (2.9, "info"), (3, "warning"), (9.9, "warning"), (10, "error"), (100, "error"), (None, "warning")],
)
def test_severity_by_cost(monkeypatch, cost_us, severity):
    [finding] = of_costs(monkeypatch, cost_us)
    assert finding.severity == severity


@pytest.mark.parametrize("cost_us", [0.99, 0, -5])
def test_below_one_per_cent_nothing_is_said(monkeypatch, cost_us):
    assert of_costs(monkeypatch, cost_us) == ()


def test_what_is_left_below_one_per_cent_is_not_said_either(monkeypatch):
    assert told(of_costs(monkeypatch, 99.5, 40)) == [("rule-0", 99.5)]


def test_without_a_complete_step_nothing_has_a_cost(monkeypatch):
    assert told(of_costs(monkeypatch, 50, None, drawing=f"step {STEP} incomplete=0\n0/7 CC")) == [("rule-1", None)]


def test_a_rule_without_its_input_says_nothing(monkeypatch):
    def lacks(_):
        raise NotMeasured("the run has no such thing")
        yield

    fine = SimpleNamespace(CODE="fine", check=lambda _: iter([Finding("fine", "info", "fine", cost_ns=50_000)]))
    modules = {"lacks": SimpleNamespace(CODE="lacks", check=lacks), "fine": fine}
    monkeypatch.setattr(diagnosis, "rule_modules", lambda: modules)
    assert told(diagnosis.findings_of(Analysis(lanes.run(ONE_STEP)))) == [("fine", 50)]


def test_a_healthy_run_has_no_finding():
    """Of 811 us of a step 2 are exposed communication; nothing else is amiss."""
    assert analysis(job(*(long(healthy()) for _ in range(3)))).findings == ()


def test_a_slow_device_and_a_slow_loader_at_once():
    """Rank 2 computes 4 us longer in all steps; that and the exposed transfers share what there is."""
    findings = analysis(job(slow(2), slow(2), slow(2))).findings
    assert (findings[0].code, findings[0].ranks, findings[0].cost_ns) == ("slow-device", (2,), 4000)
    assert sum(one.cost_ns or 0 for one in findings) <= 16_000
    assert all(one.code != "data-loading" for one in findings)


def test_another_cause_has_another_code():
    findings = analysis(job(late(LOADING), late(LOADING), late(LOADING))).findings
    assert [(one.code, one.ranks) for one in findings if one.ranks] == [("data-loading", (2,))]


def test_one_rank_says_what_it_cannot_tell():
    codes = [one.code for one in Analysis(lanes.run("step 001122\n0/7 CCCCCC")).findings]
    assert codes == ["cannot-tell"]


def test_no_rank_named_that_the_run_does_not_have():
    with pytest.raises(WrongUse, match="no rule is named 'slow'; there are blocking-copies, "):
        diagnosis.rule_module("slow")
    assert diagnosis.rule_module("slow-device").CODE == "slow-device"


def test_findings_are_made_once():
    asked = analysis(job(healthy()))
    assert asked.findings is asked.findings
