"""Which rank keeps the others waiting, how much, and why."""

from __future__ import annotations

import streamlit as st

from tracekit.analysis import Analysis
from tracekit.report import html
from tracekit.report.findings import summary
from tracekit.report.overview import findings

from .. import opening, parts

TITLE, ORDER = "Stragglers", 6


def show(analysis: Analysis) -> None:
    """The page."""
    opening.diagnosed(analysis)
    for pair in (("own", "waits"), ("own_grid", "waits_grid")):
        for column, name in zip(st.columns(2), pair, strict=True):
            with column:
                parts.chart(analysis, name)
    parts.chart(analysis, "blame")
    st.subheader("Causes")
    parts.markup(html.findings_part(summary(analysis), findings(analysis)))
    for name in ("ranks", "waits", "blame", "pace"):
        parts.measure(analysis, name)
