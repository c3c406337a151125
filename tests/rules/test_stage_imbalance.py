import pytest

from tests.rules.drawn import found, healthy, job
from tracekit.errors import NotMeasured
from tracekit.rules import stage_imbalance

FIRST = """
    {0}/main A.......................  op=forward:0:0
    {0}/main ..A.....................  op=forward:0:1
    {0}/main .....A..................  op=backward:0:0
    {0}/main .......A................  op=backward:0:1
    {0}/main abcdefghSSSSSSSSSSSSSSSS
    {0}/7    {1}  by=acfh
    {0}/21   {2}  by=bd op=send group=pp{0} peer={4} bytes=8 size=2
    {0}/22   {3}  by=eg op=recv group=pp{0} peer={4} bytes=8 size=2
"""
LAST = """
    {0}/main .A......................  op=forward:1:0
    {0}/main ...A....................  op=forward:1:1
    {0}/main ....A...................  op=backward:1:0
    {0}/main ......A.................  op=backward:1:1
    {0}/main abcdefghSSSSSSSSSSSSSSSS
    {0}/7    {1}  by=bdeg
    {0}/21   {2}  by=ac op=recv group=pp{4} peer={4} bytes=8 size=2
    {0}/22   {3}  by=fh op=send group=pp{4} peer={4} bytes=8 size=2
"""
UNEVEN = (".CCcc............CC..cc.", "...N.N..................", ".....NNNNNNNNNNNNnnnn...")
UNEVEN_LAST = ("....CCCCccccCCCCcccc....", ".NNNnn..................", "................N...N...")
"""Stage 0 takes 2 + 2 us a micro-batch, stage 1 takes 4 + 4; GPipe's step takes 23 us."""
EVEN = (".CCCccc........CCCccc...", "....N..N................", ".......NNNNNNNNnnn......")
EVEN_LAST = (".....CCCcccCCCccc.......", ".NNNN..N................", "..............N..N......")
"""3 + 3 us everywhere: 21 us."""


def step(first, last, other_last=None):
    """Two pipelines of two stages: ranks 0 and 1 hold the first stage, 2 and 3 the second."""
    lasts = (last, other_last or last)
    ends = ((FIRST.format(rank, *first, rank + 2), LAST.format(rank + 2, *lasts[rank], rank)) for rank in (0, 1))
    return "".join(one + other for one, other in ends)


def test_a_stage_with_twice_the_work():
    """As short as stage 0, four actions that follow each other would take 2 us less each."""
    uneven = step(UNEVEN, UNEVEN_LAST)
    [finding] = found(stage_imbalance, job(uneven, uneven, uneven))
    assert (finding.code, finding.ranks, finding.steps) == ("stage-imbalance", (2, 3), (0, 1, 2))
    assert finding.cost_ns == 8000
    assert finding.title == "pipeline stage 1 has 2.00 times the work of the others"
    assert finding.evidence == (
        "forward and backward of a micro-batch take, by place in the pipeline, 0: 0.004 ms, 1: 0.008 ms",
        "kernel by kernel it takes 1.00 times as long as the same ones elsewhere: it has more of them to do",
    )


SLOW_LAST = ("....CCccCCcc............", UNEVEN_LAST[1], "........N...N...........")


@pytest.mark.parametrize(
    "drawing",
    [
        job(*[step(EVEN, EVEN_LAST)] * 3),
        job(step(EVEN, EVEN_LAST), step(UNEVEN, UNEVEN_LAST), step(EVEN, EVEN_LAST)),  # in one step only
        job(*[step(UNEVEN, UNEVEN_LAST, SLOW_LAST)] * 3),  # rank 2 takes twice as long as rank 3 for the same: slow
    ],
)
def test_silent(drawing):
    assert found(stage_imbalance, drawing) == []


def test_one_rank_a_stage_with_slower_kernels_is_a_slow_device():
    drawing = FIRST.format(0, *UNEVEN, 1) + LAST.format(1, *UNEVEN_LAST, 0)
    assert found(stage_imbalance, job(drawing, drawing, drawing)) == []


@pytest.mark.parametrize("drawing", [job(healthy(), healthy()), "0/7 CC"])
def test_without_a_pipeline_there_is_nothing_to_tell(drawing):
    with pytest.raises(NotMeasured):
        found(stage_imbalance, drawing)
