"""`tracekit compare`: what changed between two runs, largest first."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tracekit.cli.analyze import STDOUT, check_writable
from tracekit.cli.check import reader


def compare(
    base: Annotated[str, typer.Argument(metavar="BASE", help="A run or a saved summary.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The run, or saved summary, to hold against it.")],
    rows: Annotated[int, typer.Option("--rows", min=1, help="How many changes to list by name.")] = 15,
    json: Annotated[str, typer.Option("--json", metavar="FILE|-", help="Write all changes as JSON.")] = "",
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Read the files themselves and keep nothing.")] = False,
) -> None:
    """Say what changed from one run to another: kernels, calls, ranks, gaps, as parts that add up."""
    from tracekit.compare import difference
    from tracekit.gate import facts
    from tracekit.gate.reasons import reasons
    from tracekit.gate.sides import summary_at

    check_writable(json)
    read = reader(cache=not no_cache)
    old, now = (summary_at(one, read) for one in (base, new))
    changed = difference(old.account, now.account)
    if json != STDOUT:
        from rich.console import Console

        from tracekit.report.difference_text import difference_text

        console = Console(file=sys.stdout)
        differs = facts.differing(old.facts, now.facts)
        colour = console.color_system is not None
        print(
            difference_text(changed, differs, reasons(changed, ()), width=console.width, colour=colour, rows=rows),
            end="",
        )
    if json:
        _write(changed, json)


def _write(changed: object, file: str) -> None:
    from pathlib import Path

    from tracekit.compare import Difference
    from tracekit.report.json import json_text
    from tracekit.report.verdict_json import difference_document

    assert isinstance(changed, Difference)
    text = json_text({"schema": 1, **difference_document(changed)})
    if file == STDOUT:
        print(text, end="")
    else:
        Path(file).write_text(text, encoding="utf-8")
