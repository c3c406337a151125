"""What a run tells its user when it cannot go on, in one line."""

from __future__ import annotations


class WorkloadError(Exception):
    """A run that cannot start or go on; its text is the whole message, `exit_code` the process's."""

    exit_code = 1


class WrongUse(WorkloadError):
    """Options that cannot be run; nothing was started."""

    exit_code = 2
