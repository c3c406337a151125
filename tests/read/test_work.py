import pytest

from tests.read import tiny
from tests.read.tiny import GEMM, MAIN, NCCL, OTHER_THREAD, busy, kernel, launch, noted, op, part, rows, span
from tracekit.intervals import length
from tracekit.model import NO_TIME
from tracekit.read.work import CLOCK_BEHIND_NS


def ends(events, **metadata):
    """Start and end of each piece of work in a trace."""
    return rows(part(events, **metadata).work, "start_ns", "end_ns")


def kinds(*events):
    """Name and kind of each row."""
    found = part(list(events))
    return {name: kind for table in (found.work, found.host) for name, kind in rows(table, "name", "kind")}


def test_work_is_kernels_copies_and_sets_and_nothing_else():
    events = [
        kernel(1, 2, "gemm"),
        kernel(1, 2, NCCL, 20),
        span("Memcpy HtoD", 1, 2, "gpu_memcpy"),
        span("Memset", 1, 2, "gpu_memset"),
        span("nccl:all_reduce", 1, 2, "gpu_user_annotation"),
        span("Stream Sync", 1, 2, "cuda_sync"),
        span("Stream Wait Event", 1, 2, "cuda_sync"),
        span("Activity Buffer Request", 1, 2, "overhead"),
        span("PyTorch Profiler (0)", 1, 2, "Trace"),
        op(1, 2, "aten::mm"),
        span("nothing", 1, 2, ""),
    ]
    found = part(events)
    assert set(rows(found.work, "name", "kind")) == {
        ("gemm", "compute"), (NCCL, "comm"), ("Memcpy HtoD", "memory"), ("Memset", "memory"),
    }  # fmt: skip
    assert dict(rows(found.host, "name", "kind")) == {
        "nccl:all_reduce": "device_annotation", "Stream Sync": "device_sync", "Stream Wait Event": "stream_wait",
        "Activity Buffer Request": "overhead", "PyTorch Profiler (0)": "other", "aten::mm": "operator",
        "nothing": "other",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("work", "runtime", "call"),
    [
        ("kernel", "cuda_runtime", "cudaLaunchKernel"),
        ("kernel", "cuda_driver", "cuLaunchKernelEx"),
        ("Kernel", "Runtime", "cudaLaunchKernel"),
        ("kernel", "hip_runtime", "hipModuleLaunchKernel"),
        ("kernel", "cuda_runtime", "hipExtModuleLaunchKernel"),
        ("kernel", "xpu_runtime", "urEnqueueKernelLaunch"),
        ("mtia_ccp_events", "mtia_runtime", "runFunction"),
        ("kernel", "npu_runtime", "aclrtLaunchKernel"),
        ("kernel", "privateuse1_runtime", "launch"),
        ("gpu_memcpy", "cuda_runtime", "cudaMemcpyAsync"),
        ("Memset", "Runtime", "cudaMemsetAsync"),
    ],
)
def test_work_is_joined_to_its_launch(work, runtime, call):
    found = part([launch(3, 5, name=call, cat=runtime), span("k", 9, 12, work, correlation=3)])
    assert rows(found.work, "launch_ns", "start_ns") == [(5, 9)]
    assert rows(found.host, "kind", "correlation") == [("launch", 3)]


def test_calls_that_launch_nothing_are_no_launches():
    found = part([launch(3, 5), launch(4, 6), kernel(9, 12, correlation=3)])
    assert rows(found.host, "kind") == [("launch",), ("runtime",)]


def test_a_synchronising_copy_launches_and_still_synchronises():
    found = part([launch(3, 5, name="cudaMemcpy"), span("Memcpy HtoD", 6, 9, "gpu_memcpy", correlation=3)])
    assert rows(found.work, "launch_ns") == [(5,)]
    assert rows(found.host, "kind") == [("synchronize",)]


def test_one_launch_may_have_many_kernels():
    events = [launch(3, 5, name="cudaGraphLaunch"), *(kernel(at, at + 1, correlation=3) for at in (9, 11, 13))]
    assert rows(part(events).work, "launch_ns", "start_ns") == [(5, 9), (5, 11), (5, 13)]


def test_the_first_call_with_an_id_is_the_launch():
    events = [launch(3, 7), launch(3, 5, OTHER_THREAD), kernel(9, 12, correlation=3)]
    assert rows(part(events).work, "launch_ns") == [(5,)]


def test_a_launch_may_stand_behind_its_kernel_in_the_file():
    assert rows(part([kernel(9, 12, correlation=3), launch(3, 5)]).work, "launch_ns") == [(5,)]


