import pytest

from tracekit.plan import pipeline
from tracekit.plan.pipeline import bubble_of_ideal, bubble_of_makespan, zero_bubble_ns


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_two_stages_and_two_microbatches_are_idle_a_third_of_the_time(schedule):
    assert bubble_of_makespan(schedule, 2, 2) == 1 / 3
    assert bubble_of_ideal(schedule, 2, 2) == 1 / 2


@pytest.mark.parametrize("schedule", ["interleaved", "looped-bfs"])
def test_more_stages_on_a_rank_shorten_the_ramp(schedule):
    assert bubble_of_makespan(schedule, 4, 8, 2) == 3 / 19
    assert bubble_of_ideal(schedule, 4, 8, 2) == 3 / 16


@pytest.mark.parametrize("schedule", ["zero-bubble", "interleaved-zero-bubble", "zbv", "dualpipev"])
def test_zero_bubble_leaves_a_third_of_the_ramp(schedule):
    assert bubble_of_ideal(schedule, 4, 8) == 3 / 24
    assert bubble_of_makespan(schedule, 4, 8, 2) == 3 / 51


def test_one_rank_has_no_bubble():
    assert all(bubble_of_makespan(schedule, 1, 4) == 0 for schedule in pipeline.WAITS_PER_MICROBATCH)


def test_no_figure_is_made_up():
    with pytest.raises(KeyError):
        bubble_of_makespan("chimera", 4, 8)


def test_bubbles_of_handmade_zero_bubble_schedules():
    assert zero_bubble_ns(4, 10, 10, 10) == 30
    assert zero_bubble_ns(4, 10, 10, 10, in_flight=2) == 0
    assert zero_bubble_ns(4, 10, 12, 8) == 3 * 14
