"""A verdict as Markdown, for a comment on a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tracekit.gate.check import Verdict
from tracekit.gate.judge import Judged
from tracekit.report import gate_wording as wording
from tracekit.report.markdown import safe as _safe

MARKER = "<!-- tracekit check -->"
"""By this the action finds its comment again, to write it anew."""
SIGNS = {"worse": "❌", "unsure": "❔", "better": "✅", "same": "✅", "not comparable": "⛔"}
PARTS = 10


def verdict_markdown(verdict: Verdict) -> str:
    """The verdict as GitHub's Markdown; text from traces cannot leave its place."""
    return "\n".join(_lines(verdict)) + "\n"


def _lines(verdict: Verdict) -> Iterator[str]:
    yield from (MARKER, f"### {SIGNS[verdict.outcome]} tracekit: {_safe(wording.first_line(verdict), 300)}", "")
    if verdict.differs:
        yield from ("| differs | base | new |", "|---|---|---|")
        yield from (f"| {_safe(one.allow)} | {_safe(one.base)} | {_safe(one.new)} |" for one in verdict.differs)
        return
    yield from _table(verdict.gated)
    yield from (f"- {_remark(one)}" for one in verdict.gated if one.why)
    if verdict.drift is not None:
        yield f"- {wording.drift_told(verdict)}"
    if verdict.reasons:
        yield from ("", "**Why**", "")
        yield from (f"- {one.ns / 1e6:+,.2f} ms: {_safe(one.sentence, 400)}" for one in verdict.reasons)
    for title, findings in (("New findings", verdict.new_findings or ()), ("Gone findings", verdict.gone_findings)):
        if findings:
            yield from ("", f"**{title}**", "")
            yield from (f"- **{_safe(one.code, 60)}**: {_safe(one.title, 300)}" for one in findings)
    yield from _details(verdict)
    yield from ("", f"<sub>{_safe(wording.sides(verdict), 300)}</sub>")
    yield from (f"<sub>{_safe(note, 300)}</sub>" for note in verdict.notes)


def _table(rows: Sequence[Judged]) -> Iterator[str]:
    if not rows:
        return
    yield from ("| | metric | base | new | change | 95 % interval | limit |", "|---|---|---:|---:|---:|---:|---:|")
    for one in rows:
        cells = (
            f"{SIGNS[one.outcome]} {one.outcome}", _safe(wording.metric_name(one.metric)),
            wording.value(one.unit, one.base), wording.value(one.unit, one.new), wording.change(one),
            wording.interval(one), wording.limit(one),
        )  # fmt: skip
        yield f"| {' | '.join(cells)} |"


def _remark(one: Judged) -> str:
    return f"{_safe(wording.metric_name(one.metric))}: {_safe(one.why)}{f'; {_safe(one.settle)}' if one.settle else ''}"


def _details(verdict: Verdict) -> Iterator[str]:
    """The parts of the difference, folded away."""
    if verdict.changed is None or not verdict.changed.parts or verdict.outcome == "same":
        return
    parts = verdict.changed.parts[:PARTS]
    yield from ("", "<details><summary>What changed, per step</summary>", "")
    yield from ("| ms | calls | kind | what |", "|---:|---:|---|---|")
    for part in parts:
        calls = f"{part.base.calls:,.4g} → {part.new.calls:,.4g}"
        what = _safe(f"{part.name} {part.shape}".strip(), 120)
        yield f"| {part.changed_ns / 1e6:+,.3f} | {calls} | {part.kind} | {what} ({part.how}) |"
    rest = verdict.changed.changed_ns - sum(part.changed_ns for part in parts)
    yield f"| {rest / 1e6:+,.3f} | | | all others |"
    yield f"| {verdict.changed.changed_ns / 1e6:+,.3f} | | | together: the step's difference |"
    yield from ("", "</details>")
