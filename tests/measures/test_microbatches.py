import pytest

from tests import lanes
from tests.pipelines import pipeline, torch_gpipe
from tests.read.tiny import kernel, launch, op, span, step, write
from tracekit import Analysis, load
from tracekit.errors import NotMeasured
from tracekit.model import NO_TIME

MAIN, AUTOGRAD = (100, 1), (100, 2)


def actions(run):
    """Stage, action, micro-batch and, in microseconds since the step began, start, end, busy."""
    rows = Analysis(run)["microbatches"]
    begin = run.steps["start_ns"].min()
    return [
        (row.stage, row.action, row.microbatch, (row.start_ns - begin) / 1000, (row.end_ns - begin) / 1000,
         row.busy_ns / 1000)
        for row in rows.itertuples()
    ]  # fmt: skip


@pytest.fixture
def read(tmp_path):
    def run(*events):
        return load(write(tmp_path, [step(0, 0, 100), *events]))

    return run


def annotation(name, start, end):
    return span(name, start, end, "user_annotation", MAIN)


def test_all_four_kinds_of_action(tmp_path):
    assert actions(pipeline("0 0.Ann.b", tmp_path)) == [
        (0, "forward", 0, 0, 1, 1),
        (0, "backward_input", 0, 2, 3, 1),
        (0, "backward_weight", 0, 3, 5, 2),
        (0, "backward", 1, 6, 7, 1),
    ]


def test_an_action_is_the_compute_launched_inside_whichever_thread_did_it(read):
    run = read(
        *(annotation("PP:2B7", 10, 40), launch(1, 12), launch(2, 20, AUTOGRAD), launch(3, 50, AUTOGRAD)),
        *(kernel(30, 35, correlation=1), kernel(60, 70, correlation=2), kernel(70, 80, correlation=3)),
        kernel(32, 34, "Memcpy", correlation=1),
    )
    assert actions(run) == [(2, "backward", 7, 30, 70, 15)]
    table = Analysis(run)["microbatches"]
    assert (table["host_end_ns"] - table["host_start_ns"]).tolist() == [30_000]


def test_annotations_without_a_stage(tmp_path):
    [forward, backward] = actions(pipeline("0 0.aa", tmp_path, spelled=torch_gpipe))
    assert forward[1:] == ("forward", 0, 0, 1, 1)
    assert backward[1:] == ("backward", 0, 2, 4, 2)
    assert Analysis(pipeline("0 0.aa", tmp_path, spelled=torch_gpipe))["microbatches"]["stage"].isna().all()


def test_of_nested_annotations_those_with_a_stage_count_and_of_these_the_inner_ones(read):
    run = read(
        *(annotation("PP:0F1", 0, 40), annotation("PP:0F1", 10, 20), annotation("forward microbatch=1", 12, 15)),
        *(launch(1, 5), launch(2, 11), launch(3, 13)),
        *(kernel(5, 9, correlation=1), kernel(11, 13, correlation=2), kernel(13, 14, correlation=3)),
    )
    assert actions(run) == [(0, "forward", 1, 11, 14, 3)]


def test_two_actions_of_one_annotation_share_its_time(read):
    run = read(annotation("PP:(0F3;1B2)OVERLAP_F_B", 0, 20), launch(1, 1), kernel(10, 30, correlation=1))
    assert actions(run) == [(0, "forward", 3, 10, 20, 10), (1, "backward", 2, 20, 30, 10)]


def test_sends_and_receives_are_no_action_and_gaps_are_not_busy(read):
    run = read(
        *(annotation("PP:0F0", 0, 20), launch(1, 1), launch(2, 2), launch(3, 3)),
        *(kernel(10, 15, correlation=1), kernel(20, 24, correlation=3)),
        kernel(15, 20, "ncclDevKernel_SendRecv", 20, correlation=2),
    )
    assert actions(run) == [(0, "forward", 0, 10, 24, 9)]


def test_the_copies_of_annotations_on_the_device_do_not_count(read):
    copy = span("PP:0F0", 0, 50, "gpu_user_annotation", (0, 7))
    run = read(copy, annotation("PP:0F0", 0, 3), launch(1, 1), launch(2, 10), kernel(5, 8, correlation=1))
    assert actions(run) == [(0, "forward", 0, 5, 8, 3)]


def test_on_a_cpu_trace_the_operators_that_begin_inside(read):
    run = read(annotation("PP:0F0", 0, 20), op(2, 8), op(10, 12, lane=AUTOGRAD), op(30, 40))
    assert actions(run) == [(0, "forward", 0, 2, 12, 8)]


def test_an_action_that_computes_nothing_has_no_row(read):
    assert len(actions(read(annotation("PP:0F0", 0, 5), annotation("PP:0B0", 5, 9), op(1, 2)))) == 1


def test_of_chosen_steps_only(tmp_path):
    run = pipeline("step 0000011111\n0 0.aa.0.aa.", tmp_path)
    assert len(actions(run)) == 4
    assert len(actions(run.only_steps(1, 1))) == 2


def test_work_whose_launch_is_unknown_is_inside_nothing():
    drawing = "0/main AAAA op=forward:0:0\n0/main a... \n0/7 CCcc by=a-"
    table = Analysis(lanes.run(drawing))["microbatches"]
    assert table["busy_ns"].tolist() == [2000]
    assert lanes.run(drawing).rank(0).work["launch_ns"].tolist() == [0, NO_TIME]


def test_other_annotations_tell_no_action():
    with pytest.raises(NotMeasured, match="no annotation"):
        Analysis(lanes.run("0/main AAAA\n0/main a...\n0/7 CC.. by=a"))["microbatches"]
