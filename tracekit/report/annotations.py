"""A verdict as GitHub annotations: workflow commands that show beside a run's log.

https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

from collections.abc import Iterator

from tracekit.gate.check import Verdict
from tracekit.report import gate_wording as wording
from tracekit.wording import plain


def github_annotations(verdict: Verdict) -> str:
    """A line for each thing to tell; "" where all is fine."""
    return "".join(f"{line}\n" for line in _lines(verdict))


def _lines(verdict: Verdict) -> Iterator[str]:
    for one in verdict.differs:
        yield _command("error", "not comparable", f"{one.allow}: {one.base} → {one.new}")
    for judged in verdict.gated:
        told = f"{wording.change(judged)} (95 %: {wording.interval(judged) or 'not known'})"
        title = f"{wording.metric_name(judged.metric)} is {judged.outcome}"
        if judged.outcome == "worse":
            why = "; ".join(one.sentence for one in verdict.reasons[:3])
            yield _command("error", title, f"{told}, limit {wording.limit(judged)}. {why}".strip())
        elif judged.outcome == "unsure":
            level = "error" if verdict.exit_code else "warning"
            yield _command(level, title, f"{told}: {judged.why}; {judged.settle}")
        elif judged.outcome == "better":
            yield _command("notice", title, told)
    for finding in verdict.new_findings or ():
        yield _command("error", f"new finding {finding.code}", finding.title)
    if verdict.drift is not None:
        yield _command("warning", "drift", wording.drift_told(verdict))


def _command(level: str, title: str, message: str) -> str:
    return f"::{level} title={_property(title)}::{_data(message)}"


def _data(text: str) -> str:
    return plain(text, 1000).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
