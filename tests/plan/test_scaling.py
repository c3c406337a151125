from dataclasses import replace
from itertools import pairwise

import pytest

from tracekit.plan.hardware import Link, preset
from tracekit.plan.scaling import data_parallel_speedup, exposed_all_reduce, scaling
from tracekit.plan.search import Request
from tracekit.plan.transformer import preset as model_preset


def test_when_8_times_becomes_3_times():
    assert data_parallel_speedup(8, 1.0, 0.0) == 8
    assert data_parallel_speedup(8, 1.0, 5 / 3) == pytest.approx(3)


def test_an_all_reduce_shows_what_the_backward_does_not_hide():
    link = Link(1e9, 0.0)
    # 7 GB of gradients among 8: 12.25 s.
    assert exposed_all_reduce(8, 7e9, link, 2.25) == pytest.approx(10)
    assert exposed_all_reduce(8, 7e9, link, 100, buckets=49) == pytest.approx(0.25)
    assert exposed_all_reduce(1, 7e9, link, 0) == 0


def test_the_same_batch_on_more_gpus_gains_less_and_less():
    slow = replace(preset("a100-80gb", 8), between=Link(1e8, 1e-5))
    points = scaling(Request(model_preset("llama-7b"), slow, 64), [1, 8, 16, 64])
    assert (points[0].plan, points[0].speedup) == (None, None)
    assert points[1].speedup == 1
    shares = [point.speedup / (point.gpus / 8) for point in points[1:]]
    assert all(1.001 >= earlier >= later for earlier, later in pairwise(shares))
    assert shares[-1] < 0.95
