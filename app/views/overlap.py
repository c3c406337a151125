"""How much communication runs under compute, and which does not."""

from __future__ import annotations

import streamlit as st

from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured
from tracekit.report import html
from tracekit.report.exposed_calls import longest

from .. import parts

TITLE, ORDER = "Overlap", 3


def show(analysis: Analysis) -> None:
    """The page."""
    left, right = st.columns(2)
    with left:
        parts.chart(analysis, "overlap")
    with right:
        parts.chart(analysis, "exposed")
    parts.chart(analysis, "steps")
    st.markdown("##### The calls that are exposed the longest")
    try:
        calls = analysis["exposed_calls"]
        parts.markup(html.table_part(longest(calls)))
        parts.folded(f"exposed calls ({len(calls)} rows)", "exposed_calls", calls)
    except NotMeasured as why:
        parts.absent(str(why))
    for name in ("overlap", "exposed", "overlap_group", "overlap_operation"):
        parts.measure(analysis, name)
