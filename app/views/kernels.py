"""Which kernels take the time, and on which rank the same ones take longer."""

from __future__ import annotations

from tracekit.analysis import Analysis

from .. import parts

TITLE, ORDER = "Kernels", 10


def show(analysis: Analysis) -> None:
    """The page."""
    parts.chart(analysis, "kernels")
    for name in ("kernels", "pace"):
        parts.measure(analysis, name)
