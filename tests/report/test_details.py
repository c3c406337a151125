import pytest

from tests import lanes
from tracekit.analysis import Analysis
from tracekit.report import details
from tracekit.report.details import Copies, Kernel, Peak


def analysis(drawing):
    return Analysis(lanes.run(drawing))


def test_exposed_communication_by_operation_is_a_mean_over_complete_steps_and_ranks():
    drawing = """
        0/step 0000111122222  incomplete=2
        0/20   NNNN.........  op=all_gather
        0/21   .....NN.NNNNN  op=all_reduce
        1/step 0000
        1/7    CCCC
    """
    # rank 0: 4 us and 2 us in its two complete steps, so 2 and 1 a step; rank 1 none
    assert details.exposed_by(analysis(drawing), "overlap_operation", "op") == {"all_gather": 1000, "all_reduce": 500}


def test_exposed_communication_by_group():
    drawing = """
        0/7  CC......
        0/20 NNNN....  group=dp
        0/21 .....NNN  group=tp
    """
    assert details.exposed_by(analysis(drawing), "overlap_group", "group") == {"tp": 3000, "dp": 2000}


def test_idle_by_cause_without_what_is_nothing():
    drawing = """
        step   0000000000
        0/main a...b.....
        0/7    CC.....CCC  by=ab
    """
    assert details.idle_by_cause(analysis(drawing)) == {"launch_latency": 3000, "host_late": 2000}


def test_the_rank_that_idles_most():
    drawing = """
        step   0000011111
        0/main a.........
        0/7    .CCCCCCCCC  by=a
        1/main ....a.....
        1/7    .....CCCCC  by=a
    """
    assert details.most_idle(analysis(drawing)) == (1, {"host_late": 2000.0, "launch_latency": 500.0})


def test_top_kernels_are_means_over_ranks():
    drawing = """
        0/7  CCCC....  name=gemm
        0/8  ....C.CC  name=relu
        1/7  CC......  name=gemm
        1/8  ..CCCCCC  name=norm
    """
    assert details.top_kernels(analysis(drawing), 2) == [
        Kernel("compute", "gemm", 1.0, 3000.0, 3000.0, pytest.approx(3 / 8)),
        Kernel("compute", "norm", 0.5, 3000.0, 6000.0, pytest.approx(3 / 8)),
    ]


def test_kernels_of_no_length_do_not_divide_by_it():
    assert [one.name for one in details.top_kernels(analysis("0/7 CC\n0/8 !.  name=empty"), 9)] == [
        "ampere_sgemm_128x64_tn",
        "empty",
    ]


def test_copies_by_direction():
    drawing = """
        step 0000011111
        0/7  MM...MM...  bytes=4000
        0/8  ..MMM.....  op=device_to_host bytes=3000
    """
    assert details.copies(analysis(drawing)) == [
        Copies("host_to_device", 1.0, 4000.0, pytest.approx(2.0)),
        Copies("device_to_host", 0.5, 1500.0, pytest.approx(1.0)),
    ]


def test_copies_of_unknown_size_have_none():
    assert details.copies(analysis("0/7 MM")) == [Copies("host_to_device", 1.0, None, None)]


def test_host_means_leave_out_what_the_trace_does_not_show():
    drawing = """
        step   0000111122  incomplete=2
        0/main a.S.b.....
        0/7    .C...C....  by=ab
    """
    means = details.host(analysis(drawing))
    assert (means["launches"], means["launch_delay_median_ns"], means["sync_ns"]) == (1.0, 1000.0, 500.0)
    assert "garbage_collection_ns" not in means


def test_the_peak_is_told_with_its_place():
    drawing = """
        step     00001111
        0/7      CCCCCCCC
        0/memory 1.2...1.  reserved=4
        1/7      CCCCCCCC
        1/memory 1....3..  reserved=9
        1/memory 9....9..  device=cpu
    """
    assert details.peak_memory(analysis(drawing)) == Peak(1, 1, "cuda:0", 3, 9)


def test_where_there_is_only_the_cpu_its_peak_counts():
    assert details.peak_memory(analysis("0/main CC\n0/memory 12  device=cpu")).device == "cpu"


WAITING = """
    0/7  CCC.......
    0/20 ...NN.....  op=send peer=1 bytes=4000000
    1/20 NNNNN.....  op=recv peer=0 bytes=4000000
    1/7  .....CC...
    0/21 .....NNNN.  bytes=4000
    1/21 .......NNN  bytes=4000
"""


def test_who_is_blamed_and_in_which_operations_ranks_wait():
    assert details.blamed(analysis(WAITING)) == {"0": 3000, "1": 2000}
    assert details.waits_by_operation(analysis(WAITING)) == {"send/recv": 3000, "all_reduce": 2000}


def test_bus_bandwidth_of_large_messages():
    assert details.bus_bandwidth(analysis(WAITING), 1 << 20) == {"send/recv inside a host": pytest.approx(2000.0)}
    assert details.bus_bandwidth(analysis(WAITING), 1 << 24) == {}


def test_how_far_apart_members_end():
    assert details.ends_apart_ns(lanes.run(WAITING), ["all_reduce"]) == [1000]


def test_without_an_axis_exposed_communication_has_none():
    assert details.exposed_by_axis(analysis("0/7 CC")) == {}
