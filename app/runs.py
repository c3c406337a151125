"""The runs below the root folder: found, named, opened. Nothing outside the root is ever read."""

from __future__ import annotations

import os
import re
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

from tracekit.analysis import Analysis, measure_names
from tracekit.errors import NotMeasured, TracekitError, WrongUse
from tracekit.gate.history import is_history
from tracekit.kept import analysis_of, keep
from tracekit.plan.described import RUN_FILE, described_run, run_file
from tracekit.read.load import load
from tracekit.read.sources import ARCHIVE_SUFFIXES, TRACE_SUFFIXES

ROOT, CHOSEN = "TRACEKIT_APP_ROOT", "TRACEKIT_APP_RUN"
"""Environment variables by which `tracekit app` says where runs are, and which one to open first."""
DEEPEST, MOST_FOLDERS, MOST_RUNS = 6, 20_000, 500
KEPT = 4
"""So many runs stay open."""
NO_TRACES = (RUN_FILE, "truth.json", "collectives.json", "package.json")
HEAD_BYTES = 1 << 16
UNTOLD = "world size not told before reading"
_WORLD_SIZE = re.compile(rb'"world_size"\s*:\s*(\d{1,7})\b')
HIDDEN = (".", "__pycache__", "node_modules")
NO_PATH = (OSError, RuntimeError, ValueError)
"""What a path raises of links in a circle, names too long, and names with a zero byte."""

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Found:
    """A run below the root: its name there, its trace files, when the newest changed, what it says of itself."""

    name: str
    files: int
    changed: datetime
    about: str

    @property
    def words(self) -> str:
        """As it stands in the list."""
        files = f"{self.files} file{'' if self.files == 1 else 's'}"
        return " · ".join((self.name, files, f"{self.changed:%Y-%m-%d %H:%M}", self.about or UNTOLD))


def root() -> Path:
    """The folder below which runs are."""
    return Path(os.environ.get(ROOT) or ".").resolve()


def found(below: Path) -> list[Found]:
    """The runs below a folder, the newest first; a folder that holds traces, or an archive, is a run."""
    runs = [run for folder, files in _folders(below) for run in _of_folder(below, folder, files)]
    return sorted(runs, key=lambda run: run.changed, reverse=True)[:MOST_RUNS]


def histories(below: Path) -> list[str]:
    """Folders of saved summaries below a folder, by name."""
    return [_name(below, folder) for folder, files in _folders(below) if files and is_history(folder)]


def _folders(below: Path) -> Iterator[tuple[Path, list[str]]]:
    """Folders with their plain files; links to folders are not followed, nor those of files that lead out."""
    for nth, (place, folders, files) in enumerate(os.walk(below)):
        folder = Path(place)
        depth = len(folder.relative_to(below).parts)
        folders[:] = sorted(one for one in folders if not one.startswith(HIDDEN)) if depth < DEEPEST else []
        yield folder, [one for one in files if (folder / one).is_file() and stays(below, folder / one)]
        if nth >= MOST_FOLDERS:
            return


def _of_folder(below: Path, folder: Path, files: list[str]) -> Iterator[Found]:
    traces = [one for one in files if one.lower().endswith(TRACE_SUFFIXES) and one not in NO_TRACES]
    if traces and not is_history(folder):
        changed = _changed(folder / one for one in traces)
        yield Found(_name(below, folder), len(traces), changed, _about(folder, files, traces[0]))
    for one in files:
        if one.lower().endswith(ARCHIVE_SUFFIXES):
            yield Found(_name(below, folder / one), 1, _changed([folder / one]), "archive")


def _name(below: Path, path: Path) -> str:
    return path.relative_to(below).as_posix()


def _changed(files: Iterator[Path] | list[Path]) -> datetime:
    times = [file.lstat().st_mtime for file in files]
    return datetime.fromtimestamp(max(times))


