import pytest

from tests.gate.made import summary
from tracekit.gate.history import History
from tracekit.gate.summary import STEP
from tracekit.report.history_text import history_document, history_text, sparkline


def made(*levels):
    runs = (
        summary([ms, ms], saved_at=f"2026-01-{n:02}T10:00:00", commit=f"commit{n}") for n, ms in enumerate(levels, 1)
    )
    return History("perf", tuple(runs), ("b.summary.json is no whole summary",))


def test_sparkline():
    assert sparkline([1, 2, 8]) == "▁▂█"
    assert sparkline([3, 3]) == "▁▁"


def test_a_line_for_each_run_and_where_it_stepped():
    text = history_text(made(100, 100, 100, 120, 120, 120), [STEP])
    assert "perf: 6 runs" in text
    assert "not read: b.summary.json is no whole summary" in text
    assert "step              ▁▁▁███  120.0 ms" in text
    assert "stepped at commit4: 100.0 ms → 120.0 ms (+20.0 %)" in text
    assert [line.split()[3] for line in text.splitlines() if line.startswith(">")] == ["commit4"]


def test_drift():
    assert "drifts +0.48 % a run over 14 runs" in history_text(made(*[100 + 0.5 * n for n in range(14)]), [STEP])


def test_the_latest_runs_of_many():
    text = history_text(made(*[100 + n % 2 for n in range(28)] * 2), [STEP])
    assert "... 26 older runs" in text


def test_as_json():
    told = history_document(made(100, 100, 100, 120, 120, 120), [STEP])
    assert told["metrics"][STEP]["values"] == [100e6] * 3 + [120e6] * 3
    [step] = told["metrics"][STEP]["steps"]
    assert (step["at"], step["commit"], step["changed_frac"]) == (3, "commit4", pytest.approx(0.2))
    assert len(told["runs"]) == 6
