"""Whether the host keeps the device supplied, and what it does instead."""

from __future__ import annotations

import streamlit as st

from tracekit.analysis import Analysis

from .. import parts

TITLE, ORDER = "Host", 9


def show(analysis: Analysis) -> None:
    """The page."""
    left, right = st.columns(2)
    with left:
        parts.chart(analysis, "idle")
    with right:
        parts.chart(analysis, "stalls")
    parts.chart(analysis, "launch_delay")
    for name in ("host", "idle", "stalls", "copies"):
        parts.measure(analysis, name)
