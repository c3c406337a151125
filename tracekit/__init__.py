"""tracekit says where the time of a distributed PyTorch training goes, from the Kineto traces of all its ranks.

import tracekit

run = tracekit.load("traces/")
analysis = tracekit.Analysis(run)
analysis["breakdown"]
tracekit.figure(analysis, "overlap")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracekit.analysis import Analysis
    from tracekit.read.load import load
    from tracekit.report.figures import figure

__all__ = ["Analysis", "figure", "load"]
__version__ = "0.1.0"

_HOMES = {"Analysis": "tracekit.analysis", "figure": "tracekit.report.figures", "load": "tracekit.read.load"}


def __getattr__(name: str) -> object:
    """Imports what is asked for, so that `tracekit --help` need not wait for pandas."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