@pytest.mark.parametrize("correlation", [0, None, -1, ""])
def test_no_correlation_joins_nothing(correlation):
    [launch_ns] = part([launch(correlation, 5), kernel(9, 12, correlation=correlation)]).work["launch_ns"]
    assert launch_ns == NO_TIME


def test_operators_launch_nothing():
    [launch_ns] = part([op(1, 8, correlation=3), kernel(9, 12, correlation=3)]).work["launch_ns"]
    assert launch_ns == NO_TIME


def test_ids_above_63_bits_join_exactly():
    ids = [2**64 - 1, 2**64 - 2, 2**63]
    events = [e for n, i in enumerate(ids) for e in (launch(i, n), kernel(10 + n, 11 + n, correlation=i))]
    assert rows(part(events).work, "launch_ns") == [(0,), (1,), (2,)]


def test_stream_waits_are_joined_to_their_launch_and_lie_on_their_stream():
    wait = span("Stream Wait Event", 6, 7, "cuda_sync", (0, 1_000_020), correlation=3)
    found = part([launch(3, 5, name="cudaStreamWaitEvent"), wait, kernel(9, 12, stream=20)])
    [row] = [row for row in rows(found.host, "kind", "lane", "launch_ns") if row[0] == "stream_wait"]
    assert row == ("stream_wait", "0/20", 5)


# What cannot be


def test_a_duration_that_overruns_the_next_start_is_cut_there():
    found = part([kernel(0, 5000), kernel(10, 20), kernel(30, 40)])
    assert rows(found.work, "start_ns", "end_ns") == [(0, 10), (10, 20), (30, 40)]
    assert noted(found) == {"overrun": 1, "no-steps": 1}


@pytest.mark.parametrize(
    ("first", "second", "cut"),
    [
        ((0, 1010), (10, 20), False),  # overruns by 1 ms, not by more
        ((0, 1011), (10, 20), True),
        ((0, 4400), (400, 500), False),  # overruns by 4000 us, 10 times the gap
        ((0, 4401), (400, 500), True),
        ((0, 15), (10, 20), False),  # launches that overlap on purpose
        ((0, 5000), (5000, 5010), False),
    ],
)
def test_how_much_is_too_much(first, second, cut):
    found = part([kernel(*first), kernel(*second)])
    assert rows(found.work, "start_ns", "end_ns") == [(first[0], second[0] if cut else first[1]), second]
    assert ("overrun" in noted(found)) == cut


def test_other_streams_do_not_cut():
    assert ends([kernel(0, 5000), kernel(10, 20, stream=8)]) == [(0, 5000), (10, 20)]


def test_an_overrun_reaches_no_total():
    found = part([kernel(0, 90_000), kernel(10, 20), kernel(100, 110)])
    busy = found.work["end_ns"] - found.work["start_ns"]
    assert busy.sum() == 10_000 + 10_000 + 10_000


def test_work_that_ends_before_its_launch_began_is_left_out():
    found = part([launch(3, 50), kernel(10, 20, correlation=3), kernel(60, 70)])
    assert rows(found.work, "start_ns", "end_ns") == [(60, 70)]
    assert noted(found)["before-launch"] == 1
    assert found.identity.dropped == 1


def test_work_that_only_starts_before_its_launch_stays():
    found = part([launch(3, 15), kernel(10, 20, correlation=3)])
    assert rows(found.work, "start_ns", "end_ns") == [(10, 20)]
    assert "before-launch" not in noted(found)
    assert found.work["launch_ns"].tolist() == [10_000]  # no later than the start


def test_a_device_clock_that_is_usually_behind_makes_no_work_impossible():
    events = [e for n in range(1, 31) for e in (launch(n, 100 * n), kernel(100 * n - 20, 100 * n - 10, correlation=n))]
    found = part(events)
    assert len(found.work) == 30
    assert noted(found) == {"device-clock": 30, "no-steps": 1}


def test_work_far_before_its_launch_is_left_out_even_then():
    events = [e for n in range(1, 31) for e in (launch(n, 100 * n), kernel(100 * n - 20, 100 * n - 10, correlation=n))]
    far = 5000 - CLOCK_BEHIND_NS // 1000 - 60
    found = part([*events, launch(99, 5000), kernel(far, far + 10, correlation=99)])
    assert len(found.work) == 30
    assert noted(found)["before-launch"] == 1


