import numpy as np
import pandas as pd
import pytest

from tracekit.replay.pace import BALANCED, EVEN, IDEAL, LIKE_PEERS, LIKE_STAGES, MEASURED, NO_HOST, pace_of
from tracekit.replay.work import BACKWARD, CLASSES, FORWARD, HOST, UNRECORDED

F, B, H = (CLASSES.index(name) for name in (FORWARD, BACKWARD, HOST))
STAGES = {0: 0, 1: 0, 2: 1, 3: 1}
LENGTHS = {0: 10, 1: 20, 2: 40, 3: 50}
"""Forwards of four ranks: two of stage 0, two of stage 1. The mean is 30, of the stages 15 and 45."""


@pytest.fixture
def pace():
    rows = [(rank, 0, F, length) for rank, length in LENGTHS.items()] + [(rank, 0, H, 0) for rank in LENGTHS]
    return pace_of(pd.DataFrame(rows, columns=["rank", "step", "cls", "total_ns"]), list(LENGTHS), STAGES)


def length(pace, rank, variant):
    factors = pace.factors(rank, np.array([F]), np.array([LENGTHS[rank]]))
    return round(factors[0, variant] * LENGTHS[rank], 6)


def test_ideal_is_the_mean_of_all(pace):
    assert [length(pace, rank, IDEAL) for rank in LENGTHS] == [30, 30, 30, 30]


def test_peers_are_the_others_of_the_stage(pace):
    assert [length(pace, rank, LIKE_PEERS) for rank in LENGTHS] == [20, 10, 50, 40]


def test_stages_are_like_the_others(pace):
    assert [length(pace, rank, LIKE_STAGES) for rank in LENGTHS] == [45, 45, 15, 15]


def test_balanced_stages_keep_their_ranks_apart(pace):
    """Each stage is twice, or two thirds, as long; its ranks stay in proportion."""
    assert [length(pace, rank, BALANCED) for rank in LENGTHS] == pytest.approx([20, 40, 80 / 3, 100 / 3])


def test_even_is_the_mean_of_the_own_stage_and_leaves_the_host(pace):
    assert [length(pace, rank, EVEN) for rank in LENGTHS] == [15, 15, 45, 45]
    assert pace.factors(0, np.array([H]), np.array([8]))[0, EVEN] == 1


def test_measured_stays(pace):
    assert [length(pace, rank, MEASURED) for rank in LENGTHS] == [10, 20, 40, 50]
    assert [length(pace, rank, NO_HOST) for rank in LENGTHS] == [10, 20, 40, 50]


def test_the_host_of_all_ranks_counts_in_its_mean():
    """Of four ranks one's host takes 8: the mean is 2, not 8."""
    rows = [(rank, 0, H, 8 if rank == 0 else 0) for rank in range(4)]
    pace = pace_of(pd.DataFrame(rows, columns=["rank", "step", "cls", "total_ns"]), range(4), {})
    assert pace.factors(0, np.array([H]), np.array([8]))[0].tolist()[IDEAL] == 2 / 8


def test_one_class_apart(pace):
    assert length(pace, 0, pace.all_but(F)) == 10
    assert length(pace, 0, pace.only(F)) == 30


def test_what_is_no_instance_stays(pace):
    assert (pace.factors(0, np.array([F]), np.array([10]))[-1] == 1).all()


@pytest.mark.parametrize(
    ("unseen", "others", "of_seen", "of_unseen"),
    [
        (6, 0, 1.0, 1 / 6),  # of 5 too many what is not recorded gives all
        (5, 0, 1.0, 0.0),
        (2, 0, 3 / 6, 0.0),  # it gives all that it has, the rest comes evenly
        (6, 1, 1.0, 1 / 6),
        (3, 1, 3 / 6, 3 / 6 * 1 / 3),  # the others pause for 1, too
        (2, 2, 3 / 8, 3 / 8),  # no more than the others
    ],
)
def test_pauses_that_others_do_not_make_are_shortened_first(unseen, others, of_seen, of_unseen):
    """Rank 0's host takes 8, the others' 3."""
    rows = [(rank, 0, H, 8 if rank == 0 else 3) for rank in range(4)]
    rows += [(rank, 0, UNRECORDED, unseen if rank == 0 else others) for rank in range(4)]
    pace = pace_of(pd.DataFrame(rows, columns=["rank", "step", "cls", "total_ns"]), range(4), {})
    factors = pace.factors(0, np.array([H]), np.array([8]), np.array([unseen]))[:, LIKE_PEERS]
    assert factors == pytest.approx([of_seen, 1.0, of_unseen])
    assert (8 - unseen) * factors[0] + unseen * factors[2] == pytest.approx(3)


def test_a_host_that_is_shorter_than_its_target_is_stretched_evenly():
    rows = [
        (rank, 0, cls, length) for rank in range(4) for cls, length in ((H, 2 if rank == 0 else 4), (UNRECORDED, 1))
    ]
    pace = pace_of(pd.DataFrame(rows, columns=["rank", "step", "cls", "total_ns"]), range(4), {})
    factors = pace.factors(0, np.array([H]), np.array([2]), np.array([1]))[:, LIKE_PEERS]
    assert factors.tolist() == [2, 1, 2]
