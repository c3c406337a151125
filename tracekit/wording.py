"""How values read: lengths of time, sizes, counts, lists of ranks, and text that comes from a trace.

Text from a trace is foreign: it may hold terminal escapes, line breaks, direction marks, or a megabyte.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST_WORD = 60
_LOGGED_COMMAND = re.compile(r"##(?=\[|vso\[)")
"""By `##[` and `##vso[`, wherever they stand in a line, CI systems on GitHub and Azure are told commands."""
_TIMES = (("s", 10 * 10**9, 10**9), ("ms", 10**6, 10**6), ("µs", 0, 10**3))
_SIZES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


@dataclass(frozen=True)
class TimeUnit:
    """A unit of time with the decimals that show about four figures of the values at hand."""

    name: str
    ns: int
    decimals: int

    def of(self, ns: float) -> str:
        """The time as a bare number in this unit: `123.4`."""
        return f"{ns / self.ns:,.{self.decimals}f}"

    def with_name(self, ns: float) -> str:
        """The time with its unit: `123.4 ms`."""
        return f"{self.of(ns)} {self.name}"


def time_unit(longest_ns: float) -> TimeUnit:
    """The unit in which times of up to `longest_ns`, or as far below 0, read well beside each other."""
    longest_ns = abs(longest_ns)
    name, ns = next((name, ns) for name, from_ns, ns in _TIMES if longest_ns >= from_ns)
    figures = len(str(int(longest_ns // ns)))
    return TimeUnit(name, ns, min(max(4 - figures, 1), 2))


def duration(ns: float) -> str:
    """One time in the unit that suits it: `12.30 ms`."""
    return time_unit(ns).with_name(ns)


def size(byte_count: float) -> str:
    """A number of bytes: `61.2 GiB`."""
    for factor, name in _SIZES:
        if byte_count >= factor:
            return f"{byte_count / factor:,.1f} {name}"
    return f"{byte_count:,.0f} B"


def percent(part: float, whole: float) -> str:
    """A share as a person reads it: `62 %`, `<1 %` for the little that is not nothing, `-` of nothing."""
    if whole <= 0:
        return "-"
    share = 100 * part / whole
    if 0 < share < 0.5:
        return "<1 %"
    return f"{share:.0f} %"


def counted(number: int, thing: str, things: str = "") -> str:
    """A number of things: `1 rank`, `1,024 ranks`."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def plain(text: str, limit: int = 300) -> str:
    """Foreign text as one printable line of at most `limit` characters, its middle left out where it is longer."""
    shown = "".join(_printable(character) for character in shortened(text, limit))
    return _LOGGED_COMMAND.sub("#\N{REPLACEMENT CHARACTER}", shown)


def kernel_name(name: str, limit: int) -> str:
    """A kernel's name as foreign text of at most `limit` characters, without what says little.

    That is: the result's type, the list of parameters, PyTorch's own namespaces. What tells kernels apart stands in
    front, so a long name loses its end.
    """
    for noise in ("void ", "at::native::", "(anonymous namespace)::"):
        name = name.replace(noise, "")
    opening = _last_opening(name) if name.endswith(")") else 0
    if opening > 0 and not name[opening - 1].isspace():
        name = name[:opening]
    return plain(name if len(name) <= limit else f"{name[: limit - 1]}…", limit)


def _last_opening(name: str) -> int:
    """Where the bracket opens that the name's last character closes, or 0."""
    depth = 0
    for at in range(len(name) - 1, 0, -1):
        depth += (name[at] == ")") - (name[at] == "(")
        if depth == 0:
            return at
    return 0


def sentence(text: str, limit: int = 300) -> str:
    """A foreign sentence, no word of it so long (a file's name, say) that it could not stand in a line of a screen."""
    return " ".join(shortened(word, LONGEST_WORD) for word in plain(text, limit).split(" "))


def shortened(text: str, limit: int) -> str:
    """The text, or its beginning and end around an ellipsis where it is longer than `limit` characters."""
    if len(text) <= limit:
        return text
    tail = (limit - 1) // 3
    return f"{text[: limit - 1 - tail]}…{text[len(text) - tail :]}"


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    return " " if character.isspace() else "\N{REPLACEMENT CHARACTER}"
