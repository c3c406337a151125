import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.read import tiny
from tests.read.tiny import MAIN, OTHER_THREAD, kernel, launch, noted, op, part, rows, span, step
from tracekit.model import NO_STEP, NO_TIME
from tracekit.read.steps import device_windows


def windows(*events):
    """Number, begin and end of each step."""
    return rows(part(list(events)).steps, "step", "start_ns", "end_ns")


def launched(correlation, at, start, end, thread=MAIN, stream=7):
    return [launch(correlation, at, thread), kernel(start, end, stream=stream, correlation=correlation)]


def steps_of_work(*events):
    return [number for (number,) in rows(part(list(events)).work, "step")]


def test_steps_that_keep_up_with_the_host():
    assert windows(step(4, 0, 10), step(5, 10, 20), kernel(2, 8), kernel(12, 18)) == [(4, 0, 10), (5, 10, 20)]


def test_a_step_begins_when_the_work_launched_before_it_is_done():
    events = [step(4, 0, 10), step(5, 10, 20), *launched(1, 5, 6, 14), *launched(2, 15, 16, 30)]
    assert windows(*events) == [(4, 0, 14), (5, 14, 30)]


def test_on_whichever_lane():
    events = [step(4, 0, 10), step(5, 10, 20), *launched(1, 5, 6, 12), *launched(2, 6, 8, 17, stream=20)]
    assert windows(*events) == [(4, 0, 17), (5, 17, 20)]


def test_a_step_begins_with_its_host_span_where_the_device_is_idle():
    assert windows(step(4, 0, 10), step(5, 30, 40), *launched(1, 5, 6, 14)) == [(4, 0, 30), (5, 30, 40)]


def test_the_last_step_ends_with_its_last_work():
    assert windows(step(4, 0, 10), *launched(1, 5, 6, 90)) == [(4, 0, 90)]


def test_work_launched_after_all_steps_does_not_prolong_the_last():
    assert windows(step(4, 0, 10), *launched(1, 5, 6, 12), *launched(2, 15, 16, 90)) == [(4, 0, 12)]


def test_a_gap_in_the_numbers_ends_the_tiling():
    events = [step(4, 0, 10), step(5, 10, 20), step(9, 50, 60), *launched(1, 15, 16, 24), *launched(2, 55, 56, 58)]
    assert windows(*events) == [(4, 0, 10), (5, 10, 24), (9, 50, 60)]


def test_work_late_across_a_gap_delays_the_step_behind_it():
    events = [step(4, 0, 10), step(9, 50, 60), *launched(1, 5, 6, 55)]
    assert windows(*events) == [(4, 0, 55), (9, 55, 60)]


def test_steps_need_not_stand_in_order_in_the_file():
    assert windows(step(5, 10, 20), kernel(2, 8), step(4, 0, 10)) == [(4, 0, 10), (5, 10, 20)]


def test_a_launch_from_another_thread_counts_by_its_time():
    events = [
        step(4, 0, 10),
        step(5, 10, 20),
        *launched(1, 5, 13, 14, OTHER_THREAD),
        *launched(2, 15, 16, 18, OTHER_THREAD),
    ]
    assert steps_of_work(*events) == [4, 5]
    assert windows(*events) == [(4, 0, 14), (5, 14, 20)]


def test_all_kernels_of_one_launch_belong_to_its_step():
    graph = [launch(1, 5, name="cudaGraphLaunch"), *(kernel(at, at + 2, correlation=1) for at in (6, 9, 12))]
    events = [step(4, 0, 10), step(5, 10, 20), *graph]
    assert steps_of_work(*events) == [4, 4, 4]
    assert windows(*events) == [(4, 0, 14), (5, 14, 20)]


def test_work_launched_before_the_file_began_precedes_the_first_step():
    early = kernel(0, 6)
    events = [step(4, 0, 10), early, *launched(1, 5, 7, 9)]
    assert steps_of_work(*events) == [NO_STEP, 4]
    assert windows(*events) == [(4, 6, 10)]


def test_work_without_a_launch_behind_launched_work_goes_by_its_own_start():
    assert steps_of_work(step(4, 0, 10), step(5, 10, 20), *launched(1, 2, 3, 4), kernel(6, 8), kernel(12, 14)) == [
        4,
        4,
        5,
    ]


def test_the_first_launched_work_is_looked_for_on_the_same_lane():
    events = [step(4, 0, 10), kernel(3, 4, stream=7), kernel(3, 4, stream=8), *launched(1, 2, 5, 6, stream=7)]
    found = part(events)
    assert sorted(rows(found.work, "lane", "start_ns", "step")) == [("0/7", 3, NO_STEP), ("0/7", 5, 4), ("0/8", 3, 4)]


