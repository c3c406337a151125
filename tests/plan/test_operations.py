import math

import numpy as np
import pytest

from tracekit.errors import WrongUse
from tracekit.plan import operations
from tracekit.plan.memory import PRECISIONS


def test_a_checkpoint_has_no_gradients():
    assert operations.checkpoint_bytes(7e9, PRECISIONS["mixed-adam"]) == 98e9
    assert operations.checkpoint_seconds(98e9, 1e9) == 98


def test_llama_3s_failures_are_one_in_three_hours():
    # 54 days of 419 interruptions on 16,384 GPUs.
    assert operations.failures_per_day(16_384) == pytest.approx(7.76, abs=0.01)
    assert operations.seconds_between_failures(16_384) / 3600 == pytest.approx(3.09, abs=0.01)


def test_young_by_hand():
    assert operations.young_interval(50, 10_000) == 1000


def test_daly_is_near_young_for_short_checkpoints_and_bounded_for_long_ones():
    assert operations.daly_interval(1, 1e8) == pytest.approx(operations.young_interval(1, 1e8), rel=1e-3)
    assert operations.daly_interval(200, 100) == 100
    assert operations.daly_interval(10, math.inf) == math.inf


def test_no_interval_has_more_goodput_than_dalys():
    best = operations.daly_interval(60, 3600)
    others = [operations.goodput(best * factor, 60, 3600) for factor in (0.5, 0.8, 1.25, 2.0)]
    assert operations.goodput(best, 60, 3600) > max(others)


def test_goodput_by_drawing_failures():
    # A renewal process played out: work τ then checkpoint δ, a failure loses what is not saved and costs R.
    tau, delta, mean, restart = 100.0, 5.0, 400.0, 20.0
    random = np.random.default_rng(1)
    saved = clock = 0.0
    until = random.exponential(mean)
    while clock < 2e6:
        if until >= tau + delta:
            clock, until, saved = clock + tau + delta, until - tau - delta, saved + tau
            continue
        clock, until = clock + until, random.exponential(mean)
        while until < restart:
            clock, until = clock + until, random.exponential(mean)
        clock, until = clock + restart, until - restart
    assert operations.goodput(tau, delta, mean, restart) == pytest.approx(saved / clock, rel=0.02)


def test_nothing_fails_or_nothing_is_saved():
    assert operations.goodput(90, 10, math.inf) == 0.9
    assert operations.goodput(1e6, 10, 1) == 0.0
    with pytest.raises(WrongUse):
        operations.goodput(0, 10, 100)
    with pytest.raises(WrongUse):
        operations.checkpoint_seconds(1, 0)
