"""What pages are put together from: charts, tables, sentences. Foreign text is shown as it is, never as markup."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import pandas as pd
import streamlit as st

from tracekit.analysis import Analysis
from tracekit.charts import Figure
from tracekit.errors import NotMeasured, TracekitError
from tracekit.report.figures import figure
from tracekit.report.html import TITLES, style
from tracekit.wording import plain

MOST_ROWS = 5_000
_figures: WeakKeyDictionary[Analysis, dict[str, Figure]] = WeakKeyDictionary()
CONFIG = {"displaylogo": False, "responsive": True}
CELL = 200
FORMULA = ("=", "+", "-", "@", "\t", "\r")
EXTRA = """
.tk-absent { border: 1px dashed rgba(128,128,128,0.5); border-radius: 6px; padding: 0.8em 1em; opacity: 0.85; }
.tk-absent b { display: block; }
"""


def markup(escaped: str) -> None:
    """HTML whose foreign text is escaped already."""
    st.html(f"<style>{style()}{EXTRA}</style>{escaped}")


def text(words: str) -> None:
    """Foreign text as a paragraph."""
    markup(f'<div class="tk"><p><bdi>{html.escape(plain(words))}</bdi></p></div>')


def absent(why: str, what: str = "Not measured") -> None:
    """Why something is not there, where it would stand."""
    markup(f'<div class="tk tk-absent"><b>{html.escape(what)}</b><bdi>{html.escape(plain(why))}</bdi></div>')


def chart(analysis: Analysis, name: str) -> None:
    """A figure by its name, under its title and question; else why there is none."""
    title, question = TITLES[name]
    draw(title, question, lambda: _drawn(analysis, name), name)


def _drawn(analysis: Analysis, name: str) -> Figure:
    """The figure, made once for a run."""
    held = _figures.setdefault(analysis, {})
    if name not in held:
        held[name] = figure(analysis, name)
    return held[name]


def draw(title: str, question: str, make: Callable[[], Figure], key: str, **options: Any) -> Any:
    """A figure under its title and question, or why there is none; what is selected in it."""
    st.markdown(f"##### {title}")
    if question:
        st.caption(question)
    try:
        return st.plotly_chart(make(), theme="streamlit", config=CONFIG, key=f"figure-{key}", **options)
    except NotMeasured as why:
        absent(str(why))
    return None


def measure(analysis: Analysis, name: str) -> None:
    """A measure's rows, folded away, with their download; nothing where there are none."""
    try:
        rows = analysis[name]
    except NotMeasured:
        return
    folded(f"{name.replace('_', ' ')} ({len(rows):,} rows)", name, rows)


def folded(words: str, name: str, rows: pd.DataFrame) -> None:
    """A table folded away; it is sent to the browser once it is opened."""
    held = st.expander(f"Table: {words}", key=f"open-{name}", bind="query-params")
    if held.open:
        with held:
            table(rows, name)


def table(rows: pd.DataFrame, name: str) -> None:
    """Rows as they are, and as a CSV file."""
    shown = rows.head(MOST_ROWS)
    texts = [name for name in shown if shown[name].dtype.kind not in "iufb"]
    shown = shown.assign(**{name: shown[name].map(_cell) for name in texts})
    st.dataframe(shown, hide_index=True, key=f"table-{name}")
    if len(rows) > MOST_ROWS:
        st.caption(f"The first {MOST_ROWS:,} of {len(rows):,} rows; the file has all.")
    st.download_button(
        "Download CSV", lambda: csv(rows), f"{name}.csv", "text/csv", key=f"csv-{name}", on_click="ignore"
    )


def csv(rows: pd.DataFrame) -> str:
    """The rows as CSV; text that a spreadsheet would take for a formula gets an apostrophe in front."""
    return rows.map(lambda value: _unformulated(value) if isinstance(value, str) else value).to_csv(index=False)


def _unformulated(value: str) -> str:
    return f"'{value}" if value.startswith(FORMULA) else value


def _cell(value: object) -> object:
    return plain(value, CELL) if isinstance(value, str) else value


def failed(why: TracekitError) -> None:
    """An error that tracekit tells in a sentence."""
    absent(str(why), "This did not work")
