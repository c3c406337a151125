"""Text for a terminal, or for the log of a CI system, which takes some lines for commands."""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO

from rich.console import Console, Group, RenderableType

COMMAND = "::"
"""A line that begins so is a workflow command to GitHub Actions, wherever a name's word was wrapped to."""


def screen_text(parts: Iterable[RenderableType], *, width: int, colour: bool) -> str:
    """The parts below each other as text of at most `width` columns, none of whose lines is a command."""
    sink = StringIO()
    console = Console(
        file=sink, width=width, force_terminal=colour, color_system="standard" if colour else None,
        legacy_windows=False, highlight=False, markup=False, emoji=False,
    )  # fmt: skip
    console.print(Group(*parts))
    return "".join(f"{_no_command(line.rstrip())}\n" for line in sink.getvalue().splitlines())


def _no_command(line: str) -> str:
    if line.lstrip().startswith(COMMAND):
        return line.replace(COMMAND, "\N{REPLACEMENT CHARACTER}:", 1)
    return line
