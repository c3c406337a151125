"""Documents of which commands write one section each, between comments that Markdown does not show."""

from __future__ import annotations

from pathlib import Path


def write_section(document: Path, name: str, text: str) -> None:
    """Puts `text` between the section's markers; a section that the document lacks is added at its end.

    <!-- begin: NAME -->
    text
    <!-- end: NAME -->
    """
    begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
    section = f"{begin}\n{text.strip()}\n{end}"
    old = document.read_text(encoding="utf-8") if document.exists() else ""
    before, found, rest = old.partition(begin)
    if not found:
        new = f"{old.rstrip()}\n\n{section}\n" if old.strip() else f"{section}\n"
    else:
        _, ended, after = rest.partition(end)
        if not ended:
            raise ValueError(f"{document}: section {name!r} begins and does not end")
        new = before + section + after
    document.parent.mkdir(parents=True, exist_ok=True)
    document.write_text(new, encoding="utf-8")
