"""All ranks on one clock, from the whole run to single kernels.

Streamlit does not tell how far a figure is zoomed, so a window is chosen by a box drawn in it, by a step, or by
numbers; what stands in it is fetched anew, in a bounded number of bars.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import streamlit as st

from tracekit.analysis import Analysis
from tracekit.model import Run, listed
from tracekit.report import html
from tracekit.report.figures import steps_of
from tracekit.report.window import Timeline, member_rows
from tracekit.wording import plain

from .. import parts

TITLE, ORDER = "Timeline", 2
RANKS = 16
"""So many ranks are shown unless others are chosen."""
LEAST_MS = 1e-3

_timelines: WeakKeyDictionary[Run, Timeline] = WeakKeyDictionary()


def show(analysis: Analysis) -> None:
    """The page."""
    timeline = _timelines.setdefault(analysis.run, Timeline(analysis.run))
    from_ms, to_ms = _window(analysis, timeline)
    held = timeline.ranks
    ranks = st.multiselect("Ranks", held, default=held[:RANKS], key="ranks", bind="query-params")
    if len(held) > len(ranks):
        st.caption(f"{len(ranks)} of {len(held)} ranks are shown; the run has {listed(held)}.")
    if not ranks:
        parts.absent("choose at least one rank", "No rank")
        return
    start = timeline.start_ns
    picked = parts.draw(
        "Work of each rank", "Box select, above the figure, looks closer; a click on a call shows its other members.",
        lambda: timeline.figure(start + round(from_ms * 1e6), start + round(to_ms * 1e6), sorted(ranks)),
        f"timeline-{from_ms}-{to_ms}-{'-'.join(map(str, ranks))}", on_select="rerun", selection_mode=("points", "box"),
    )  # fmt: skip
    if picked is not None:
        _selected(timeline, picked["selection"])


def _window(analysis: Analysis, timeline: Timeline) -> tuple[float, float]:
    """From when to when, in milliseconds from the run's start; kept in the page's address."""
    whole_ms = (timeline.end_ns - timeline.start_ns) / 1e6
    asked = st.session_state.pop("window", None)
    if asked is not None:
        st.session_state["from"], st.session_state["to"] = asked
    columns = st.columns([2, 2, 2, 1, 1], vertical_alignment="bottom")
    limits = {"min_value": 0.0, "max_value": whole_ms, "step": None, "format": "%.6g", "bind": "query-params"}
    from_ms = columns[0].number_input("From, ms", value=0.0, key="from", **limits)
    to_ms = columns[1].number_input("To, ms", value=whole_ms, key="to", **limits)
    steps = steps_of(analysis.run)
    step = columns[2].selectbox("Step", steps, index=None, placeholder="choose", key="timeline_step")
    columns[3].button("Show step", on_click=_to_step, args=(analysis, timeline, step), disabled=step is None)
    columns[4].button("Whole run", on_click=_to, args=(0.0, whole_ms))
    if to_ms - from_ms < LEAST_MS:
        parts.absent("the window ends before it begins: the whole run is shown", "No such window")
        return 0.0, whole_ms
    return from_ms, to_ms


def _to(from_ms: float, to_ms: float) -> None:
    st.session_state["window"] = from_ms, to_ms


def _to_step(analysis: Analysis, timeline: Timeline, step: int) -> None:
    steps = analysis.run.steps[analysis.run.steps["step"] == step]
    start = timeline.start_ns
    _to(max(0.0, (int(steps["start_ns"].min()) - start) / 1e6), (int(steps["end_ns"].max()) - start) / 1e6)


def _selected(timeline: Timeline, selection: Any) -> None:
    """A box is the next window, a call shows its members."""
    for box in selection.get("box", []):
        ends = sorted(float(one) for one in box["x"][:2])
        if ends[1] - ends[0] > LEAST_MS:
            _to(max(0.0, ends[0]), min(ends[1], (timeline.end_ns - timeline.start_ns) / 1e6))
            st.rerun()
    matches = [int(point["customdata"][1]) for point in selection.get("points", []) if "customdata" in point]
    for match in [one for one in dict.fromkeys(matches) if one >= 0][:3]:
        members = timeline.peers(match)
        st.markdown("##### The members of this call")
        parts.text(f"{plain(str(members['group'].iloc[0]), 80)}, {plain(str(members['op'].iloc[0]), 40)}")
        parts.markup(html.table_part(member_rows(members, timeline.start_ns)))
        parts.folded(f"members ({len(members)} rows)", f"call_{match}", members)
