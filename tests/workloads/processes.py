"""Workloads as a user starts them, in a session of their own, and what is left of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60


def _hears_interrupts() -> None:
    """As in a terminal; what tests are run by may have them ignored, which children inherit."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Session:
    """`python -m workloads ...`, or another module, running; its processes are found by their session."""

    def __init__(self, *arguments: str, module: str = "workloads") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=_hears_interrupts,
        )

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        for pid in self.pids():
            os.kill(pid, signal.SIGKILL)
        self.process.communicate()

    def pids(self) -> list[int]:
        """Processes of the session that are alive."""
        return [pid for pid in _all() if _session_of(pid) == self.process.pid]

    def ranks(self) -> list[int]:
        """Those that have met: they have gloo's threads."""
        return sorted(pid for pid in self.pids() if "pt_gloo_runloop" in _threads(pid))

    def end(self) -> tuple[int, str]:
        """Exit code and what was said on stderr."""
        _, said = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, said


def until(condition: Callable[[], bool]) -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)


def _all() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _session_of(pid: int) -> int | None:
    try:
        state, _, _, session = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:4]
    except OSError:
        return None
    return None if state == "Z" else int(session)


def _threads(pid: int) -> set[str]:
    try:
        return {(task / "comm").read_text().strip() for task in Path(f"/proc/{pid}/task").iterdir()}
    except OSError:
        return set()
