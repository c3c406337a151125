"""`tracekit whatif`: what mending it would buy."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tracekit.cli import progress
from tracekit.cli.analyze import STDOUT, check_writable, chosen_steps, write_text

if TYPE_CHECKING:
    from tracekit.analysis import Analysis
    from tracekit.replay.whatif import WhatIf


def whatif(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN", help="Folder, glob, files, archive or URL of the traces of one job."),
    ],
    fix: Annotated[
        list[str] | None,
        typer.Option("--fix", metavar="WHAT", help="Made like its peers: rank:3, stage:3, class:forward, axis:data."),
    ] = None,
    ideal: Annotated[
        list[str] | None,
        typer.Option("--ideal", metavar="WHAT", help="Made ideal: comm, collectives, host, stages, axis:data."),
    ] = None,
    links: Annotated[str, typer.Option("--links", metavar="2x", help="Links so many times as fast.")] = "",
    json: Annotated[
        str, typer.Option("--json", metavar="FILE|-", help="Write everything as JSON to a file, or to stdout.")
    ] = "",
    steps: Annotated[str, typer.Option("--steps", metavar="N|N-M", help="Only these steps, as in 3-10.")] = "",
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Read the files themselves and keep nothing.")] = False,
) -> None:
    """Replay the job with some durations replaced: what the step would take if this or that were mended."""
    from tracekit.analysis import Analysis
    from tracekit.read.load import load

    check_writable(json)
    chosen = chosen_steps(steps)
    with progress.shown("reading") as follow:
        run = load(runs[0] if len(runs) == 1 else runs, cache=not no_cache, progress=follow)
    analysis = Analysis(run.only_steps(*chosen) if chosen else run)
    told = _told(analysis, fix or [], ideal or [], links)
    if json != STDOUT:
        print(_screen(analysis, told, every=bool(fix or ideal or links)), end="")
    if json:
        _write_json(analysis, told, json)


def _told(analysis: Analysis, fixes: list[str], ideals: list[str], links: str) -> WhatIf:
    """The answers to what was asked, or to all that can be asked."""
    if not (fixes or ideals or links):
        return analysis.whatif
    from tracekit.replay import change
    from tracekit.replay.whatif import what_if

    replay = analysis.replay
    changes = [change.fix(replay, one) for one in fixes] + [change.ideal(replay, one) for one in ideals]
    changes += [change.links(replay, links)] if links else []
    both = change.together(replay, changes) if len(changes) > 1 else None
    return what_if(replay, analysis, [*changes, *([both] if both else [])])


def _screen(analysis: Analysis, told: WhatIf, *, every: bool) -> str:
    from rich.console import Console

    from tracekit.report.whatif import whatif_text

    console = Console(file=sys.stdout)
    colour = console.color_system is not None
    return whatif_text(told, analysis.run, width=console.width, colour=colour, every=every)


def _write_json(analysis: Analysis, told: WhatIf, file: str) -> None:
    from tracekit.report.json import json_text
    from tracekit.report.whatif import whatif_document

    write_text(json_text(whatif_document(told, analysis.run)), file)
