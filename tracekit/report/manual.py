"""The manual pages that the code itself holds: a measure's docstring and its columns."""

from __future__ import annotations

import inspect
import re
import textwrap

from tracekit.analysis import measure_columns, measure_module, measure_names
from tracekit.model import Column

_UNITS = {"": "", "1": "number", "ns": "nanoseconds", "bytes": "bytes"}
_FRACTION = "fraction, 0 to 1"
_BETTER = {"": "", "up": "more is better", "down": "less is better"}


def measure_list() -> str:
    """All measures, each with the question that it answers."""
    questions = {name: _manual(name).splitlines()[0] for name in measure_names()}
    return _columns(list(questions.items())) + "\n"


def measure_page(name: str, width: int = 120) -> str:
    """A measure's manual page; WrongUse, with the names there are, where there is no such measure."""
    rows = [(name_of_it, _of_unit(name_of_it, column)) for name_of_it, column in measure_columns(name).items()]
    return f"{_filled(f'{name}: {_manual(name)}', width)}\n\nColumns:\n{_columns(rows, '  ')}\n"


def _filled(text: str, width: int) -> str:
    """The text with its paragraphs filled; a list's points and lines that begin with a label stay lines."""
    return "\n".join(textwrap.fill(block, width) for block in re.split(r"\n(?=\n|- |[A-Z][a-z ]+: )|(?<=\n)\n", text))


def _manual(name: str) -> str:
    return inspect.cleandoc(measure_module(name).__doc__ or "")


def _of_unit(name: str, column: Column) -> str:
    unit = _FRACTION if name.endswith("_frac") else _UNITS.get(column.unit, column.unit)
    parts = (unit, _BETTER[column.better])
    return ", ".join(part for part in parts if part)


def _columns(rows: list[tuple[str, str]], indent: str = "") -> str:
    width = max((len(left) for left, _ in rows), default=0)
    return "\n".join(f"{indent}{left:<{width}}  {right}".rstrip() for left, right in rows)