@pytest.mark.parametrize(("ts", "dur"), [(0, 0), (10, -5), (10, None)])
def test_impossible_times_are_noted_and_left_out(ts, dur):
    found = part([kernel(20, 30), {**kernel(1, 2), "ts": ts, "dur": dur}])
    assert rows(found.work, "start_ns", "end_ns") == [(20, 30)]
    assert noted(found)["impossible-time"] == 1
    assert found.identity.dropped == 1


def test_a_kernel_without_length_counts_as_a_call_and_adds_nothing():
    found = part([kernel(10, 20), kernel(15, 15, NCCL, 20)])
    assert len(found.work) == len(found.calls) + 1 == 2
    assert length(tiny.busy(found, "comm")) == 0


# CPU traces

GLOO_THREAD, AUTOGRAD_THREAD = (100, 7), (100, 3)


def gloo(start, end, name="all_reduce", lane=GLOO_THREAD, **args):
    return span(f"gloo:{name}", start, end, "user_annotation", lane, **args)


def work_names(*events):
    return [name for (name,) in rows(part([tiny.step(0, 0, 100), *events]).work, "name")]


def test_a_cpu_trace_computes_in_operators_and_communicates_in_gloos_spans():
    found = part([tiny.step(0, 0, 100), op(1, 5, "aten::mm"), op(2, 3, "aten::empty"), gloo(10, 20)])
    assert rows(found.work, "name", "kind") == [
        ("aten::mm", "compute"),
        ("aten::empty", "compute"),
        ("gloo:all_reduce", "comm"),
    ]
    assert found.identity.device == "cpu"


@pytest.mark.parametrize("name", ["aten::mm", "fbgemm::jagged", "torchvision::nms", "mkldnn::linear", "aten::_to_copy"])
def test_dispatcher_operators_compute(name):
    assert work_names(op(1, 5, name), op(1, 5, name, AUTOGRAD_THREAD)) == [name, name]


@pytest.mark.parametrize(
    "name",
    [
        "autograd::engine::evaluate_function: MmBackward0", "c10d::allreduce_", "_c10d_functional::all_reduce",
        "MmBackward0", "torch::autograd::AccumulateGrad", "record_param_comms", "Optimizer.step#SGD.step", "forward",
        "DistributedDataParallel.forward", "detach",
    ],
)  # fmt: skip
def test_other_spans_do_not_compute(name):
    assert work_names(op(1, 5, name)) == []


@pytest.mark.parametrize("cat", ["user_annotation", "python_function", "cpu_instant_event", "overhead"])
def test_only_operators_compute(cat):
    assert work_names(op(1, 5, "aten::mm", cat=cat)) == []


@pytest.mark.parametrize(
    "outer", ["c10d::allreduce_", "_c10d_functional::all_reduce", "record_param_comms", "gloo:all_reduce"]
)
def test_what_a_communication_span_contains_on_its_thread_is_no_compute(outer):
    inside, beside, other = op(2, 4, "aten::copy_"), op(6, 8, "aten::mm"), op(2, 4, "aten::add", AUTOGRAD_THREAD)
    found = work_names(op(1, 5, outer, cat="user_annotation" if ":" in outer[4:5] else "cpu_op"), inside, beside, other)
    assert [name for name in found if name.startswith("aten::")] == ["aten::add", "aten::mm"]


@pytest.mark.parametrize("inner", ["_c10d_functional::wait_tensor", "c10d::allreduce_", "_c10d_functional::all_reduce"])
def test_an_operator_computes_without_what_it_communicates_or_waits(inner):
    # As DTensor's do: 100 us, of which 60 wait; then an operator of its own inside, and one behind.
    events = [
        op(0, 100, "aten::add"),
        op(20, 80, inner),
        op(30, 40, "aten::copy_"),
        op(85, 95, "aten::add_"),
        op(120, 130),
    ]
    found = part([tiny.step(0, 0, 200), *events])
    assert rows(found.work, "name", "start_ns", "end_ns") == [
        ("aten::add", 0, 20), ("aten::add", 80, 100), ("aten::add_", 85, 95), ("aten::mm", 120, 130),
    ]  # fmt: skip
    assert length(busy(found, "compute")) == 50_000
    assert ("aten::copy_",) in rows(found.host, "name")


def test_what_waits_on_another_thread_takes_nothing_from_an_operator():
    found = part([tiny.step(0, 0, 200), op(0, 100), op(20, 80, "_c10d_functional::wait_tensor", OTHER_THREAD)])
    assert rows(found.work, "start_ns", "end_ns") == [(0, 100)]


