"""`[tool.tracekit]` of the pyproject.toml here or above: what a project's checks have in common.

[tool.tracekit]
budgets = ["step:5%", "exposed_comm:0.5ms"]
baseline = "perf/history"
unsure = "pass"
allow = ["versions"]
noise = "1%"
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracekit.errors import WrongUse

KEYS = ("budgets", "baseline", "unsure", "allow", "noise")


@dataclass(frozen=True)
class Settings:
    """What the file says; the command line goes first."""

    budgets: tuple[str, ...] = ()
    baseline: tuple[str, ...] = ()
    unsure: str = ""
    allow: tuple[str, ...] = ()
    noise: str = ""


def settings(start: Path | None = None) -> Settings:
    """The settings that hold in a folder; none where there is no such file or table. WrongUse where they are wrong."""
    file = _file(start or Path.cwd())
    if file is None:
        return Settings()
    try:
        told = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {}).get("tracekit", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as why:
        raise WrongUse(f"{file} is not TOML: {why}") from why
    unknown = [key for key in told if key not in KEYS]
    if unknown:
        raise WrongUse(f"{file}: [tool.tracekit] has no key {unknown[0]!r}; there are {', '.join(KEYS)}")
    budgets, baseline, allow = (_texts(told.get(key, []), f"{file}: {key}") for key in ("budgets", "baseline", "allow"))
    unsure, noise = (_text(told.get(key, ""), f"{file}: {key}") for key in ("unsure", "noise"))
    return Settings(budgets, tuple(str(file.parent / one) for one in baseline), unsure, allow, noise)


def _file(start: Path) -> Path | None:
    for folder in (start, *start.parents):
        if (folder / "pyproject.toml").is_file():
            return folder / "pyproject.toml"
    return None


def _texts(value: Any, where: str) -> tuple[str, ...]:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        raise WrongUse(f"{where} takes texts, not {value!r}")
    return tuple(values)


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise WrongUse(f"{where} takes a text, not {value!r}")
    return value
