"""tracekit says where the time of a distributed PyTorch training goes, from the Kineto traces of all its ranks."""

from __future__ import annotations

from tracekit.analysis import Analysis
from tracekit.read.load import load

__all__ = ["Analysis", "load"]
__version__ = "0.1.0"
