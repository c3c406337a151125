"""How much communication runs under compute, and which does not."""

from __future__ import annotations

import streamlit as st

from tracekit.analysis import Analysis

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
    for name in ("overlap", "exposed", "overlap_group", "overlap_operation"):
        parts.measure(analysis, name)
