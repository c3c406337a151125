"""Sentences that the command line prints."""

from __future__ import annotations

import sys

from tracekit.wording import plain

LONGEST = 2000


def told(sentence: str) -> None:
    """Prints a sentence that holds foreign text, such as a file's name, as one harmless line."""
    print(plain(sentence, LONGEST))


def warned(sentence: str) -> None:
    """The same on stderr, as tracekit's own."""
    print(f"tracekit: {plain(sentence, LONGEST)}", file=sys.stderr)
