"""What can go wrong, and the exit code that each kind of failure gives on the command line."""

from __future__ import annotations


class TracekitError(Exception):
    """A failure with a sentence for the person who asked; base of all errors that tracekit raises on purpose."""

    exit_code = 2


class Unreadable(TracekitError):
    """A file, folder or URL from which no trace could be read."""


class LostFile(Unreadable):
    """A file that is there, as far as was told, but could not be read to its end: its store or its reader failed."""


class TooLarge(LostFile):
    """A file that holds more than any trace does (see `tracekit.read.limits`), so that it was not read to its end."""


class AmbiguousRanks(TracekitError):
    """Two files claim the same rank at the same time, so no run can be made of them."""


class LostWork(TracekitError):
    """Work that ended the process that did it, more than once."""


class WrongUse(TracekitError):
    """An argument that means nothing here."""


class NotMeasured(TracekitError):
    """The run lacks what a measure is made of; the sentence says what is missing. Never replaced by a zero."""