def test_two_waits_in_one_operator_leave_three_pieces():
    waits = [op(10, 20, "_c10d_functional::wait_tensor"), op(30, 40, "_c10d_functional::wait_tensor")]
    found = part([tiny.step(0, 0, 200), op(0, 100), *waits])
    assert rows(found.work, "start_ns", "end_ns") == [(0, 10), (20, 30), (40, 100)]


WAIT = "wait:recv group=0 seq=1 bytes=8 dtype=float32 src=1 dst=0"


def test_an_annotated_wait_for_a_receive_is_communication_and_no_compute():
    found = part([tiny.step(0, 0, 200), op(0, 100), op(20, 80, WAIT, cat="user_annotation")])
    assert rows(found.work, "kind", "start_ns", "end_ns") == [
        ("compute", 0, 20), ("comm", 20, 80), ("compute", 80, 100),
    ]  # fmt: skip
    assert rows(found.work, "operation")[1] == ("recv",)


def test_a_thread_that_only_waits_for_receives_is_the_programs_own():
    events = [op(20, 80, WAIT, AUTOGRAD_THREAD, "user_annotation"), op(81, 90, "aten::add", AUTOGRAD_THREAD), op(0, 1)]
    assert work_names(*events) == ["aten::mm", WAIT, "aten::add"]


def test_gloos_own_threads_do_not_compute():
    assert work_names(gloo(10, 20), op(30, 40, "aten::mm", GLOO_THREAD), op(30, 40, "aten::add")) == [
        "gloo:all_reduce", "aten::add",
    ]  # fmt: skip


def test_a_thread_that_issues_calls_is_the_programs_own_even_if_gloo_runs_on_it():
    events = [gloo(10, 20, lane=MAIN), op(30, 40, "aten::mm"), op(50, 51, "c10d::allreduce_")]
    assert work_names(*events) == ["gloo:all_reduce", "aten::mm"]


def test_handles_of_sends_and_receives_are_calls_but_no_communication():
    found = part([tiny.step(0, 0, 100), op(1, 5), gloo(10, 90, "send"), gloo(10, 95, "recv"), gloo(20, 30)])
    assert rows(found.work, "name") == [("aten::mm",), ("gloo:all_reduce",)]
    assert rows(found.calls, "op", "device_work") == [("send", False), ("recv", False), ("all_reduce", True)]


def test_what_is_computed_while_a_handle_lives_is_compute():
    assert work_names(gloo(10, 90, "send", MAIN), op(20, 30)) == ["aten::mm"]


def test_with_device_rows_gloos_spans_are_no_work():
    found = part([kernel(1, 2), gloo(10, 20), op(1, 5)])
    assert rows(found.work, "name") == [(GEMM,)]


def test_a_trace_without_any_work():
    found = part([tiny.span("forward", 1, 5, "user_annotation", MAIN)])
    assert (len(found.work), len(found.steps)) == (0, 0)
    assert noted(found) == {"no-work": 1}


# Kernels that must be missing


def launched(count, without=(), name="cudaLaunchKernel"):
    """Launches one after another, and the kernels of some."""
    calls = [launch(nth, 10 * nth, name=name) for nth in range(1, count + 1)]
    return [
        *calls,
        *(kernel(10 * nth + 3, 10 * nth + 5, correlation=nth) for nth in range(1, count + 1) if nth not in without),
    ]


@pytest.mark.parametrize(
    "name", ["cudaLaunchKernel", "cudaLaunchKernelExC", "hipModuleLaunchKernel", "urEnqueueKernelLaunch"]
)
def test_launches_that_led_to_no_kernel_are_lost_kernels(name):
    found = part(launched(20, without=range(5, 11), name=name))
    assert noted(found)["lost-work"] == 6


def test_a_few_may_have_failed():
    assert "lost-work" not in noted(part(launched(20, without=range(5, 9))))


def test_what_was_launched_at_the_ends_of_a_file_is_not_lost():
    assert "lost-work" not in noted(part(launched(20, without=[1, 2, 3, 4, 18, 19, 20])))


def test_two_calls_that_launch_one_kernel():
    """A driver's call inside a runtime's call, with the same correlation."""
    again = [launch(nth, 10 * nth, name="cuLaunchKernel", cat="cuda_driver") for nth in range(1, 21)]
    assert "lost-work" not in noted(part([*again, *launched(20)]))


def test_kernels_of_a_graph_are_not_lost_while_it_is_captured():
    capturing = [launch(0, 49, name="cudaStreamBeginCapture"), launch(0, 101, name="cudaStreamEndCapture")]
    assert "lost-work" not in noted(part([*launched(20, without=range(5, 11)), *capturing]))
    assert "lost-work" in noted(part([*launched(30, without=range(5, 21)), *capturing]))
