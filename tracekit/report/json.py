"""An analysis as JSON for scripts: every table and measure with its own names, integers exact, null for unknown."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict

import pandas as pd

from tracekit.analysis import Analysis, measure_columns, measure_names
from tracekit.errors import NotMeasured
from tracekit.model import NO_STEP, NO_TIME, Finding, Run
from tracekit.report.account import facts
from tracekit.waiting import with_waits

SCHEMA = 1
_INTERNAL = ("device_work",)
_encoded = json.JSONEncoder(allow_nan=False).encode


def document(analysis: Analysis, *, calls: bool = False) -> dict[str, object]:
    """The whole analysis as dicts, lists, text, numbers and None, ready for `json_text`."""
    run = analysis.run
    parts: dict[str, object] = {
        "schema": SCHEMA,
        "run": {name: _value(value) for name, value in asdict(facts(run)).items()},
        "ranks": records(run.ranks),
        "steps": records(run.steps),
        "notes": records(run.notes),
        "measures": {name: _measure(analysis, name) for name in measure_names()},
        "findings": [_value_of(finding) for finding in analysis.findings],
    }
    if calls:
        parts["calls"] = call_records(run)
    return parts


def _value_of(finding: Finding) -> dict[str, object]:
    return {name: _value(value) for name, value in asdict(finding).items()}


def call_records(run: Run) -> list[dict[str, object]]:
    """The run's communication calls, with wait and transfer where ranks could be compared, else null."""
    calls = with_waits(run).calls
    return records(calls.drop(columns=list(_INTERNAL)))


def _measure(analysis: Analysis, name: str) -> dict[str, object]:
    try:
        rows = analysis[name]
    except NotMeasured as why:
        return {"not_measured": _value(str(why))}
    declared = measure_columns(name)
    units = {str(column): declared[column].unit if column in declared else "" for column in rows}
    return {"columns": units, "rows": records(rows)}


def records(table: pd.DataFrame) -> list[dict[str, object]]:
    """A table's rows as dicts of plain values, None where a value is missing, unknown, or not finite."""
    names = [str(name) for name in table]
    columns = [_values(table[name]) for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: pd.Series) -> list[object]:
    missing = column.isna().tolist()
    unknown = {"step": NO_STEP}.get(str(column.name), NO_TIME)
    return [
        None if absent or value == unknown else _value(value)
        for value, absent in zip(column.tolist(), missing, strict=True)
    ]


def _value(value: object) -> object:
    """A value that strict JSON can hold: no infinity, no half of a surrogate pair."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, tuple | list):
        return [_value(one) for one in value]
    return value


def json_text(parts: dict[str, object]) -> str:
    """The document as JSON, one row of a table a line, so that it greps and diffs."""
    return "\n".join(_lines(parts, "", "")) + "\n"


def _lines(value: object, before: str, after: str) -> Iterator[str]:
    """The value's lines; `before` and `after` are what stands around it on its first and last line."""
    indent = before[: len(before) - len(before.lstrip(" "))]
    if not _spread(value):
        yield f"{before}{_encoded(value)}{after}"
        return
    members = list(_members(value))
    brackets = "{}" if isinstance(value, dict) else "[]"
    yield before + brackets[0]
    for number, (key, member) in enumerate(members, 1):
        yield from _lines(member, f"{indent}  {key}", "," if number < len(members) else "")
    yield indent + brackets[1] + after


def _spread(value: object) -> bool:
    """Whether the value gets a line for each of its members: what holds other containers does."""
    held = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(isinstance(member, dict | list) for member in held)


def _members(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        yield from ((f"{_encoded(key)}: ", member) for key, member in value.items())
    elif isinstance(value, list):
        yield from (("", member) for member in value)
