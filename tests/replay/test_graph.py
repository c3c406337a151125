import numpy as np

from tests.replay.drawn import TWO_RANKS, analysis
from tracekit.replay.graph import _levels


def test_levels_are_the_longest_ways():
    src, dst = np.array([0, 0, 1, 2]), np.array([1, 3, 2, 3])
    assert _levels(src, dst, 4, np.zeros(4)).tolist() == [0, 1, 2, 3]


def test_in_a_circle_the_first_measured_goes_first():
    """1 and 2 wait for each other; 2 was measured first."""
    src, dst = np.array([0, 1, 0, 2]), np.array([1, 2, 2, 1])
    level = _levels(src, dst, 3, np.array([0.0, 9.0, 5.0]))
    assert level[2] < level[1]


def test_measured_steps_are_counted_like_replayed_ones():
    graph = analysis(TWO_RANKS).replay.graph
    assert graph.measured_step_ns.tolist() == [11_000]
    assert graph.broken == 0


def test_slack_is_how_much_longer_an_edge_could_be():
    """Rank 0 computes 4 us of the 8 that rank 1 takes: its compute could be 4 us longer."""
    asked = analysis(TWO_RANKS)
    graph = asked.replay.graph
    slack = graph.slack(asked.replay.measured)
    of_work = (graph.rows["kind"] == 0).to_numpy()
    by_rank = {int(rank): int(left) for rank, left in zip(graph.rank[of_work], slack[of_work], strict=True)}
    assert by_rank == {0: 4000, 1: 0}


def test_many_scenarios_at_once_and_one_by_one_are_the_same():
    replay = analysis(TWO_RANKS).replay
    chosen = [replay.measured, replay.ideal, replay.links(2), replay.calls_free(waiting=False)]
    together = replay.graph.replayed(chosen)
    assert together.tolist() == [replay.graph.replayed([one])[0].tolist() for one in chosen]


def test_a_step_that_ends_before_an_earlier_one_takes_no_time():
    """The ranks hold different steps: rank 1 is done with step 1 at 4 us, rank 0 with step 0 at 10 us."""
    replay = analysis("""
        0/step  0000000000
        0/7     CCCCCCCCCC
        1/step  1111......
        1/7     CCCC......
    """).replay
    assert replay.graph.measured_step_ns.tolist() == [10_000, 0]
    assert replay.graph.replayed([replay.measured]).tolist() == [[10_000, 0]]
    assert replay.step_numbers == [0]
