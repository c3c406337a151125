"""Runs of workloads for tests, and plain code on the JSON of their traces."""

from __future__ import annotations

import gzip
import json
from functools import cached_property
from pathlib import Path
from typing import Any

from workloads import launch

Event = dict[str, Any]


class Written:
    """What a run wrote: `facts` is run.json, `events(rank)` the complete events of a rank by start."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def facts(self) -> dict[str, Any]:
        return json.loads((self.folder / "run.json").read_text())

    def trace(self, rank: int) -> dict[str, Any]:
        with gzip.open(self.folder / f"rank{rank}.json.gz", "rt") as file:
            return json.load(file)

    def events(self, rank: int) -> list[Event]:
        complete = [event for event in self.trace(rank)["traceEvents"] if event.get("ph") == "X"]
        return sorted(complete, key=lambda event: event["ts"])


def run(folder: Path, *arguments: str) -> Written:
    """Run a workload in its own ranks and give what it wrote."""
    assert launch.main([*arguments, "--out", str(folder)]) == 0
    return Written(folder)
