"""Gate records over commits: how metrics developed, where they stepped."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from tracekit import charts
from tracekit.analysis import Analysis
from tracekit.gate.history import History, read_history, step_changes, values_of
from tracekit.report.gate_wording import metric_name, value
from tracekit.wording import plain

from .. import parts, runs

TITLE, ORDER, ALONE = "History", 12, True


def show(_: Analysis | None) -> None:
    """The page."""
    below = runs.root()
    folders = runs.histories(below)
    if not folders:
        parts.absent(
            "no folder below the root holds summaries; tracekit check RUN --save FOLDER makes them", "No history"
        )
        return
    folder = st.selectbox(
        "History", folders, format_func=lambda name: plain(name, 80), key="history", bind="query-params"
    )
    held = read_history(runs.path_of(below, folder))
    for why in held.unread:
        parts.absent(why, "Not read")
    known = sorted({name for one in held.summaries for name in one.metrics})
    metric = st.selectbox("Metric", known, format_func=metric_name, key="metric", bind="query-params")
    unit = next(one.metrics[metric].unit for one in held.summaries if metric in one.metrics)
    rows = pd.DataFrame(
        [(at, mean, metric_name(metric)) for at, mean in values_of(held.summaries, metric)],
        columns=["run", "mean", "metric"],
    )
    parts.draw(metric_name(metric), "One mark per saved run, the latest last.",
               lambda: charts.lines(rows, "run", "mean", "metric", unit, metric_name(metric)), "history")  # fmt: skip
    for change in step_changes(held.summaries, metric):
        moved = f"{value(unit, change.from_value)} → {value(unit, change.to_value)}"
        parts.text(f"stepped at run {change.at}, commit {change.commit[:9] or 'unknown'}: {moved}")
    parts.table(_runs(held), "history")


def _runs(held: History) -> pd.DataFrame:
    rows = [(one.saved_at, one.commit, one.label, one.steps) for one in held.summaries]
    return pd.DataFrame(rows, columns=["saved_at", "commit", "label", "steps"])
