"""What collectives cost, how fast they run, and how much goes from where to where."""

from __future__ import annotations

import streamlit as st

from tracekit import charts
from tracekit.analysis import Analysis
from tracekit.report.html import TITLES

from .. import parts

TITLE, ORDER = "Communication", 4


def show(analysis: Analysis) -> None:
    """The page."""
    expected = st.number_input(
        "Expected bus bandwidth, GB/s (0: no line)", 0.0, 10_000.0, 0.0, key="expected", bind="query-params"
    )
    parts.draw(*TITLES["bandwidth"], lambda: charts.bandwidth(analysis["bandwidth"], expected or None), "bandwidth")
    for pair in (("sizes", "volume"), ("matrix", "link_speeds")):
        for column, name in zip(st.columns(2), pair, strict=True):
            with column:
                parts.chart(analysis, name)
    for name in ("collectives", "bandwidth", "volume", "links"):
        parts.measure(analysis, name)
