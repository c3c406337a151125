"""Drawings that several tests of the replay look at."""

from tests import lanes
from tracekit.analysis import Analysis

TWO_RANKS = """
    step   000000000000
    0/main ab..........
    0/7    .CCCC.......  by=a
    0/20   .....NNNNNN.  by=b
    1/main ab..........
    1/7    .CCCCCCCC...  by=a
    1/20   .........NN.  by=b
"""
"""Rank 1 computes 8 us, rank 0 only 4; the transfer takes 2 us after the later one. A step takes 11 us."""


def analysis(drawing: str = TWO_RANKS) -> Analysis:
    return Analysis(lanes.run(drawing))


def step_us(drawing: str, scenario=None) -> list[float]:
    """The replayed steps; `scenario` makes one of the replay."""
    replay = analysis(drawing).replay
    chosen = replay.measured if scenario is None else scenario(replay)
    return [ns / 1000 for ns in replay.step_ns({"it": chosen})["it"]]
