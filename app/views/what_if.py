"""What the step would take if this or that were mended, by replaying the job."""

from __future__ import annotations

import streamlit as st

from tracekit.analysis import Analysis
from tracekit.replay.change import all_changes, together
from tracekit.replay.replay import TRUSTED_FRAC
from tracekit.replay.whatif import what_if
from tracekit.wording import duration, percent

from .. import parts

TITLE, ORDER = "What if", 7


def show(analysis: Analysis) -> None:
    """The page."""
    with st.spinner("replaying"):
        told = analysis.whatif
    columns = st.columns(4)
    columns[0].metric("Step, replayed", duration(told.step_ns))
    columns[1].metric("Replay is off by", f"{100 * told.replay_error_frac:.2f} %")
    columns[2].metric("Ideal step", duration(told.ideal_step_ns))
    columns[3].metric("Slowdown", f"{told.slowdown:.3f}")
    if not told.trusted:
        doubts = f"the replay is more than {TRUSTED_FRAC:.0%} off: {'; '.join(told.doubts)}"
        parts.absent(doubts, "Not to be trusted for this run")
    _toggles(analysis)
    left, right = st.columns(2)
    with left:
        parts.chart(analysis, "whatif")
    with right:
        parts.chart(analysis, "path")
    for name, rows in (("changes", told.changes), ("by_rank", told.by_rank), ("by_class", told.by_class)):
        parts.folded(f"{name.replace('_', ' ')} ({len(rows)} rows)", name, rows)


def _toggles(analysis: Analysis) -> None:
    """Fixes to switch on, and the step with all of them."""
    changes = {change.what: change for change in all_changes(analysis.replay)}
    chosen = st.multiselect("Mend", list(changes), key="mend", bind="query-params")
    if not chosen:
        st.caption("Choose what to mend, several at once too.")
        return
    both = together(analysis.replay, [changes[one] for one in chosen])
    if both is None:
        parts.absent("two of these set the durations of one rank: choose one of them", "Not together")
        return
    mended = what_if(analysis.replay, analysis, [both]).changes.iloc[0]
    saved = f"{duration(mended['saved_ns'])} saved ({percent(mended['saved_ns'], analysis.whatif.step_ns)})"
    st.metric("Step with these mended", duration(mended["step_ns"]), saved, delta_color="off", delta_arrow="off")
