"""Forwards and backwards of each stage, the bubble, and what more micro-batches would bring."""

from __future__ import annotations

import streamlit as st

from tracekit.analysis import Analysis
from tracekit.report.figures import gantt, steps_of
from tracekit.report.html import TITLES
from tracekit.report.job import SENTENCES

from .. import parts

TITLE, ORDER = "Pipeline", 5


def show(analysis: Analysis) -> None:
    """The page."""
    parts.text(SENTENCES["bubble"](analysis))
    steps = steps_of(analysis.run)
    step = st.selectbox("Step", steps, key="step", bind="query-params")
    parts.draw(*TITLES["pipeline"], lambda: gantt(analysis, step), "pipeline")
    left, right = st.columns(2)
    with left:
        parts.chart(analysis, "phases")
    with right:
        parts.chart(analysis, "bubble")
    st.markdown("##### With twice the micro-batches")
    changes = analysis.whatif.changes
    more = changes[changes["what"] == "microbatches:2x"]
    if len(more):
        parts.table(more, "more_microbatches")
    else:
        parts.absent("the schedule is not known, so theory does not say what more micro-batches would bring")
    for name in ("pipeline", "stages", "microbatches"):
        parts.measure(analysis, name)
