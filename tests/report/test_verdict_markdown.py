from tests.report.verdicts import drifting, hostile, not_comparable, same, slower, unsure
from tracekit.report.verdict_markdown import MARKER, verdict_markdown


def test_a_comment_says_the_verdict_first():
    text = verdict_markdown(slower())
    assert text.startswith(f"{MARKER}\n### ❌ tracekit: worse than the base: step +30.0 %\n")
    assert "| ❌ worse | step | 100.0 ms | 130.0 ms | +30.0 % |" in text
    assert "- +30.00 ms: compute" in text
    assert "together: the step's difference" in text


def test_all_is_well():
    text = verdict_markdown(same())
    assert "### ✅ tracekit: no worse than the base: step +0.0 %" in text
    assert "Why" not in text


def test_unsure_says_what_would_settle_it():
    assert "on each side would tell" in verdict_markdown(unsure())


def test_what_differs():
    assert "| world size | 2 | 4 |" in verdict_markdown(not_comparable())


def test_drift():
    assert "the step drifts" in verdict_markdown(drifting())


def test_foreign_text_is_no_markup():
    text = verdict_markdown(hostile())
    assert "<script>" not in text
    assert "@everyone" not in text
    assert "[click](" not in text
    assert "| injected |" not in text
    assert text.count("\n### ") == 1
