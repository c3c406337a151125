"""The overview of a run as plain values, for pages and comments: what was read, the verdict, findings, ranks, notes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass

from rich.text import Text

from tracekit.analysis import Analysis
from tracekit.diagnosis import rule_module
from tracekit.errors import NotMeasured, WrongUse
from tracekit.evidence import step_ns
from tracekit.measures.breakdown import PARTS
from tracekit.model import Finding
from tracekit.report import job, sentences
from tracekit.report.account import facts, not_measured, notes_by_code, rank_means, waits_known
from tracekit.report.findings import summary
from tracekit.report.rank_table import step_section
from tracekit.report.text import facts_line, note_line
from tracekit.wording import counted, duration, percent, plain, sentence, time_unit

RANK_ROWS = 64


@dataclass(frozen=True)
class Told:
    """A finding as sentences; `manual` are the paragraphs of its manual page."""

    code: str
    severity: str
    title: str
    cost: str
    evidence: tuple[str, ...]
    advice: str
    manual: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """Rows of text under headings."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    more: str = ""


@dataclass(frozen=True)
class Overview:
    """All of it; foreign text is one printable line each, and no more than that: who shows it escapes it."""

    path: str
    read: str
    verdict: tuple[str, ...]
    summary: str
    findings: tuple[Told, ...]
    told: dict[str, str]
    ranks: Table | None
    notes: tuple[tuple[str, str], ...]
    absent: dict[str, str]


def overview(analysis: Analysis) -> Overview:
    """The overview; what the run has no input for is in `absent`, with why."""
    read = facts(analysis.run)
    return Overview(
        path=plain(read.path),
        read=facts_line(read),
        verdict=_verdict(analysis),
        summary=summary(analysis),
        findings=findings(analysis),
        told=_told(analysis),
        ranks=rank_table(analysis),
        notes=tuple((group.severity, note_line(group)) for group in notes_by_code(analysis.run)),
        absent={name: sentence(why) for name, why in not_measured(analysis).items()},
    )


def _verdict(analysis: Analysis) -> tuple[str, ...]:
    try:
        return tuple(str(line.plain if isinstance(line, Text) else line) for line in step_section(analysis))
    except NotMeasured as why:
        return (sentence(str(why)),)


def findings(analysis: Analysis) -> tuple[Told, ...]:
    """The findings, the costliest first, each with its manual page."""
    whole_ns = _step_ns(analysis)
    return tuple(_finding(finding, whole_ns) for finding in analysis.findings)


def _finding(finding: Finding, whole_ns: float) -> Told:
    cost = (
        "" if finding.cost_ns is None else f"{duration(finding.cost_ns)} a step, {percent(finding.cost_ns, whole_ns)}"
    )
    return Told(
        plain(finding.code), finding.severity, plain(finding.title), cost, tuple(map(plain, finding.evidence)),
        plain(finding.advice), manual(finding.code),
    )  # fmt: skip


def manual(code: str) -> tuple[str, ...]:
    """A rule's manual page as paragraphs; none where there is no such rule."""
    try:
        text = inspect.cleandoc(rule_module(code).__doc__ or "")
    except WrongUse:
        return ()
    return tuple(" ".join(block.split()) for block in re.split(r"\n\n|\n(?=[A-Z][a-z ]+: )", text) if block.strip())


def _told(analysis: Analysis) -> dict[str, str]:
    """A sentence for each part of the screen that the run has something to say on."""
    known: dict[str, Callable[[Analysis], str]] = {**job.SENTENCES, **sentences.SENTENCES}
    told = {}
    for name, say in known.items():
        try:
            told[name] = say(analysis)
        except NotMeasured:
            continue
    return {name: text for name, text in told.items() if text}


def rank_table(analysis: Analysis, most: int = RANK_ROWS) -> Table | None:
    """The ranks, the one with the most time of its own first; None where no step is complete."""
    try:
        means = rank_means(analysis)
    except NotMeasured:
        return None
    if means.empty:
        return None
    unit = time_unit(means["step_ns"].max())
    own = ["own_ns"] if waits_known(analysis) else []
    columns = ["step_ns", *own, *PARTS]
    names = [column.removesuffix("_ns").replace("_", " ") for column in columns]
    headings = ("rank", *(f"{name}, {unit.name}" for name in names), "comm hidden")
    shown = means.head(most)
    hidden = [percent(overlap, comm) for overlap, comm in zip(shown["overlap_ns"], shown["comm_ns"], strict=True)]
    cells = zip(*(shown[column].tolist() for column in columns), strict=True)
    rows = tuple(
        (str(rank), *("-" if value != value else unit.of(value) for value in values), part)
        for rank, values, part in zip(shown["rank"].tolist(), cells, hidden, strict=True)
    )
    rest = len(means) - len(shown)
    return Table(headings, rows, f"and {counted(rest, 'more rank')}" if rest else "")


def _step_ns(analysis: Analysis) -> float:
    try:
        return step_ns(analysis.run)
    except NotMeasured:
        return 0.0
