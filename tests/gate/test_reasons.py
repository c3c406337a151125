"""Faults drawn small: what explains the longer step."""

from tests import lanes
from tracekit.analysis import Analysis
from tracekit.compare import account_of, difference
from tracekit.gate.judge import Judged
from tracekit.gate.reasons import reasons, short_name

HEALTHY = """
    0/main a...b.........
    0/7    .CC..CC.......  by=ab name=gemm
    0/20   .......NN.....  group=dp
    1/main a...b.........
    1/7    .CC..CC.......  by=ab name=gemm
    1/20   .......NN.....  group=dp
"""


def told(drawing, judged=(), base=HEALTHY, facts=({}, {})):
    changed = difference(*(account_of(Analysis(lanes.run(one))) for one in (base, drawing)))
    return reasons(changed, judged, facts)


def share(metric, base, new, better="down"):
    return Judged(metric, "frac", better, True, "worse", base, new, 0.0)


def test_nothing_slower_no_reason():
    assert told(HEALTHY) == ()


def test_a_slow_device():
    first, *_ = told("""
        0/main a...b.........
        0/7    .CC..CC.......  by=ab name=gemm
        0/20   .......NNNNNN.  group=dp
        1/main a...b.........
        1/7    .CCCCcccc.....  by=ab name=gemm
        1/20   .........NNNN.  group=dp
    """)
    assert (first.cause, first.ranks) == ("compute", (1,))
    assert "2.00 times as long on rank 1: the same kernels, each slower" in first.sentence


def test_a_slow_host():
    first, *_ = told("""
        0/main a...b.........
        0/7    .CC..CC.......  by=ab name=gemm
        0/20   .......NNNNNN.  group=dp
        1/main a.......b.....
        1/7    .CC......CC...  by=ab name=gemm
        1/20   ...........NN.  group=dp
    """)
    assert (first.cause, first.ranks) == ("host", (1,))
    assert "host late" in first.sentence


def test_more_work():
    first, *_ = told("""
        0/main a...bcd.......
        0/7    .CC..CCccCC...  by=abcd name=gemm
        0/20   ...........NN.  group=dp
        1/main a...bcd.......
        1/7    .CC..CCccCC...  by=abcd name=gemm
        1/20   ...........NN.  group=dp
    """)
    assert (first.cause, first.ranks) == ("work", ())
    assert "2 → 4 kernels a step" in first.sentence


def test_communication_that_takes_longer():
    [first] = told("""
        0/main a...b.........
        0/7    .CC..CC.......  by=ab name=gemm
        0/20   .......NNNNN..  group=dp
        1/main a...b.........
        1/7    .CC..CC.......  by=ab name=gemm
        1/20   .......NNNNN..  group=dp
    """)
    assert (first.cause, first.ns) == ("communication", 3000)


def test_copies():
    [first] = told("""
        0/main a...b.........
        0/7    .CC..CC.......  by=ab name=gemm
        0/20   .......NN.....  group=dp
        0/9    .........MMM..
        1/main a...b.........
        1/7    .CC..CC.......  by=ab name=gemm
        1/20   .......NN.....  group=dp
        1/9    .........MMM..
    """)
    assert (first.cause, first.ns) == ("copies", 3000)


def test_less_overlap_is_told_also_where_the_step_is_no_longer():
    [first] = told(HEALTHY, [share("overlap.overlap_frac", 0.7, 0.0, "up")])
    assert first.cause == "overlap"
    assert "70% → 0% hidden" in first.sentence


def test_a_larger_bubble_names_what_the_commit_changed():
    facts = ({"micro-batches": "8"}, {"micro-batches": "2"})
    [first] = told(HEALTHY, [share("pipeline.bubble_frac", 0.1, 0.3)], facts=facts)
    assert first.cause == "bubble"
    assert "10% → 30% of the makespan (micro-batches 8 → 2)" in first.sentence


def test_runs_without_a_rank_in_common():
    slower = HEALTHY.replace("0/", "2/").replace("1/", "3/").replace("CC..CC.......", "CCC..CCC.....")
    slower = slower.replace(".......NN.....", ".........NN...")
    assert told(slower)[0].cause == "compute"


def test_names_fit_a_sentence():
    assert short_name("void at::native::(anonymous namespace)::add<float>") == "add<float>"
    assert len(short_name("x" * 500)) == 50
