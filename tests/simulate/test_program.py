from tracekit.plan.schedule import Action
from tracekit.simulate.kernels import GEMM, TO_DEVICE
from tracekit.simulate.program import COMPUTE, DATA, Busy, Call, Launch, Recorder


def test_slots_count_work_and_tails_are_the_last_of_a_lane():
    recorder = Recorder()
    assert recorder.tail(COMPUTE) == -1
    assert [recorder.launch(GEMM, 5), recorder.collective("data", "all_reduce", 8, (0,)), recorder.launch(GEMM, 5)] == [
        0, 1, 2,
    ]  # fmt: skip
    assert (recorder.tail(COMPUTE), recorder.tail(DATA)) == (2, 1)
    program = recorder.program()
    assert (program.slots, [type(one) for one in program.work]) == (3, [Launch, Call, Launch])


def test_each_direction_between_two_ranks_has_a_lane():
    recorder = Recorder()
    for channel in ((0, 1), (1, 0), (0, 1)):
        recorder.transfer("send", 1, channel, 8)
    assert [work.lane for work in recorder.program().work] == [DATA + 1, DATA + 2, DATA + 1]
    assert recorder.program().lanes == DATA + 3


def test_a_late_start_comes_before_the_first_call_only():
    recorder = Recorder(late_ns=7)
    recorder.launch(GEMM, 5)
    recorder.collective("data", "all_reduce", 8)
    recorder.collective("data", "all_reduce", 8)
    assert [type(one) for one in recorder.program().instructions] == [Launch, Busy, Call, Call]


def test_without_overlap_calls_and_compute_wait_for_each_other_and_copies_do_not():
    recorder = Recorder(no_overlap=True)
    recorder.launch(GEMM, 5)
    recorder.collective("data", "all_reduce", 8)
    recorder.launch(TO_DEVICE, 5)
    recorder.launch(GEMM, 5)
    recorder.launch(GEMM, 5)
    assert [work.after for work in recorder.program().work] == [(), (0,), (), (1,), ()]


def test_actions_know_what_was_launched_in_them():
    recorder, action = Recorder(), Action("forward", 0, 3)
    recorder.launch(GEMM, 5)
    with recorder.inside("step"), recorder.inside("PP:0F3", action):
        recorder.launch(GEMM, 5)
        recorder.launch(GEMM, 5)
    recorder.launch(GEMM, 5)
    assert recorder.program().actions == ((action, range(1, 3)),)
