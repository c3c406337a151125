import pytest

from tests.gate.made import summary
from tracekit.gate.summary import write_summary
from tracekit.pytest_plugin import assert_budgets, tracekit_check  # noqa: F401 - the fixture, where it is not installed

STEADY = [100, 101, 99, 100, 102, 98, 100, 101, 99, 100]


def saved(path, factor=1.0):
    return write_summary(summary([factor * ms for ms in STEADY]), path)


def test_a_run_that_keeps_its_budget_passes(tmp_path, tracekit_check):  # noqa: F811
    base, new = saved(tmp_path / "base.json"), saved(tmp_path / "new.json", 1.3)
    assert tracekit_check(new, base, "step:60%").outcome == "same"


def test_a_run_that_does_not_fails_with_the_verdict(tmp_path):
    base, new = saved(tmp_path / "base.json"), saved(tmp_path / "new.json", 1.3)
    with pytest.raises(pytest.fail.Exception, match=r"worse than the base: step \+30"):
        assert_budgets(new, base, "step:5%")


def test_unsure_may_fail(tmp_path):
    base, new = saved(tmp_path / "base.json"), saved(tmp_path / "new.json", 1.03)
    assert assert_budgets([new], [base]).outcome == "unsure"
    with pytest.raises(pytest.fail.Exception, match="cannot be told"):
        assert_budgets(new, base, unsure="fail")
