"""How much memory each rank needs at its peak, beside the plan's arithmetic where the model is known."""

from __future__ import annotations

import streamlit as st

from tracekit import charts
from tracekit.analysis import Analysis
from tracekit.plan.described import described_run, run_file
from tracekit.plan.memory import peak
from tracekit.report.figures import figure
from tracekit.report.html import TITLES
from tracekit.wording import size

from .. import parts, runs

TITLE, ORDER = "Memory", 8


def show(analysis: Analysis) -> None:
    """The page."""
    planned = _planned(analysis)
    parts.draw(*TITLES["memory"], lambda: _beside(analysis, planned), "memory")
    if planned is None:
        parts.absent("no run.json beside the traces tells the model and its layout", "No plan to set beside it")
    else:
        st.caption(f"By the plan's arithmetic the fullest rank needs {size(planned)} (dashed).")
    parts.chart(analysis, "memory_steps")
    parts.measure(analysis, "memory")


def _planned(analysis: Analysis) -> float | None:
    known = run_file(analysis.run.path)
    if known is None or not runs.stays(runs.root(), known):
        return None
    told = described_run(known)
    return peak(told.model, told.layout, told.precision).total


def _beside(analysis: Analysis, planned: float | None) -> charts.Figure:
    shown = figure(analysis, "memory")
    if planned is not None:
        factor, _ = charts.scale(float(analysis["memory"]["peak_reserved_bytes"].max()), "bytes")
        shown.add_hline(y=planned / factor, line={"dash": "dash", "color": charts.INK}, annotation_text="planned")
    return shown
