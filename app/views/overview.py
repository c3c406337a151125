"""The verdict first: how long a step is, where it goes, what is wrong and what that costs."""

from __future__ import annotations

import streamlit as st

from tracekit.analysis import Analysis
from tracekit.report import html
from tracekit.report.overview import overview

from .. import opening, parts

TITLE, ORDER = "Overview", 1


def show(analysis: Analysis) -> None:
    """The page."""
    opening.diagnosed(analysis)
    told = overview(analysis)
    parts.markup(html.verdict_part(told))
    st.subheader("Findings")
    parts.markup(html.findings_part(told.summary, told.findings))
    parts.markup(html.told_part(told.told))
    left, right = st.columns(2)
    with left:
        parts.chart(analysis, "breakdown")
    with right:
        parts.chart(analysis, "whatif")
    st.subheader("Ranks, mean step, the most time of its own first")
    if told.ranks:
        parts.markup(html.table_part(told.ranks))
    else:
        parts.absent("no step is complete, so there is nothing to average")
    st.subheader("Health: notes on reading")
    parts.markup(html.notes_part(told.notes, told.absent))
    parts.measure(analysis, "breakdown")
