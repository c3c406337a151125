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


@pytest.mark.parametrize(
    ("schedule", "ranks", "microbatches", "stages", "share"),
    [("1f1b", 4, 8, 1, 0.273), ("interleaved", 4, 8, 2, 0.158), ("gpipe", 8, 16, 1, 0.304),
     ("interleaved", 8, 16, 2, 0.179)],
)  # fmt: skip
def test_bubbles_of_the_makespan_that_are_often_quoted(schedule, ranks, microbatches, stages, share):
    assert bubble_of_makespan(schedule, ranks, microbatches, stages) == pytest.approx(share, abs=0.0005)


def test_zero_bubble_h1_is_a_third_of_1f1b_where_its_parts_are_alike():
    assert bubble_of_ideal("zero-bubble", 8, 16) == pytest.approx(bubble_of_ideal("1f1b", 8, 16) / 3)
    assert zero_bubble_ns(8, 1, 1, 1) == (8 - 1) * (1 + 1 + 1) / 3


def test_the_papers_zero_counts_each_rank_from_its_own_first_work():
    own = {name: pipeline.bubble_of_own_window(name, 4, 8, 2) for name in ("zero-bubble-h2", "zbv", "interleaved")}
    assert own == {"zero-bubble-h2": 0, "zbv": 0, "interleaved": 3 / 16}


def test_dualpipev_as_its_authors_have_it():
    # F 1, B 2 of which W 1; together they take no less: (p - 1)·(3 + 2 - 3).
    assert pipeline.dualpipev_ns(4, 3, 2, 1) == 6


@pytest.mark.parametrize(
    ("schedule", "stages", "held"),
    [("gpipe", 1, 16), ("1f1b", 1, 4), ("interleaved", 2, 11), ("looped-bfs", 2, 32), ("zero-bubble", 1, 4),
     ("zero-bubble-h2", 1, 7), ("zbv", 2, 8), ("dualpipev", 2, 9)],
)  # fmt: skip
def test_activations_in_flight_on_the_first_of_four_ranks(schedule, stages, held):
    assert pipeline.in_flight(schedule, 4, 16, stages) == held


def test_later_ranks_hold_less_and_none_more_than_there_is():
    assert [pipeline.in_flight("1f1b", 4, 16, place=place) for place in range(4)] == [4, 3, 2, 1]
    assert pipeline.in_flight("1f1b", 4, 2) == 2
