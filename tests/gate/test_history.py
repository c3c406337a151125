import subprocess
import sys

import pytest

from tests.gate.made import MS, summary
from tracekit.errors import Unreadable, WrongUse
from tracekit.gate.history import add, baseline, drift, is_history, read_history, step_changes
from tracekit.gate.summary import STEP, write_summary


def runs(*levels_ms):
    """One run for each level, its steps around it."""
    return [
        summary([ms, ms + 0.1, ms - 0.1], saved_at=f"2026-01-{n:02}T00:00:00", commit=f"commit{n}")
        for n, ms in enumerate(levels_ms, 1)
    ]


def test_what_is_added_is_there_in_order(tmp_path):
    kept = runs(100, 101, 102)
    for one in reversed(kept):
        add(one, tmp_path / "history")
    held = read_history(tmp_path / "history")
    assert list(held.summaries) == kept
    assert is_history(tmp_path / "history")
    assert not is_history(tmp_path)


def test_the_same_run_twice_is_two_files(tmp_path):
    [one] = runs(100)
    assert add(one, tmp_path) != add(one, tmp_path)
    assert len(read_history(tmp_path).summaries) == 2


def test_many_processes_at_once_lose_nothing(tmp_path):
    write_summary(summary([100, 101]), tmp_path / "one.json")
    code = (
        "import sys; from tracekit.gate.summary import read_summary; from tracekit.gate.history import add\n"
        "one = read_summary(sys.argv[1]); [add(one, sys.argv[2]) for _ in range(20)]"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "one.json"), str(tmp_path / "history")]
    for process in [subprocess.Popen(command) for _ in range(3)]:
        assert process.wait(timeout=120) == 0
    held = read_history(tmp_path / "history")
    assert (len(held.summaries), held.unread) == (60, ())


def test_a_broken_file_is_told_and_left_out(tmp_path):
    add(runs(100)[0], tmp_path)
    (tmp_path / "broken.summary.json").write_text('{"schema": 1, ')
    held = read_history(tmp_path)
    assert len(held.summaries) == 1
    assert "broken.summary.json is no whole summary" in held.unread[0]


def test_a_half_written_file_is_not_seen(tmp_path):
    add(runs(100)[0], tmp_path)
    (tmp_path / ".x.summary.json.1234.tmp").write_text("{")
    assert read_history(tmp_path).unread == ()


def test_nothing_readable(tmp_path):
    with pytest.raises(Unreadable, match="holds no summary"):
        read_history(tmp_path)
    (tmp_path / "a.summary.json").write_text("")
    with pytest.raises(Unreadable, match="no whole summary"):
        read_history(tmp_path)


def test_a_file_is_no_history(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WrongUse, match="is a file"):
        add(runs(100)[0], tmp_path / "file")


def test_where_the_level_steps():
    [change] = step_changes(runs(100, 101, 100, 101, 120, 121, 120), STEP)
    assert (change.at, change.commit) == (4, "commit5")
    assert change.from_value == pytest.approx(100.5 * MS)
    assert change.changed_frac == pytest.approx((361 / 3 - 100.5) / 100.5)


def test_the_baseline_is_what_came_after_the_last_step():
    kept = runs(100, 101, 100, 101, 120, 121, 120)
    assert baseline(kept, STEP) == kept[4:]
    assert baseline(kept[:4], STEP) == kept[:4]


def test_the_baseline_is_the_latest():
    kept = runs(*[100 + n % 2 for n in range(28)])
    assert baseline(kept, STEP) == kept[-20:]


def test_slow_drift_is_told():
    found = drift(runs(*[100 + 0.4 * n + 0.1 * (n % 2) for n in range(12)]), STEP)
    assert found.runs == 12
    assert found.whole_frac == pytest.approx(0.044, abs=0.005)
    assert drift(runs(*[100 + n % 3 for n in range(12)]), STEP) is None
    assert drift(runs(100, 101), STEP) is None
