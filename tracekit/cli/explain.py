"""`tracekit explain`: what a number means."""

from __future__ import annotations

from shutil import get_terminal_size
from typing import Annotated

import typer


def explain(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="A measure; without it, all are listed.")] = "",
) -> None:
    """Print what a measure answers, how its numbers are made, and its columns with their units."""
    from tracekit.report.manual import measure_list, measure_page

    print(measure_page(name, get_terminal_size((80, 24)).columns) if name else measure_list(), end="")
