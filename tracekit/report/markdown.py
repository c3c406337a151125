"""Foreign text in Markdown."""

from __future__ import annotations

from tracekit.wording import plain

_SPECIAL = {ord(character): f"&#{ord(character)};" for character in "&<>\\`*_[]|~!$"}
_SPECIAL |= {ord(character): f"&#{ord(character)};&#8203;" for character in "#@"}
"""GitHub looks for names and numbers after it has read entities, so these stand apart, by a space of no width."""


def safe(text: str, limit: int = 120) -> str:
    """Foreign text in which nothing is markup, mathematics, a table's cell, a link or somebody's name."""
    return plain(text, limit).strip().translate(_SPECIAL).replace("://", "&#58;//").replace("www.", "www&#46;")
