"""A pytest fixture: assert that a profiled run keeps its budgets.

    def test_training_is_not_slower(tracekit_check):
        tracekit_check("traces/new", "traces/baseline", "step:5%", "exposed_comm:0.5ms")

Installed with tracekit; nothing is imported before the fixture is used. Profiling is up to the test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

if TYPE_CHECKING:
    from tracekit.gate.check import Verdict

Paths = str | Path | Sequence[str | Path]


@pytest.fixture
def tracekit_check() -> Callable[..., Verdict]:
    """A function that compares runs with a baseline, fails the test where they are worse, and returns the verdict."""
    return assert_budgets


def assert_budgets(
    runs: Paths, baseline: Paths, *budgets: str, unsure: Literal["", "fail", "pass"] = "", allow: Sequence[str] = ()
) -> Verdict:
    """The verdict of runs (folders of traces or saved summaries) against a baseline; a history may be one.

    Fails the test, with the whole verdict as text, wherever `tracekit check` would not exit with 0.
    """
    __tracebackhide__ = True
    from tracekit.gate.check import check
    from tracekit.gate.sides import base_side, summary_at
    from tracekit.report.verdict_text import verdict_text

    new = [summary_at(str(one)) for one in _listed(runs)]
    base, drifts = base_side([str(one) for one in _listed(baseline)], new[-1])
    verdict = check(base, new, budgets=budgets, unsure=unsure, allow=allow, drifts=drifts)
    if verdict.exit_code:
        pytest.fail(verdict_text(verdict), pytrace=False)
    return verdict


def _listed(paths: Paths) -> list[str | Path]:
    return [paths] if isinstance(paths, str | Path) else list(paths)
