import pytest

from tests.report.verdicts import better, blind, drifting, hostile, not_comparable, same, slower, unsure
from tracekit.report.verdict_text import verdict_text


def test_slower():
    text = verdict_text(slower(), width=120)
    assert text.splitlines()[0] == "worse than the base: step +30.0 %"
    [row] = [line for line in text.splitlines() if line.startswith("step ")]
    assert row.split()[:7] == ["step", "100.0", "ms", "130.0", "ms", "+30.0", "%"]
    assert row.split()[-1] == "worse"
    assert "+30.00 ms  compute 1.30 times as long" in text


@pytest.mark.parametrize(("verdict", "first"), [
    (same, "no worse than the base: step +0.0 %"), (better, "better than the base: step -23.1 %"),
    (unsure, "cannot be told for sure: step +3.0 %"), (blind, "cannot be told for sure: step +0.0 %"),
    (not_comparable, "the runs cannot be compared: world size differs"),
])  # fmt: skip
def test_the_first_line_is_the_verdict(verdict, first):
    assert verdict_text(verdict()).splitlines()[0] == first


def test_what_would_settle_it():
    assert "more runs on each side would tell" in " ".join(verdict_text(unsure()).split())
    assert "profile at least 3 steps" in verdict_text(blind())


def test_how_to_compare_all_the_same():
    assert "--allow 'world size'" in verdict_text(not_comparable())


def test_drift():
    assert "the step drifts: +0.48 % a run, +6.3 % over 14 runs" in verdict_text(drifting())


@pytest.mark.parametrize("width", [60, 80, 140])
def test_it_fits_the_screen(width):
    for verdict in (slower, unsure, hostile, not_comparable):
        assert max(map(len, verdict_text(verdict(), width=width).splitlines())) <= width


def test_foreign_text_moves_no_cursor():
    assert "\x1b" not in verdict_text(hostile())
    assert "\x1b[31m" not in verdict_text(hostile(), colour=True).replace("\x1b[1;31m", "")
