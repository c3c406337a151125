"""Columns out of decoded values of any type: codes for what repeats, exact whole numbers, ids."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.errors import TooLarge
from tracekit.read import limits

NO_RANK = -1
NO_ID = 0
"""Kineto's own spelling of "no correlation"."""
_INT64, _UINT64 = 2**63, 2**64
_NUMBER = re.compile(r"\d{1,31}|0[xX][0-9a-fA-F]{1,16}")
MANY = 2**53
"""No count is this large (8 PiB of bytes); as many as a trace can hold still sum to 64 bits."""


class _Different(dict[Any, Any]):
    """Different values, whose text is bounded."""

    _characters = 0

    def _count(self, value: Any) -> None:
        """TooLarge where the values are too many, or too long together."""
        self._characters += limits.NAME_OVERHEAD + len(value if isinstance(value, str) else str(value))
        if self._characters > limits.NAMES_CHARACTERS:
            raise TooLarge(f"its {len(self):,} different names and values are too long to be a trace's")


class Texts(_Different):
    """Gives each text as it is, but the same object for all that are the same."""

    def __missing__(self, value: str) -> str:
        self._count(value)
        self[value] = value
        return value


class Codes(_Different):
    """Numbers values in order of first sight; names that are too long are cut."""

    def __init__(self) -> None:
        super().__init__()
        self.in_order: list[Any] = []
        """The values, each at the place of its code."""

    def __missing__(self, value: Any) -> int:
        if isinstance(value, str) and len(value) > limits.NAME_CHARACTERS:
            return int(self[_shortened(value)])
        self._count(value)
        self[value] = code = len(self)
        self.in_order.append(value)
        return code

    def of(self, values: Sequence[Any]) -> npt.NDArray[np.int32]:
        """The code of each value."""
        try:
            return np.fromiter(map(self.__getitem__, values), np.int32, len(values))
        except TypeError:  # a list or an object stands where text should
            return np.fromiter((self[_hashable(value)] for value in values), np.int32, len(values))

    def column(self, parts: Sequence[npt.NDArray[np.int32]]) -> pd.Categorical:
        """A categorical column of the codes that `of` gave, part after part; values that read the same are one."""
        codes = np.concatenate(parts) if parts else np.empty(0, np.int32)
        return categorical(codes, [as_text(value) for value in self])

    @staticmethod
    def joined(
        first: Codes, firsts: npt.NDArray[np.int32], second: Codes, seconds: npt.NDArray[np.int32]
    ) -> pd.Categorical:
        """A categorical column of two values joined by a slash."""
        pairs, codes = np.unique(firsts.astype(np.int64) * max(len(second), 1) + seconds, return_inverse=True)
        one, other = [as_text(value) for value in first], [as_text(value) for value in second]
        texts = [f"{one[pair // len(second)]}/{other[pair % len(second)]}" for pair in pairs.tolist()]
        return categorical(codes, texts)


def categorical(codes: npt.NDArray[Any], texts: Sequence[str | None]) -> pd.Categorical:
    """A column of the texts that the codes stand for; texts that are the same are one, None is null."""
    number: dict[str, int] = {}
    merged = np.array([-1 if text is None else number.setdefault(text, len(number)) for text in texts], np.int32)
    categories = pd.Index(list(number), dtype=object)  # not "str", whose values are slow to look at one by one
    return pd.Categorical.from_codes(merged[codes] if len(texts) else codes, categories=categories, validate=False)


def as_text(value: Any) -> str:
    """A value as text; a whole number is the same however a tool wrote it."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return "" if value is None else str(value).encode("utf-8", "replace").decode()


def _shortened(name: str) -> str:
    """The start of a name, and what tells it from others that start so."""
    digest = blake2b(name.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return f"{name[: limits.NAME_CHARACTERS // 2]}... ({len(name)} characters, {digest})"


def _hashable(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_hashable, value))
    return str(value) if isinstance(value, list | dict) else value


def whole(value: Any) -> int | None:
    """The whole number that a value is or spells, if it fits 64 bits with sign."""
    if isinstance(value, str):
        try:
            value = int(value, 0 if value[:2].lower() == "0x" else 10) if len(value) < 32 else None
        except ValueError:
            return None
    if isinstance(value, float | np.number):
        value = int(value) if float(value).is_integer() else None
    return value if isinstance(value, int) and not isinstance(value, bool) and -_INT64 <= value < _INT64 else None


def count(value: Any) -> int | None:
    """How many (bytes, elements, members) a value tells; None where it tells no number, or one that cannot be."""
    told = whole(value)
    return told if told is not None and 0 <= told < MANY else None


def wholes(values: Sequence[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Whole numbers as int64, and which of the values are such; the others are 0."""
    if set(map(type, values)) == {int}:
        try:
            return np.fromiter(values, np.int64, len(values)), np.ones(len(values), bool)
        except OverflowError:
            pass
    numbers = [whole(value) for value in values]
    known = np.fromiter((number is not None for number in numbers), bool, len(numbers))
    return np.fromiter((number or 0 for number in numbers), np.int64, len(numbers)), known


def ids(values: Sequence[Any]) -> npt.NDArray[np.uint64]:
    """Ids as uint64, all 64 bits kept; `NO_ID` for none.

    Text that is a number, decimal or hexadecimal, is that number. Other text gets a number that is the same for the
    same text, above 2^63, where no profiler counts to.
    """
    try:
        return np.fromiter(values, np.uint64, len(values))
    except (TypeError, ValueError, OverflowError):
        return np.fromiter(map(_id, values), np.uint64, len(values))


def _id(value: Any) -> int:
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = int(value, 0 if "x" in value.lower() else 10)
    elif isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and 0 <= value < _UINT64:
        return value
    if value is None or value in (-1, ""):
        return NO_ID
    digest = blake2b(str(value).encode("utf-8", "replace"), digest_size=8).digest()
    return _INT64 | int.from_bytes(digest, "little")


def ranks(values: list[Any]) -> npt.NDArray[np.int64]:
    """Ranks that events claim to be of; `NO_RANK` for none."""
    if values.count(None) == len(values):
        return np.full(len(values), NO_RANK, np.int64)
    numbers = map(whole, values)
    return np.fromiter((NO_RANK if number is None or number < 0 else number for number in numbers), np.int64)
