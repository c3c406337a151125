"""Opening a run: once for all sessions, with its progress and a way to end it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from weakref import WeakSet

import streamlit as st

from tracekit.analysis import Analysis
from tracekit.errors import TracekitError
from tracekit.wording import plain

from . import parts, runs

Made = TypeVar("Made")


@st.cache_resource
def shelf() -> runs.Shelf:
    return runs.Shelf()


@st.cache_data(ttl=20, show_spinner=False)
def found_runs(below: str) -> list[runs.Found]:
    return runs.found(Path(below))


def opened(path: Path) -> Analysis:
    """The run; while it is read, how far that is, and a button that ends it, which leaves the page."""
    held = shelf().get(path)
    return held if held is not None else _followed(str(path), lambda follow: shelf().opened(path, follow))


def diagnosed(analysis: Analysis) -> Analysis:
    """The run with its measures and findings computed, with progress and a button as well."""
    done = _diagnosed()
    if not analysis.answered and analysis not in done:
        _followed("diagnosis", lambda follow: runs.diagnosed(analysis, follow))
        done.add(analysis)
    return analysis


@st.cache_resource
def _diagnosed() -> WeakSet[Analysis]:
    return WeakSet()


def _followed(key: str, work: Callable[[runs.Progress], Made]) -> Made:
    if st.session_state.get("cancelled") == key:
        parts.absent("This was cancelled.", "Cancelled")
        st.button("Go on", on_click=st.session_state.pop, args=("cancelled",), key=f"go-on-{key}")
        st.stop()
    place = st.empty()
    with place.container():
        bar = st.progress(0.0, "reading")
        st.button("Cancel", on_click=_cancel, args=(key,), key=f"cancel-{key}")

    def follow(what: str, done: int, of: int) -> None:
        bar.progress(min(done / max(of, 1), 1.0), f"{what}, {done} of {of}")

    made = work(follow)
    place.empty()
    return made


def _cancel(key: str) -> None:
    st.session_state["cancelled"] = key


def other_run(label: str, key: str) -> Analysis | None:
    """A second run below the root, chosen from a list and kept in the page's address."""
    below = runs.root()
    known = {run.name: run.words for run in found_runs(str(below))}
    name = st.selectbox(
        label, list(known), index=None, format_func=lambda one: plain(known.get(one, one), 100), key=key,
        bind="query-params", placeholder="choose a run",
    )  # fmt: skip
    if name is None:
        return None
    try:
        return opened(runs.path_of(below, name))
    except TracekitError as why:
        parts.failed(why)
        return None
