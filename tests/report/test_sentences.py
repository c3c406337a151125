import re

from tests import lanes
from tracekit.analysis import Analysis
from tracekit.report.text import account_text

ALL = """
    step     000000000000
    0/main   a.b...SS.DDG
    0/7      .CCC..CCCC..  by=ab
    0/20     ...NNnn.....  op=all_gather group=dp
    0/21     ...NNNN.....  op=all_reduce group=tp
    0/22     ......MM.MM.  bytes=800
    0/memory 1.3.2.......
"""


def lines(drawing, width=120):
    return account_text(Analysis(lanes.run(drawing)), width=width).splitlines()


def told(name, drawing):
    return [
        re.sub(r"\s+", " ", line.removeprefix(name)).strip() for line in lines(drawing, 400) if line.startswith(name)
    ]


def test_exposed_communication_is_told_by_operation_and_group():
    assert told("exposed comm ", ALL) == ["2.00 µs a step: 50 % all_gather, 50 % all_reduce; by group 50 % dp, 50 % tp"]


def test_one_group_needs_no_name():
    assert told("exposed comm ", "0/20 NN.. group=dp") == ["2.00 µs a step: 100 % all_reduce"]


def test_idle_copies_and_memory():
    assert told("idle ", ALL) == ["2.00 µs a step: 50 % host late, 50 % launch latency"]
    assert told("copies ", ALL) == ["host to device 1.6 KiB"]
    assert told("peak memory ", ALL) == ["3 B allocated, 9 B reserved (rank 0, step 0, cuda:0)"]


def test_the_rank_that_idles_most_is_named():
    drawing = """
        step   0000000000
        0/main a.........
        0/7    .CCCCCCCCC  by=a
        1/main ....a.....
        1/7    .....CCCCC  by=a
    """
    [sentence] = told("idle ", drawing)
    assert sentence == (
        "3.00 µs a step: 67 % host late, 33 % launch latency; "
        "most on rank 1, 5.00 µs: 80 % host late, 20 % launch latency"
    )


def test_large_copies_tell_their_speed():
    assert told("copies ", "0/7 MM  bytes=2097152") == ["host to device 2.0 MiB at 1,049 GB/s"]


def test_host():
    [sentence] = told("host ", ALL)
    assert sentence.startswith("2 launches a step, launch delay 2.50 µs (median), ")
    assert sentence.endswith("2.00 µs in synchronising calls, 2.00 µs in data loading, 1.00 µs in garbage collection")


def test_what_is_nothing_is_not_said():
    text = "\n".join(lines("0/7 CCCC"))
    assert not re.search(
        "^(exposed comm|idle|copies|host|peak memory) ", text.partition("Not measured")[0], re.MULTILINE
    )


def test_a_few_shares_are_named_and_the_rest_counted():
    drawing = "\n".join(f"0/{lane} {'.' * lane}N  group=g{lane}" for lane in range(8))
    assert told("exposed comm ", drawing)[0].endswith(" and 3 more")


def test_kernels_with_share_calls_and_mean():
    at = lines(ALL).index("Top kernels a step")
    assert lines(ALL)[at + 2].split() == ["7.00", "58", "2", "3.50", "µs", "ampere_sgemm_128x64_tn"]


def test_cpu_traces_have_operators():
    assert "Top operators a step" in lines("0/main CCCC")
