"""The manual pages that the code itself holds: the docstrings of measures, with their columns, and of rules."""

from __future__ import annotations

import inspect
import re
import textwrap
from types import ModuleType

from tracekit.analysis import measure_columns, measure_module, measure_names
from tracekit.diagnosis import rule_module, rule_modules
from tracekit.errors import WrongUse
from tracekit.model import Column

_UNITS = {"": "", "1": "number", "ns": "nanoseconds", "bytes": "bytes"}
RULES_HEAD = """# Findings

What `tracekit analyze` looks for. Made by `tracekit explain --markdown` from the rules' own manual pages; a single one
in the terminal: `tracekit explain CODE`.
"""
_FRACTION = "fraction, 0 to 1"
_BETTER = {"": "", "up": "more is better", "down": "less is better"}


def page_list() -> str:
    """All measures, each with the question that it answers, and all rules, each with what it finds."""
    questions = {name: _manual(measure_module(name)).splitlines()[0] for name in measure_names()}
    causes = {code: _manual(module).splitlines()[0] for code, module in rule_modules().items()}
    width = max(map(len, (*questions, *causes)))
    told = [_columns(list(rows.items()), "  ", width) for rows in (questions, causes)]
    return f"Measures\n{told[0]}\n\nFindings\n{told[1]}\n"


def page(name: str, width: int = 120) -> str:
    """The manual page of a measure or a rule; WrongUse, with the names there are, where there is neither."""
    if name in measure_names():
        return measure_page(name, width)
    if name in rule_modules():
        return f"{_filled(f'{name}: {_manual(rule_module(name))}', width)}\n"
    raise WrongUse(f"nothing is named {name!r}; there are {', '.join([*measure_names(), *rule_modules()])}")


def rules_markdown() -> str:
    """All rules' manual pages as Markdown."""
    parts = [_markdown(code, _manual(module)) for code, module in rule_modules().items()]
    return "\n".join([RULES_HEAD, *parts])


def _markdown(code: str, text: str) -> str:
    title, _, rest = text.partition("\n\n")
    blocks = re.split(r"\n(?=[A-Z][a-z ]+: )", rest)
    lines = [re.sub(r"^([A-Z][a-z ]+):", r"- **\1:**", " ".join(block.split())) for block in blocks]
    return "\n".join([f"## `{code}`", "", title, "", *lines, ""])


def measure_page(name: str, width: int = 120) -> str:
    """A measure's manual page; WrongUse, with the names there are, where there is no such measure."""
    rows = [(name_of_it, _of_unit(name_of_it, column)) for name_of_it, column in measure_columns(name).items()]
    return f"{_filled(f'{name}: {_manual(measure_module(name))}', width)}\n\nColumns:\n{_columns(rows, '  ')}\n"


def _filled(text: str, width: int) -> str:
    """The text with its paragraphs filled; a list's points and lines that begin with a label stay lines."""
    return "\n".join(textwrap.fill(block, width) for block in re.split(r"\n(?=\n|- |[A-Z][a-z ]+: )|(?<=\n)\n", text))


def _manual(module: ModuleType) -> str:
    return inspect.cleandoc(module.__doc__ or "")


def _of_unit(name: str, column: Column) -> str:
    unit = _FRACTION if name.endswith("_frac") else _UNITS.get(column.unit, column.unit)
    parts = (unit, _BETTER[column.better])
    return ", ".join(part for part in parts if part)


def _columns(rows: list[tuple[str, str]], indent: str = "", least: int = 0) -> str:
    width = max([least, *(len(left) for left, _ in rows)])
    return "\n".join(f"{indent}{left:<{width}}  {right}".rstrip() for left, right in rows)
