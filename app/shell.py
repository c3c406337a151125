"""The frame around the pages: which run, which page, and the address that keeps both."""

from __future__ import annotations

import importlib.util
import os
import pkgutil
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

import streamlit as st

from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured, TracekitError
from tracekit.measures.layout import shape
from tracekit.report.account import facts
from tracekit.wording import counted, plain

from . import opening, parts, runs, views

MOST_UPLOAD_BYTES = 4 << 30
UPLOADED = "uploaded files"
STYLE = """<style>
[data-testid="stMainBlockContainer"] { padding-top: 2.5rem; }
@media (max-width: 1200px) {
  [data-testid="stHorizontalBlock"] { flex-wrap: wrap; }
  [data-testid="stColumn"] { flex: 1 1 10rem; min-width: min(100%, 10rem); }
  [data-testid="stColumn"]:has([data-testid="stPlotlyChart"], .tk-absent) { min-width: min(100%, 26rem); }
}</style>"""
"""Less room above; columns stand below one another where they would be too narrow."""
SUFFIXES = ["json", "gz", "zst", "zip", "tar", "tgz", "bz2", "xz"]


def main() -> None:
    """The whole application."""
    st.set_page_config(page_title="tracekit", layout="wide", page_icon="⏱️")
    st.html(STYLE)
    page = st.navigation([_page(view) for view in all_views()], expanded=True)
    with st.sidebar:
        st.session_state["path"] = _chosen()
        about = st.empty()
    page.run()
    with about:
        _about(st.session_state["path"])


def all_views() -> list[ModuleType]:
    """The pages in their order: every file in `views` is one, if what it needs is installed."""
    found = (importlib.import_module(f"{views.__name__}.{one.name}") for one in pkgutil.iter_modules(views.__path__))
    return sorted(filter(_possible, found), key=lambda view: int(view.ORDER))


def _possible(view: ModuleType) -> bool:
    needed = getattr(view, "NEEDS", "")
    return not needed or importlib.util.find_spec(needed) is not None


def _page(view: ModuleType) -> st.Page:
    name = view.__name__.rsplit(".", 1)[-1]

    def page() -> None:
        st.title(view.TITLE)
        _show(view, st.session_state["path"])

    return st.Page(page, title=view.TITLE, url_path=name.replace("_", "-"), default=view.ORDER == 1)


def _show(view: ModuleType, path: Path | None) -> None:
    alone = getattr(view, "ALONE", False)
    try:
        analysis = None if path is None or alone else opening.opened(path)
    except TracekitError as why:
        parts.failed(why)
        return
    if analysis is None and not alone:
        parts.absent("Choose a run on the left, or upload the traces of one.", "No run")
        return
    guarded(view, analysis)


def guarded(view: ModuleType, analysis: Analysis | None) -> None:
    """The page, or the sentence that says why there is none."""
    try:
        view.show(analysis)
    except NotMeasured as why:
        parts.absent(str(why))
    except TracekitError as why:
        parts.failed(why)


def _chosen() -> Path | None:
    """The run that is chosen, below the root or uploaded."""
    below = runs.root()
    known = {run.name: run for run in opening.found_runs(str(below))}
    asked = st.query_params.get("run") or st.session_state.get("run") or os.environ.get(runs.CHOSEN, "")
    folder = _uploaded()
    asked = UPLOADED if folder and st.session_state.pop("just_uploaded", False) else asked
    names = [*([UPLOADED] if folder else []), *known]
    names += [asked] if asked and asked not in (*known, UPLOADED) else []
    if not names:
        st.caption("There is no run below the root folder.")
        return None
    index = names.index(asked) if asked in names else 0
    chosen = st.selectbox("Run", names, index=index, format_func=lambda name: _words(name, known))
    st.session_state["run"] = chosen
    st.query_params["run"] = chosen
    if chosen == UPLOADED:
        return folder
    try:
        return runs.path_of(below, chosen)
    except TracekitError as why:
        parts.failed(why)
        return None


def _words(name: str, known: dict[str, runs.Found]) -> str:
    return plain(known[name].words if name in known else name, 100)


def _about(path: Path | None) -> None:
    """World size and layout of the run, once it is read."""
    held = None if path is None else opening.shelf().get(path)
    if held is None:
        return
    told = facts(held.run)
    try:
        layout = shape(held["layout"])
    except NotMeasured:
        layout = ""
    words = [counted(told.world_size or len(told.ranks), "rank"), layout, counted(told.steps, "step")]
    parts.text(", ".join(word for word in words if word))


def _uploaded() -> Path | None:
    """A folder of this session's with the files that were uploaded, or None."""
    with st.expander("Upload traces"):
        files = st.file_uploader(
            "Trace files of all ranks, or an archive", accept_multiple_files=True, type=SUFFIXES, key="upload"
        )
    if not files:
        return None
    if sum(file.size for file in files) > MOST_UPLOAD_BYTES:
        parts.absent(f"more than {MOST_UPLOAD_BYTES >> 30} GiB in all", "Too large")
        return None
    names = sorted((file.file_id, file.name) for file in files)
    if st.session_state.get("upload_names") != names:
        held = TemporaryDirectory(prefix="tracekit-upload-")
        for nth, file in enumerate(files):
            Path(held.name, _safe_name(file.name, nth)).write_bytes(file.getbuffer())
        st.session_state["upload_folder"], st.session_state["upload_names"] = held, names
        st.session_state["just_uploaded"] = True
    folder: TemporaryDirectory[str] = st.session_state["upload_folder"]
    return Path(folder.name)


def _safe_name(name: str, nth: int) -> str:
    """A file's own name without what could lead elsewhere; no two are alike."""
    plain_name = re.sub(r"[^\w.\-]", "_", Path(name).name).lstrip(".")[-120:]
    return f"{nth:04d}_{plain_name or 'file.json'}"
