"""A run as one HTML file that opens anywhere, without network; and the parts of it that the app shows too.

Text from traces is escaped by jinja2 in the page and by `charts.label` in figures. The page allows only its own scripts
(by a nonce), so that even what slipped through could not run.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from tracekit import __version__, charts
from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured
from tracekit.report.figures import figure
from tracekit.report.overview import Overview, Table, Told, overview
from tracekit.wording import sentence

SECTIONS = {
    "Where the step goes": ("breakdown", "steps", "overlap", "exposed", "idle", "stalls"),
    "Who waits for whom": ("own", "waits", "own_grid", "waits_grid", "blame"),
    "Pipeline": ("pipeline", "phases", "bubble"),
    "Communication": ("bandwidth", "sizes", "volume", "matrix", "link_speeds"),
    "What mending would buy": ("whatif", "path"),
    "Memory and kernels": ("memory", "launch_delay", "kernels"),
}
TITLES = {
    "breakdown": ("Mean step of each rank", "Compute, communication and copies that nothing hides, idle; they sum."),
    "steps": ("Each step, mean over the ranks", "Are some steps longer than others, and by what?"),
    "overlap": ("Communication, hidden and exposed", "How much communication runs under compute?"),
    "exposed": ("Exposed communication by axis", "Which parallel axis (or operation, where none is known) waits?"),
    "idle": ("Idle time by cause", "Why has the device nothing to do?"),
    "stalls": ("What the host did meanwhile", "Data loading, garbage collection, synchronising, Python."),
    "own": ("Own time per rank and step", "Bright: the rank that the others wait for."),
    "waits": ("Waits per rank and step", "Bright: the rank waits for others; a straggler stays dark."),
    "own_grid": ("Own time, as the ranks are laid out", "Is it one rank, a whole stage, or a whole replica?"),
    "waits_grid": ("Waits, as the ranks are laid out", "Dark: what the others wait for."),
    "blame": ("Who makes whom wait", "Exposed waits of a rank (row), charged to the rank that caused them (column)."),
    "pipeline": ("Forwards and backwards of one step", "Which rank computes which micro-batch when?"),
    "phases": ("Busy and bubble of each rank", "Where in the step do stages idle?"),
    "bubble": ("The bubble by cause", "What the schedule must leave idle, and what comes on top."),
    "bandwidth": ("Achieved bandwidth by message size", "Small messages are bound by latency."),
    "sizes": ("Message sizes", "Many small calls?"),
    "matrix": ("Bytes from rank to rank", "As sends and receives tell them; collectives are not in it."),
    "link_speeds": ("Bandwidth from rank to rank", "Bytes over transfer times of sends; dark: a slow link."),
    "volume": ("Volume beside theory", "What a rank's calls hold in a step, and what a ring would send for it."),
    "whatif": ("Saved per step if mended", "By replaying the job with that changed."),
    "path": ("The critical path", "What a step's length is made of."),
    "memory": ("Peak memory of each rank", "What tensors held, and what the allocator reserved beyond it."),
    "memory_steps": ("Peak memory per rank and step", "Does memory grow?"),
    "launch_delay": ("Launch delay", "From the launching call to the start; near 0: the device waits for the host."),
    "kernels": ("Kernels that take the most time", "Which kernels (or operators) to look at first?"),
}
"""Each figure's title and the question it answers."""


@dataclass(frozen=True)
class Shown:
    """A figure as JSON, or why there is none."""

    name: str
    title: str
    question: str
    json: Markup
    why: str


@dataclass(frozen=True)
class Section:
    """Figures under one heading."""

    title: str
    anchor: str
    shown: tuple[Shown, ...]


def html_text(analysis: Analysis) -> str:
    """The whole page."""
    return _templates().get_template("report.html").render(
        told=overview(analysis), sections=list(_sections(analysis)), style=Markup(style()), version=__version__,
        plotly=Markup(get_plotlyjs()), nonce=secrets.token_urlsafe(16),
    )  # fmt: skip


def style() -> str:
    """The style sheet of the parts."""
    return resources.files("tracekit.report").joinpath("templates/style.css").read_text(encoding="utf-8")


def verdict_part(told: Overview) -> str:
    """How long a step is and where it goes, and what was read, as HTML, escaped."""
    return _part("verdict", told)


def findings_part(summary: str, found: tuple[Told, ...]) -> str:
    """The findings as HTML, their text escaped."""
    return _part("findings", summary, found)


def table_part(rows: Table) -> str:
    """A table of text as HTML, escaped."""
    return _part("table", rows)


def told_part(lines: dict[str, str]) -> str:
    """Labelled sentences as HTML, escaped."""
    return _part("told", lines)


def notes_part(notes: tuple[tuple[str, str], ...], absent: dict[str, str]) -> str:
    """Notes, and what is not measured, as HTML, escaped."""
    return _part("notes", notes, absent)


def _part(name: str, *values: object) -> str:
    module = _templates().get_template("parts.html").module
    return str(getattr(module, name)(*values))


def _sections(analysis: Analysis) -> Iterator[Section]:
    for title, names in SECTIONS.items():
        anchor = title.lower().replace(" ", "-")
        yield Section(title, anchor, tuple(_shown(analysis, name) for name in names))


def _shown(analysis: Analysis, name: str) -> Shown:
    title, question = TITLES[name]
    try:
        return Shown(name, title, question, Markup(charts.figure_json(figure(analysis, name))), "")
    except NotMeasured as why:
        return Shown(name, title, question, Markup(""), sentence(str(why)))


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("tracekit.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
