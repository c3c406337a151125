"""The overview as Markdown, for a comment in CI; text from traces cannot leave its place."""

from __future__ import annotations

from collections.abc import Iterator

from tracekit.report.markdown import safe
from tracekit.report.overview import Overview, Table

RANK_ROWS, LONG = 16, 400
SIGNS = {"error": "❌", "warning": "⚠️", "info": "ℹ️"}


def overview_markdown(told: Overview) -> str:
    """The overview as GitHub's Markdown."""
    return "\n".join(_lines(told)) + "\n"


def _lines(told: Overview) -> Iterator[str]:
    yield from (
        "### tracekit",
        "",
        *(safe(line, LONG) + "  " for line in told.verdict),
        "",
        f"**{safe(told.summary, LONG)}**",
        "",
    )
    for one in told.findings:
        cost = f" ({one.cost})" if one.cost else ""
        yield f"- {SIGNS[one.severity]} **{safe(one.code)}**{safe(cost)}: {safe(one.title, LONG)}"
        yield from (f"  - {safe(reason, LONG)}" for reason in one.evidence)
        if one.advice:
            yield f"  - do: {safe(one.advice, LONG)}"
    yield from ("", *(f"- {safe(name)}: {safe(text, LONG)}" for name, text in told.told.items()))
    if told.ranks:
        yield from ("", "<details><summary>Ranks</summary>", "", *_table(told.ranks), "", "</details>")
    if told.notes:
        yield from ("", f"<details><summary>{len(told.notes)} notes</summary>", "")
        yield from (f"- {severity}: {safe(text, LONG)}" for severity, text in told.notes)
        yield from ("", "</details>")
    yield from ("", f"<sub>{safe(told.path)}: {safe(told.read, LONG)}</sub>")


def _table(table: Table) -> Iterator[str]:
    yield f"| {' | '.join(table.headings)} |"
    yield "|" + "---:|" * len(table.headings)
    yield from (f"| {' | '.join(map(safe, row))} |" for row in table.rows[:RANK_ROWS])
    if len(table.rows) > RANK_ROWS:
        yield from ("", f"and {len(table.rows) - RANK_ROWS} more")
