"""`tracekit explain`: what a number or a finding means."""

from __future__ import annotations

from shutil import get_terminal_size
from typing import Annotated

import typer


def explain(
    name: Annotated[
        str, typer.Argument(metavar="[NAME|CODE]", help="A measure, or a finding's code; without it, all are listed.")
    ] = "",
    markdown: Annotated[
        bool, typer.Option("--markdown", help="All rules as one Markdown page, as in docs/rules.md.")
    ] = False,
) -> None:
    """Print what a measure answers and how its numbers are made, or what a finding means and what to do."""
    from tracekit.report import manual

    if markdown:
        print(manual.rules_markdown(), end="")
    else:
        print(manual.page(name, get_terminal_size((80, 24)).columns) if name else manual.page_list(), end="")
