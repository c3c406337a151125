"""A verdict for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from tracekit.gate.check import Verdict
from tracekit.gate.judge import Judged
from tracekit.report import gate_wording as wording
from tracekit.report.screen import screen_text
from tracekit.wording import plain, sentence

STYLES = {"worse": "bold red", "unsure": "yellow", "better": "green", "same": "dim", "not comparable": "bold red"}
WATCHED = 12
WIDE = 100


def verdict_text(verdict: Verdict, *, width: int = 100, colour: bool = False) -> str:
    """The whole verdict as text of at most `width` columns."""
    return screen_text(_screen(verdict, width), width=width, colour=colour)


def _screen(verdict: Verdict, width: int) -> Iterator[RenderableType]:
    yield Text(sentence(wording.first_line(verdict), 600), style=STYLES[verdict.outcome])
    yield Text(sentence(wording.sides(verdict)), style="dim")
    if verdict.differs:
        yield from _differs(verdict)
        return
    if verdict.gated:
        yield from ("", _table(verdict.gated, width, gated=True))
    yield from _remarks(verdict)
    if verdict.reasons:
        yield from ("", Text("Why", style="bold"))
        yield from (Text(f"  {one.ns / 1e6:+,.2f} ms  {plain(one.sentence, 400)}") for one in verdict.reasons)
    yield from _findings(verdict)
    changed = [one for one in verdict.watched if one.outcome in ("worse", "better")]
    if changed:
        changed.sort(key=lambda one: (one.outcome, -abs(one.changed_frac or 0)))
        yield from ("", Text("Also changed, not gated", style="bold"), _table(changed[:WATCHED], width, gated=False))
    for note in verdict.notes:
        yield from ("", Text(f"note: {sentence(note)}", style="dim"))


def _table(rows: Sequence[Judged], width: int, *, gated: bool) -> Table:
    """Metrics with their change; narrow screens go without intervals."""
    cells = {
        "base": lambda one: wording.value(one.unit, one.base),
        "new": lambda one: wording.value(one.unit, one.new),
        "change": wording.change,
        **({"95 % interval": wording.interval} if width >= WIDE else {}),
        **({"limit": wording.limit} if gated else {}),
    }
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("metric", no_wrap=True, overflow="ellipsis")
    for heading in cells:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    for one in rows:
        told = [cell(one) for cell in cells.values()]
        table.add_row(wording.metric_name(one.metric), *told, Text(one.outcome, style=STYLES[one.outcome]))
    return table


def _remarks(verdict: Verdict) -> Iterator[RenderableType]:
    """What cannot be told, and what would settle it; drift; what was allowed to differ."""
    for one in verdict.gated:
        if one.why:
            settle = f": {one.settle}" if one.settle else ""
            yield Text(f"{wording.metric_name(one.metric)}: {sentence(one.why)}{settle}", style="yellow")
    if verdict.drift is not None:
        yield Text(wording.drift_told(verdict), style="yellow")
    for differ in verdict.allowed:
        told = f"allowed to differ: {plain(differ.allow)} ({plain(differ.base, 80)} → {plain(differ.new, 80)})"
        yield Text(told, style="yellow")


def _differs(verdict: Verdict) -> Iterator[RenderableType]:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for heading in ("what", "base", "new"):
        table.add_column(heading)
    for one in verdict.differs:
        table.add_row(plain(one.allow), plain(one.base, 120), plain(one.new, 120))
    yield from ("", table, "")
    names = " ".join(f"--allow '{plain(one.allow)}'" for one in verdict.differs)
    yield Text(f"To compare them all the same: {names}")


def _findings(verdict: Verdict) -> Iterator[RenderableType]:
    for title, findings in (("New findings", verdict.new_findings or ()), ("Gone", verdict.gone_findings)):
        if findings:
            yield from ("", Text(title, style="bold"))
            yield from (Text(f"  {plain(one.code)}: {sentence(one.title)}") for one in findings)
