import re

import pandas as pd

from tests import lanes
from tests.measures.test_every_measure import JOB
from tracekit.analysis import Analysis
from tracekit.report.text import account_text

LATE = """
    0/7  CC........
    0/20 ..NNNNNNNN  group=dp
    1/7  CCCCCC....
    1/20 ......NNNN  group=dp
"""
EXCHANGE = """
    0/7  CCC.......
    0/20 ...NN.....  op=send peer=1 group=pp
    1/20 NNNNN.....  op=recv peer=0 group=pp
    1/7  .....CC...
    0/21 .....NNNNN  group=dp
    1/21 .......NNN  group=dp
"""


def screen(run, width=400):
    return account_text(Analysis(run), width=width)


def told(name, run):
    lines = [line for line in screen(run).splitlines() if line.startswith(f"{name} ")]
    return [re.sub(r"\s+", " ", line.removeprefix(name)).strip() for line in lines]


def test_the_job_stands_before_the_ranks():
    text = screen(lanes.run(LATE))
    assert text.index("Step ") < text.index("\nlayout ") < text.index("\nwaiting ") < text.index("\nRanks, ")


def test_who_waits_for_whom_and_in_what():
    # rank 1 waits 3 for rank 0, rank 0 waits 2 for rank 1: 2.5 of 10 a rank
    assert told("waiting", lanes.run(EXCHANGE)) == [
        "2.50 µs a step, 25 % of it: 60 % for rank 0, 40 % for rank 1; 60 % in send/recv, 40 % in all_reduce"
    ]


def test_nobody_waits():
    assert told("waiting", lanes.run("0/20 NN\n1/20 NN")) == ["no rank waits for another"]


def test_a_single_rank_tells_nothing_of_others():
    run = lanes.run("0/7 CC\n0/20 ..NN group=dp size=2")
    assert told("waiting", run) == told("clocks", run) == told("bandwidth", run) == []
    assert "the run has no second rank" in screen(run)


def test_exposed_communication_by_axis():
    [sentence] = told("exposed comm", lanes.run(JOB))
    assert re.search(r"; by axis \d+ % (data|pipeline), \d+ % (data|pipeline)$", sentence)
    assert "by group" not in sentence


def test_one_axis_is_told_by_the_layout_alone():
    assert told("exposed comm", lanes.run(LATE)) == ["6.00 µs a step: 100 % all_reduce"]
    assert told("layout", lanes.run(LATE)) == ["dp 2"]


def test_bandwidth_of_large_messages():
    drawing = "\n".join(
        f"{rank}/20 NN.{'.' * lane}NN  op={op} bytes={size}"
        for rank in (0, 1)
        for lane, (op, size) in enumerate([("all_reduce", 4 << 20), ("all_gather", 1000)])
    )
    assert told("bandwidth", lanes.run(drawing)) == ["all_reduce inside a host 2,097 GB/s on the bus"]


def test_clocks_that_were_put_right():
    run = lanes.run("0/20 NNNN.NNNN\n1/20 .NNN..NNN\n2/20 NNNNN..NNN")
    run.ranks["clock_offset_ns"], run.ranks["clock_error_ns"] = [0, 5000, -7000], [0, 300, 200]
    assert told("clocks", run) == [
        "2 of 3 files put right by up to 7.00 µs, give or take 0.30 µs; "
        "members of a call end 1.00 µs apart (median), 1.00 µs (95 %)"
    ]


def test_clocks_of_unknown_error():
    run = lanes.run("0/20 NNNN\n1/20 .NNN")
    run.ranks["clock_error_ns"] = pd.array([None, None], "Int64")
    assert told("clocks", run) == ["members of a call end 0.00 µs apart (median), 0.00 µs (95 %)"]


def test_the_bubble_beside_theory():
    [sentence] = told("bubble", lanes.run(JOB))
    assert re.fullmatch(r"\d+ % of the makespan, \d+ % of the ideal time; .*", sentence)


def test_every_line_fits_the_screen():
    for width in (60, 80, 120):
        text = account_text(Analysis(lanes.run(EXCHANGE)), width=width)
        assert max(map(len, text.splitlines())) <= width