def _about(folder: Path, files: list[str], first: str) -> str:
    """World size and layout, where a run.json of a reference workload tells them; else what a trace begins with."""
    try:
        told = run_file(str(folder)) if RUN_FILE in files else None
        layout = described_run(told).layout if told is not None else None
    except (TracekitError, OSError, msgspec.MsgspecError):
        layout = None
    if layout is None:
        return _begins_with(folder / first)
    sizes = {"dp": layout.data, "pp": layout.pipeline, "tp": layout.tensor, "cp": layout.context}
    axes = " × ".join(f"{name} {size}" for name, size in sizes.items() if size > 1)
    return f"{layout.ranks} ranks{', ' + axes if axes else ''}"


def _begins_with(trace: Path) -> str:
    """The world size, which today's traces tell before their first event."""
    try:
        with trace.open("rb") as file:
            head = file.read(HEAD_BYTES)
        if head.startswith(b"\x1f\x8b"):
            head = zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES)
    except (OSError, zlib.error):
        return ""
    found = _WORLD_SIZE.search(head)
    return f"{int(found[1])} ranks" if found else ""


def path_of(below: Path, name: str) -> Path:
    """The path of a run by its name; WrongUse for whatever is not below the folder, or leads out of it."""
    try:
        path = (below / name).resolve()
        known = below in (path, *path.parents) and "::" not in name and "://" not in name and path.exists()
    except NO_PATH:
        known = False
    if not known:
        raise WrongUse("there is no such run below the root folder")
    _check_links(below, path)
    return path


def _check_links(below: Path, top: Path) -> None:
    """WrongUse where a link in a run, or in a folder that it links to, leads out of the root, or in a circle."""
    waiting, held = [str(top)], set()
    for one in waiting:  # which grows meanwhile
        for place, folders, files in os.walk(one):
            if place in held:
                raise WrongUse("a link in this run leads to a folder that it holds already, so it is not read")
            held.add(place)
            links = [Path(place, name) for name in (*folders, *files) if os.path.islink(os.path.join(place, name))]
            if not all(stays(below, link) for link in links):
                raise WrongUse("a link in this run leads out of the root folder, so it is not read")
            waiting += [str(link.resolve()) for link in links if link.is_dir()]


def stays(below: Path, path: Path) -> bool:
    """Whether a path is no link, or one to what is below the root folder."""
    try:
        return not path.is_symlink() or below in path.resolve().parents
    except NO_PATH:
        return False


class Shelf:
    """The runs that are open, the ones used last; shared by all sessions."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, Analysis] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, path: Path) -> Analysis | None:
        """The run, if it is open and its files are as they were."""
        key = _key(path)
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
            return self._held.get(key)

    def opened(self, path: Path, progress: Progress) -> Analysis:
        """The run, read; what interrupts `progress` cancels that."""
        held = self.get(path)
        if held is not None:
            return held
        analysis = analysis_of(load(str(path), progress=lambda done, of, _: progress("reading ranks", done, of)))
        with self._lock:
            self._held[_key(path)] = analysis
            while len(self._held) > KEPT:
                self._held.popitem(last=False)
        return analysis


def diagnosed(analysis: Analysis, progress: Progress) -> None:
    """Has all measures, findings and what-ifs computed and kept; what interrupts `progress` leaves what is done."""
    names = measure_names()
    for done, name in enumerate(names):
        progress("measuring", done, len(names))
        with suppress(NotMeasured):
            analysis[name]
    progress("diagnosing", len(names), len(names))
    _ = analysis.findings
    progress("replaying", len(names), len(names))
    with suppress(NotMeasured):
        _ = analysis.whatif
    keep(analysis, names)


def _key(path: Path) -> str:
    """The path with what changes when its files do."""
    files = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    stats = [one.stat() for one in files]
    return (
        f"{path}|{len(files)}|{max((one.st_mtime_ns for one in stats), default=0)}|{sum(one.st_size for one in stats)}"
    )
