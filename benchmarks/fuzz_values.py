"""Traces that can be changed and written again, and what a field does not expect."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from isal import igzip

from tests.hostile import NAMES

Events = list[Any]

TEXTS = (*NAMES, "", "\ud800", "a\0b", "two\nlines", "\x1b[31mred", "a,b[c]", "None", "nan", "12", "-1", "1e999", "0/7")
NUMBERS = (
    0, 1, -1, 7, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30, -(10**30),
    0.5, -0.0, 1e-320, 1e18, 1e300, 1e308, -1e308, math.nan, math.inf, -math.inf,
)  # fmt: skip
OTHERS = (None, True, False, [], [1, [2, "x"]], {}, {"a": None})


@dataclass
class File:
    """One rank's trace, before it is written."""

    name: str
    head: dict[Any, Any]
    events: Events
    tail: dict[Any, Any] = field(default_factory=dict)
    bare: bool = False
    cut_frac: float | None = None

    @property
    def spans(self) -> list[dict[Any, Any]]:
        """The events that are still objects."""
        return [event for event in self.events if isinstance(event, dict)]

    def text(self) -> bytes:
        """The file's bytes, before they are packed."""
        events = json.dumps(self.events)
        if not self.bare:
            head, tail = json.dumps(self.head)[1:-1], json.dumps(self.tail)[1:-1]
            events = f'{{{head}{", " if head else ""}"traceEvents": {events}{", " if tail else ""}{tail}}}'
        text = events.encode()
        return text if self.cut_frac is None else text[: int(self.cut_frac * len(text))]

    def write(self, folder: Path) -> None:
        """Writes it there, packed if its name says so."""
        text = self.text()
        (folder / self.name).write_bytes(igzip.compress(text, 1, mtime=0) if self.name.endswith(".gz") else text)


class Again(str):
    """A key that may stand twice in an object."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def value(dice: Random) -> Any:
    """Something that a field does not expect."""
    return dice.choice(dice.choice([TEXTS, NUMBERS, OTHERS]))


def is_number(one: object) -> bool:
    return isinstance(one, int | float) and not isinstance(one, bool)


def changed_values(told: Any, dice: Random) -> Any:
    """Plain values (of a saved summary) of which a few are others, missing, or there too often."""
    told = json.loads(json.dumps(told))
    for _ in range(dice.choice([1, 1, 2, 5])):
        _change_one(told, dice)
    return told


def _change_one(told: Any, dice: Random) -> None:
    """Goes down at random, rather to where there is much, and changes what it comes to."""
    while True:
        keys = list(told) if isinstance(told, dict) else list(range(len(told)))
        if not keys:
            return
        [key] = dice.choices(keys, [1 + 3 * isinstance(told[key], dict | list) for key in keys])
        if not isinstance(told[key], dict | list) or dice.random() < 0.1:
            break
        told = told[key]
    how = dice.randrange(8)
    if how == 0:
        del told[key]
    elif how == 1 and isinstance(told, list):
        told[:] = told * dice.choice([2, 50])
    elif how == 2:
        told[key] = value(dice)
    elif how == 3 and isinstance(told, list):
        told[:] = [dice.choice(NUMBERS)] * len(told) if is_number(told[key]) else told[:1]
    else:
        told[key] = _alike(told[key], dice)


def _alike(old: Any, dice: Random) -> Any:
    """Another value of the same type."""
    if isinstance(old, str):
        return dice.choice(TEXTS)
    if isinstance(old, int):
        return dice.choice([one for one in NUMBERS if isinstance(one, int)])
    if isinstance(old, float):
        return dice.choice([*(one for one in NUMBERS if math.isfinite(one)), old * 3, old / 3, -old])
    return type(old)() if isinstance(old, dict | list) else value(dice)
