"""Against published tables and small cases that can be counted; and the rates that a test promises."""

import math

import numpy as np
import pytest

from tracekit import stats


@pytest.mark.parametrize(
    ("freedom", "tail", "value"),  # any textbook's table of Student's t
    [
        (1, 0.005, 63.657),
        (2, 0.025, 4.303),
        (4, 0.005, 4.604),
        (10, 0.005, 3.169),
        (30, 0.05, 1.697),
        (1e9, 0.025, 1.960),
    ],
)
def test_student_as_in_the_tables(freedom, tail, value):
    assert stats.student_quantile(tail, freedom) == pytest.approx(value, abs=6e-4)
    assert stats.student_tail(value, freedom) == pytest.approx(tail, rel=2e-3)
    assert stats.student_tail(-value, freedom) == pytest.approx(1 - tail, rel=2e-3)


def test_student_with_one_degree_is_cauchy():
    assert stats.student_tail(2.0, 1) == pytest.approx(0.5 - math.atan(2.0) / math.pi, rel=1e-9)


def test_no_freedom_no_answer():
    assert math.isnan(stats.student_tail(1.0, 0))
    assert stats.student_quantile(0.01, 0) == math.inf


def test_mad():
    assert stats.mad([1, 2, 3, 4, 100]) == 1  # from the median 3: 2 1 0 1 97


def test_one_step_has_no_variance_to_speak_of():
    mean = stats.mean_of_steps([5.0])
    assert (mean.value, mean.variance, mean.freedom) == (5.0, math.inf, 0.0)


def test_few_steps_are_the_plain_mean_and_variance():
    # 1 2 3 6: mean 3, squares 4 1 0 9 = 14, variance 14/3, of the mean 14/12
    mean = stats.mean_of_steps([1, 2, 3, 6])
    assert (mean.value, mean.block, mean.freedom) == (3.0, 1, 3.0)
    assert mean.variance == pytest.approx(14 / 12)


def test_the_closed_form_is_what_resampling_of_blocks_gives():
    rng = np.random.default_rng(7)
    values = np.cumsum(rng.standard_normal(24)) * 0.2 + rng.standard_normal(24)
    mean = stats.mean_of_steps(values)
    starts = rng.integers(0, 24, size=(40_000, 24 // mean.block))
    picked = values[(starts[:, :, None] + np.arange(mean.block)) % 24].reshape(len(starts), -1)
    resampled = picked.mean(axis=1).var() * picked.shape[1] / 24  # for the blocks that do not fill 24
    assert mean.variance == pytest.approx(resampled * 24 / (24 - mean.block), rel=0.05)


def test_steps_that_resemble_their_neighbours_tell_less():
    wave = np.repeat([0.0, 1.0], 20)  # two levels: 40 steps, but hardly more than two facts
    mixed = np.tile([0.0, 1.0], 20)
    assert stats.mean_of_steps(wave).block > stats.mean_of_steps(mixed).block
    assert stats.mean_of_steps(wave).variance > 4 * stats.mean_of_steps(mixed).variance


def test_equal_values_have_no_variance():
    assert stats.mean_of_steps([4.0] * 10).variance == 0


def test_ranks_of_three_and_three():
    assert stats.rank_tail([1, 2, 3], [4, 5, 6]) == pytest.approx(1 / 20)  # one of C(6, 3) ways
    assert stats.rank_tail([4, 5, 6], [1, 2, 3]) == pytest.approx(1)
    assert stats.least_rank_tail(3, 3) == 1 / 20


def test_ranks_with_ties():
    # ranks 1.5 1.5 3.5 3.5: sums of two: 3, 5 (four ways), 7
    assert stats.rank_tail([1, 2], [1, 2]) == pytest.approx(5 / 6)
    assert stats.rank_tail([1, 1], [2, 2]) == pytest.approx(1 / 6)
    assert stats.rank_tail([1, 1], [1, 1]) == 1


def test_ranks_of_many_are_near_the_exact_ones(monkeypatch):
    rng = np.random.default_rng(3)
    one, other = rng.standard_normal(25), rng.standard_normal(25) + 0.5
    exact = stats.rank_tail(one, other)
    monkeypatch.setattr(stats, "EXACT_RANKS", 10)
    assert stats.rank_tail(one, other) == pytest.approx(exact, rel=0.1)


def test_an_empty_sample_has_no_rank():
    assert math.isnan(stats.rank_tail([], [1.0]))
    assert math.isnan(stats.superiority([], [1.0]))


def test_superiority():
    assert stats.superiority([1, 2], [2, 3]) == pytest.approx(3.5 / 4)  # 2>1, 3>1, 3>2, and 2=2 as a half


def test_holm():
    # 0.01 × 3, 0.02 × 2, then 0.5 × 1
    assert stats.holm([0.5, 0.01, 0.02]) == pytest.approx([0.5, 0.03, 0.04])
    assert stats.holm([0.4, 0.3]) == [0.6, 0.6]  # never below a smaller one's
    assert math.isnan(stats.holm([math.nan, 0.01])[0])
    assert stats.holm([math.nan, 0.01])[1] == 0.01


def test_trend():
    slope, chance = stats.trend([1, 2, 3, 4, 5, 6])
    assert slope == 1
    assert chance < 0.005
    assert stats.trend([6, 5, 4, 3, 2, 1])[1] > 0.99
    assert math.isnan(stats.trend([1, 2, 3])[0])
    assert stats.trend([2, 2, 2, 2]) == (0.0, 1.0)


def test_a_step_between_levels():
    assert stats.step_changes([10.0, 10.1, 9.9, 10, 12, 12.1, 11.9, 12]) == [4]
    assert stats.step_changes([10, 10, 10, 12, 12, 12, 10, 10]) == [3, 6]
    assert stats.step_changes([10, 10, 10]) == []
    assert stats.step_changes([10, 10.1, 9.9, 10, 15]) == []  # one value is no level


def test_a_drift_is_no_step():
    assert stats.step_changes([100 + 0.5 * n + 0.1 * (n % 2) for n in range(14)]) == []


def test_noise_is_no_step():
    rng = np.random.default_rng(5)
    found = sum(bool(stats.step_changes(rng.standard_normal(20))) for _ in range(200))
    assert found <= 60  # rare enough for a hint that no verdict hangs on


@pytest.mark.parametrize("likeness", [0.0, 0.3])
def test_intervals_hold_what_they_promise(likeness):
    """20 steps, also such that resemble their neighbours: at 1 %, false alarms stay in that order."""
    rng = np.random.default_rng(11)
    false = 0
    for _ in range(1000):
        sides = []
        for _ in range(2):
            noise = rng.standard_normal(40)
            for at in range(1, 40):
                noise[at] = likeness * noise[at - 1] + math.sqrt(1 - likeness**2) * noise[at]
            sides.append(stats.mean_of_steps(noise[20:]))
        error = math.sqrt(sum(side.variance for side in sides))
        freedom = min(side.freedom for side in sides) * 2
        value = (sides[1].value - sides[0].value) / error
        false += value > 1.5 and stats.student_tail(value, freedom) < 0.01
    assert false <= 25
