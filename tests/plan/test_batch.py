import pytest

from tracekit.errors import WrongUse
from tracekit.plan.batch import accumulation_for, effective_batch, learning_rate, steps_per_epoch, warmed_up


@pytest.mark.parametrize(("gpus", "batch", "steps"), [(1, 16, 2500), (8, 128, 313)])
def test_forty_thousand_examples_by_eight_with_accumulation_two(gpus, batch, steps):
    assert effective_batch(8, gpus, 2) == batch
    assert steps_per_epoch(40_000, batch) == steps


def test_the_same_128_on_one_gpu():
    assert accumulation_for(128, 8) == 16
    assert effective_batch(8, 1, 16) == effective_batch(8, 8, 2)


def test_the_last_step_may_be_dropped():
    assert steps_per_epoch(40_000, 128, drop_last=True) == 312


def test_a_batch_that_does_not_divide_says_what_would():
    with pytest.raises(WrongUse, match="128 would"):
        accumulation_for(130, 8, 2)


def test_learning_rates_for_four_times_the_batch():
    assert learning_rate(0.1, 256, 1024) == 0.4
    assert learning_rate(0.1, 256, 1024, "square-root") == 0.2
    with pytest.raises(WrongUse):
        learning_rate(0.1, 256, 1024, "cubic")


def test_warm_up_is_a_line():
    assert [warmed_up(1.0, step, 4) for step in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    assert warmed_up(1.0, 0, 0) == 1.0