def test_launches_outside_all_steps_belong_to_none():
    events = [
        step(4, 10, 20),
        step(5, 30, 40),
        *launched(1, 5, 12, 13),
        *launched(2, 25, 26, 27),
        *launched(3, 45, 46, 47),
    ]
    assert steps_of_work(*events) == [NO_STEP, NO_STEP, NO_STEP]


def test_a_launch_at_the_border_belongs_to_the_step_that_begins():
    assert steps_of_work(step(4, 0, 10), step(5, 10, 20), *launched(1, 10, 11, 12), *launched(2, 20, 21, 22)) == [
        5,
        NO_STEP,
    ]


def test_only_the_hosts_annotations_are_steps():
    copies = [step(8, 0, 90, (0, 7), "gpu_user_annotation"), span("ProfilerStep#9", 0, 90, "Trace"), kernel(2, 8)]
    assert windows(step(4, 0, 10), *copies) == [(4, 0, 10)]


@pytest.mark.parametrize("cat", ["user_annotation", "cpu_op", "Operator"])
def test_steps_in_old_and_new_files(cat):
    assert windows(step(4, 0, 10, cat=cat), kernel(2, 8)) == [(4, 0, 10)]


def test_of_a_number_seen_twice_the_longest_counts():
    events = [step(4, 2, 5, OTHER_THREAD), step(4, 0, 10), step(4, 1, 9, OTHER_THREAD), kernel(2, 8)]
    assert windows(*events) == [(4, 0, 10)]


def test_without_steps_all_is_one_over_the_device_span():
    found = part([op(0, 99), *launched(1, 5, 20, 30), kernel(40, 230)])
    assert rows(found.steps, "step", "start_ns", "end_ns", "complete") == [(0, 20, 230, True)]
    assert noted(found) == {"no-steps": 1}
    assert found.work["step"].tolist() == [0, 0]


def test_with_steps_and_no_device_the_hosts_spans_are_the_windows():
    assert windows(step(4, 0, 10), step(5, 12, 20), op(2, 9), op(13, 30)) == [(4, 0, 10), (5, 12, 20)]


def busy_step(number, kernels):
    begin = 1000 * number
    work = [e for n in range(kernels) for e in launched(begin + n + 1, begin + n, begin + 10 + n, begin + 11 + n)]
    return [step(number, begin, begin + 1000), *work]


def completeness(*counts):
    found = part([event for number, count in enumerate(counts, 1) for event in busy_step(number, count)])
    return found.steps["complete"].tolist(), noted(found).get("incomplete-step", 0)


@pytest.mark.parametrize(
    ("counts", "complete"),
    [
        ((100, 100, 80), [True, True, True]),
        ((100, 100, 79), [True, True, False]),
        ((79, 100, 100, 300), [False, True, True, True]),
        ((100, 79), [True, True]),  # two steps cannot tell what is usual
        ((19, 19, 1), [True, True, True]),  # nor can so little work
        ((20, 20, 1), [True, True, False]),
    ],
)
def test_a_step_with_far_less_work_than_usual_is_incomplete(counts, complete):
    assert completeness(*counts)[0] == complete


def test_incomplete_steps_are_noted_and_stay_in_the_table():
    found = part([event for number, count in [(1, 30), (2, 30), (3, 2)] for event in busy_step(number, count)])
    [note] = [note for note in found.notes if note.code == "incomplete-step"]
    assert "step 3" in note.message
    assert found.steps["step"].tolist() == [1, 2, 3]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 20)), min_size=1, max_size=8),
    st.lists(st.tuples(st.just(NO_TIME) | st.integers(0, 150), st.integers(0, 60)), max_size=12),
)
def test_windows_tile_and_no_work_outlasts_the_step_behind_its_own(spans, works):
    begins = np.cumsum([gap + long for gap, long in spans]) - [long for _, long in spans]
    host = pd.DataFrame({"step": range(len(spans)), "start_ns": begins, "end_ns": begins + [long for _, long in spans]})
    launches = np.array([launch for launch, _ in works], np.int64)
    ends = np.array([max(launch, 0) + long for launch, long in works], np.int64)
    found = device_windows(host, launches, ends)
    assert (found["start_ns"] <= found["end_ns"]).all()
    assert found["start_ns"].tolist()[1:] == found["end_ns"].tolist()[:-1]
    for begin, window in zip(begins, found.itertuples(), strict=True):
        before = [end for launch, end in zip(launches, ends, strict=True) if launch < begin]
        assert window.start_ns == max([begin, *before])


def test_negative_and_huge_step_numbers_are_no_steps():
    assert windows(tiny.span("ProfilerStep#-1", 0, 10, "user_annotation", MAIN), step(4, 0, 10), kernel(2, 8)) == [
        (4, 0, 10)
    ]
