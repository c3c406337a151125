import numpy as np

from tracekit.replay.timeline import NOTHING, timeline


def spans(*rows):
    return tuple(np.array(column, np.int64) for column in zip(*rows, strict=True)) if rows else (np.empty(0, int),) * 3


def test_later_layers_cover_earlier_ones():
    told = timeline(0, 10, [spans((0, 10, 0)), spans((2, 5, 1)), spans((4, 6, 2))])
    assert told.times.tolist() == [0, 2, 4, 5, 6, 10]
    assert told.doing.tolist() == [0, 1, 2, 2, 0]


def test_time_passes_at_the_pace_of_what_is_done():
    """0 at half its pace, 1 as it is, nothing while it waits."""
    told = timeline(0, 10, [spans((0, 4, 0), (6, 10, 1))])
    assert told.doing.tolist() == [0, NOTHING, 1]
    pace = np.array([[0.5], [1.0], [1.0]])
    assert told.passed(np.array([0, 4, 6, 8, 10]), pace)[:, 0].tolist() == [0, 2, 2, 4, 6]


def test_several_variants():
    told = timeline(0, 4, [spans((0, 4, 0))])
    assert told.passed(np.array([2, 4]), np.array([[1.0, 2.0], [1.0, 1.0]])).tolist() == [[2, 4], [4, 8]]
