"""Lines of the screen that begin with a label, and shares of a whole as a person reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured
from tracekit.report.details import Shares
from tracekit.wording import percent, plain

SHARES = 5
"""So many are named, the rest is counted."""


def labelled(sentences: Mapping[str, Callable[[Analysis], str]], analysis: Analysis) -> Iterator[RenderableType]:
    """A grid with a line for each sentence that says something; nothing where none does."""
    told = {name: _told(sentence, analysis) for name, sentence in sentences.items()}
    table = Table.grid(padding=(0, 2, 0, 0))
    for name, sentence in told.items():
        if sentence:
            table.add_row(Text(name, style="dim"), Text(sentence))
    if table.row_count:
        yield table


def _told(sentence: Callable[[Analysis], str], analysis: Analysis) -> str:
    try:
        return sentence(analysis)
    except NotMeasured:
        return ""


def shares(parts: Shares, before: str = "", least_frac: float = 0.0) -> str:
    """The largest parts as shares of all of them: `62 % dp, 38 % tp`; smaller ones than asked for are only counted."""
    whole = sum(parts.values())
    named = [name for name, part in parts.items() if part >= least_frac * whole][:SHARES]
    shown = ", ".join(f"{percent(parts[name], whole)} {before}{plain(name, 40)}" for name in named)
    rest, rest_ns = len(parts) - len(named), whole - sum(parts[name] for name in named)
    return f"{shown} and {rest} more" if rest and rest_ns >= least_frac * whole / 2 else shown
