"""The screen of `tracekit analyze`: an account that reads in ten seconds, at any width, with colour or without."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured
from tracekit.model import listed
from tracekit.report.account import Facts, NoteGroup, facts, not_measured, notes_by_code
from tracekit.report.findings import GRAVITY, findings_section
from tracekit.report.job import job_section
from tracekit.report.rank_table import rank_section, step_section
from tracekit.report.screen import screen_text
from tracekit.report.sentences import detail_section, kernel_section
from tracekit.wording import counted, plain, sentence

PLURAL = {"error": "errors", "warning": "warnings", "info": "info"}


def account_text(analysis: Analysis, *, width: int = 80, colour: bool = False) -> str:
    """The whole screen as text of at most `width` columns."""
    return screen_text(_screen(analysis, width), width=width, colour=colour)


def _screen(analysis: Analysis, width: int) -> Iterator[RenderableType]:
    """The sections in reading order; one whose measure the run has no input for is left to the last but one."""
    read = facts(analysis.run)
    yield Group(Text(plain(read.path), style="bold"), Text(facts_line(read)))
    ranks, kernels = partial(rank_section, width=width), partial(kernel_section, width=width)
    for section in (step_section, job_section, ranks, detail_section, kernels):
        try:
            parts = list(section(analysis))
        except NotMeasured:
            continue
        if parts:
            yield from ("", *parts)
    yield from _absent(not_measured(analysis))
    yield from _notes(notes_by_code(analysis.run))
    yield from ("", *findings_section(analysis))


def facts_line(read: Facts) -> str:
    """What was read, in one line."""
    of_world = f" of {read.world_size:,}" if read.world_size is not None else ""
    told = [
        counted(read.files, "file"),
        f"{'rank' if len(read.ranks) == 1 else 'ranks'} {plain(listed(read.ranks), 60)}{of_world}",
        *(plain(", ".join(names), 80) for names in (read.backends, read.devices) if names),
        f"{counted(len(read.hosts), 'host')}" if len(read.hosts) > 1 else "",
        counted(read.windows, "window") if read.windows > 1 else "",
        f"{counted(read.steps, 'step')}{_of_them_complete(read)}",
        counted(read.events, "event"),
        f"{read.dropped:,} left out" if read.dropped else "",
    ]
    return ", ".join(part for part in told if part)


def _of_them_complete(read: Facts) -> str:
    return "" if read.complete_steps == read.steps else f" ({read.complete_steps:,} complete)"


def _absent(reasons: dict[str, str]) -> Iterator[RenderableType]:
    """Each reason once, with the measures that it is the reason for."""
    if not reasons:
        return
    yield from ("", Text("Not measured", style="bold"))
    for why in dict.fromkeys(reasons.values()):
        names = ", ".join(name for name in reasons if reasons[name] == why)
        yield Text(f"{names}: ", style="dim").append(sentence(why), style="not dim")


def _notes(groups: list[NoteGroup]) -> Iterator[RenderableType]:
    if not groups:
        return
    counts = {gravity: sum(group.notes for group in groups if group.severity == gravity) for gravity in GRAVITY}
    told = ", ".join(counted(count, gravity, PLURAL[gravity]) for gravity, count in counts.items() if count)
    yield from ("", Text(f"Notes: {told}", style="bold"))
    table = Table.grid(padding=(0, 2, 0, 0))
    for group in groups:
        table.add_row(Text(group.severity, style=GRAVITY[group.severity]), Text(note_line(group)))
    yield table


def note_line(group: NoteGroup) -> str:
    """The notes of one code in a sentence."""
    where = f"{'rank' if len(group.ranks) == 1 else 'ranks'} {listed(group.ranks)}: " if group.ranks else ""
    more = f" (and {group.notes - 1:,} more like it)" if group.notes > 1 and group.severity != "info" else ""
    return f"{plain(group.code)}: {where}{sentence(group.message)}{more}"
