import pytest

from tests.gate.made import FACTS, MS, summary
from tracekit.errors import NotMeasured, WrongUse
from tracekit.gate.check import check

STEADY = [100, 101, 99, 100, 102, 98, 100, 101, 99, 100]
SLOW = [1.3 * ms for ms in STEADY]
MEMORY = ("bytes", "down", (4e9,) * 10)


def gate(base, new, **options):
    return check([base], [new], **options)


def test_the_same_passes():
    verdict = gate(summary(STEADY), summary(STEADY))
    assert (verdict.outcome, verdict.exit_code, verdict.reasons) == ("same", 0, ())


def test_slower_fails_with_a_reason():
    verdict = gate(summary(STEADY), summary(SLOW))
    assert (verdict.outcome, verdict.exit_code) == ("worse", 1)
    assert verdict.reasons[0].cause == "compute"
    assert verdict.reasons[0].ns == pytest.approx(30 * MS)


def test_quicker_passes():
    assert (gate(summary(SLOW), summary(STEADY)).outcome, gate(summary(SLOW), summary(STEADY)).exit_code) == (
        "better",
        0,
    )


def test_a_budget_allows_it():
    assert gate(summary(STEADY), summary(SLOW), budgets=["step:60%"]).exit_code == 0
    assert gate(summary(STEADY), summary(SLOW), budgets=["step:1%,60ms"]).exit_code == 0


@pytest.mark.parametrize(("unsure", "code"), [("", 0), ("pass", 0), ("fail", 1)])
def test_unsure_does_what_it_is_told(unsure, code):
    verdict = gate(summary(STEADY), summary([1.03 * ms for ms in STEADY]), unsure=unsure)
    assert (verdict.outcome, verdict.exit_code) == ("unsure", code)


@pytest.mark.parametrize(("unsure", "code"), [("", 2), ("pass", 0), ("fail", 1)])
def test_one_step_is_no_pass_unless_somebody_says_so(unsure, code):
    assert gate(summary([100]), summary([100]), unsure=unsure).exit_code == code


def test_a_metric_that_is_gone_is_no_pass():
    base = summary(STEADY, memory__peak_allocated_bytes=MEMORY)
    verdict = gate(base, summary(STEADY))
    assert (verdict.outcome, verdict.exit_code) == ("unsure", 2)
    [memory] = [one for one in verdict.gated if one.metric.startswith("memory")]
    assert memory.why == "the new run did not measure it"


def test_more_memory_fails():
    base, more = (
        summary(STEADY, memory__peak_allocated_bytes=("bytes", "down", (size,) * 10)) for size in (4e9, 4.2e9)
    )
    verdict = gate(base, more)
    assert (verdict.outcome, verdict.exit_code) == ("worse", 1)
    assert gate(base, base).exit_code == 0


def test_nothing_gated_is_no_pass():
    assert gate(summary(STEADY), summary(STEADY), budgets=["step:off"]).exit_code == 2


@pytest.mark.parametrize("fact", ["world size", "device", "layout", "model layers"])
def test_what_differs_is_told_and_not_compared(fact):
    verdict = gate(summary(STEADY), summary(STEADY, facts={**FACTS, fact: "other"}))
    assert (verdict.outcome, verdict.exit_code) == ("not comparable", 3)
    assert [(one.allow, one.new) for one in verdict.differs] == [(fact, "other")]


@pytest.mark.parametrize("allow", ["model layers", "model", "Model Layers", "all"])
def test_what_is_allowed_to_differ_is_compared_and_told(allow):
    verdict = gate(summary(STEADY), summary(STEADY, facts={**FACTS, "model layers": "3"}), allow=[allow])
    assert (verdict.exit_code, verdict.allowed[0].allow) == (0, "model layers")


def test_another_job_is_not_compared():
    verdict = gate(summary(STEADY), summary(STEADY, kernels={"conv": 0.9, "gemm": 0.1}))
    assert (verdict.exit_code, verdict.differs[0].allow) == (3, "job")
    assert gate(summary(STEADY), summary(STEADY, kernels={"conv": 0.6, "gemm": 0.4})).exit_code == 0


def test_a_new_finding_fails():
    straggler = ("slow-device", "error", "rank 1 is slow", (1,), 40 * MS)
    verdict = gate(summary(STEADY, findings=[]), summary(STEADY, findings=[straggler]))
    assert (verdict.outcome, verdict.exit_code) == ("worse", 1)
    assert [one.code for one in verdict.new_findings] == ["slow-device"]
    assert gate(summary(STEADY, findings=[straggler]), summary(STEADY, findings=[straggler])).exit_code == 0
    gone = gate(summary(STEADY, findings=[straggler]), summary(STEADY, findings=[]))
    assert (gone.exit_code, [one.code for one in gone.gone_findings]) == (0, ["slow-device"])
    assert (
        gate(summary(STEADY, findings=[]), summary(STEADY, findings=[straggler]), budgets=["findings:off"]).exit_code
        == 0
    )


@pytest.mark.parametrize(("severity", "cost_ms"), [("info", 40), ("warning", 0.1)])
def test_a_finding_that_says_little_does_not_fail(severity, cost_ms):
    little = ("bubble", severity, "a bubble", (), cost_ms * MS)
    assert gate(summary(STEADY, findings=[]), summary(STEADY, findings=[little])).exit_code == 0


def test_a_run_that_was_not_searched_has_no_new_findings():
    verdict = gate(summary(STEADY), summary(STEADY, findings=[("a", "error", "b", (), 5e9)]))
    assert (verdict.exit_code, verdict.new_findings) == (0, None)


def test_a_slow_drift_over_a_history_fails():
    levels = [100 + 0.5 * n for n in range(14)]
    history = [summary([ms, ms + 0.2, ms - 0.2, ms + 0.1]) for ms in levels]
    verdict = check(history[:-1], history[-1:], drifts=True)
    assert (verdict.outcome, verdict.exit_code) == ("worse", 1)
    assert verdict.drift.runs == 14


def test_wrong_use():
    with pytest.raises(WrongUse, match="at least one run"):
        check([], [summary(STEADY)])
    with pytest.raises(NotMeasured):
        gate(summary(STEADY), summary(STEADY), budgets=["bubble:+0.02"])


def share(value, better="down"):
    return ("frac", better, (value, value + 0.002, value - 0.002) * 3)


def test_a_larger_bubble_fails_but_not_in_a_quicker_step():
    base, more = (summary(STEADY, pipeline__bubble_frac=share(value)) for value in (0.15, 0.35))
    verdict = gate(base, more)
    assert (verdict.outcome, verdict.exit_code) == ("worse", 1)
    quicker = summary([0.6 * ms for ms in STEADY], pipeline__bubble_frac=share(0.35))
    assert gate(base, quicker).exit_code == 0
    assert gate(base, quicker, budgets=["bubble:+0.02"]).exit_code == 1  # asked for is asked for


def test_less_overlap_fails():
    base, less = (summary(STEADY, overlap__overlap_frac=share(value, "up")) for value in (0.6, 0.2))
    assert gate(base, less).exit_code == 1
    assert gate(less, base).exit_code == 0
