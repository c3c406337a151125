"""Two runs side by side: what changed, in parts that add up."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from tracekit import charts
from tracekit.analysis import Analysis
from tracekit.compare import account_of, difference
from tracekit.report.difference_text import KIND_NAMES
from tracekit.wording import duration, kernel_name, plain

from .. import opening, parts

TITLE, ORDER = "Compare", 11
ROWS = 20


def show(analysis: Analysis) -> None:
    """The page."""
    base = opening.other_run("Base run, to compare this one with", "base")
    if base is None:
        parts.absent("Choose the run to compare with.", "No base run")
        return
    changed = difference(account_of(base), account_of(analysis))
    columns = st.columns(3)
    columns[0].metric("Step of the base", duration(changed.base.step_ns))
    columns[1].metric("Step of this run", duration(changed.new.step_ns))
    columns[2].metric("Changed by", f"{changed.changed_ns / 1e6:+,.3f} ms")
    kinds = {KIND_NAMES[kind]: ns for kind, ns in changed.by_kind().items()}
    parts.draw("By kind of time", "Parts that add up to the difference of the steps.",
               lambda: charts.bars(kinds, list(kinds.values()), "ns", "change per step"), "compare-kinds")  # fmt: skip
    largest = changed.parts[:ROWS]
    names = [kernel_name(part.name, 48) for part in largest]
    parts.draw("Largest changes", "Kernels, calls, copies and causes of idling.",
               lambda: charts.bars(names, [part.changed_ns for part in largest], "ns", "change per step",
                                   [part.kind for part in largest]), "compare-parts")  # fmt: skip
    rows = [
        (
            part.kind,
            plain(part.name),
            part.how,
            part.base.calls,
            part.new.calls,
            part.base.ns,
            part.new.ns,
            part.changed_ns,
        )
        for part in changed.parts
    ]
    names = ["kind", "name", "how", "base_calls", "new_calls", "base_ns", "new_ns", "changed_ns"]
    parts.table(pd.DataFrame(rows, columns=names), "compare")
