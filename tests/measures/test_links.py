import pytest

from tests import lanes
from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured

PAIRS = """
    0/20 {0}  group=a bytes=100 size=2
    1/20 {0}  group=a bytes=100 size=2
    2/20 {1}  group=b bytes=100 size=2
    3/20 {1}  group=b bytes=100 size=2
    0/21 ......{2}  group=c bytes=100 size=2
    2/21 ......{2}  group=c bytes=100 size=2
    1/21 ......{3}  group=d bytes=100 size=2
    3/21 ......{3}  group=d bytes=100 size=2
"""


def links(drawing, *columns):
    rows = Analysis(lanes.run(drawing))["links"]
    return {rank: tuple(rest) for rank, *rest in rows[["rank", *columns]].values.tolist()}


def test_the_rank_that_all_slow_groups_share():
    # rank 3's groups b and d take 4 where the others take 2
    told = links(PAIRS.format("NN..", "NNNN", "NN..", "NNNN"), "factor", "groups")
    assert told[3] == (2, 2)
    assert all(factor <= 1 for rank, (factor, _) in told.items() if rank != 3)


def test_alike_transfers():
    told = links(PAIRS.format("NN..", "NN..", "NN..", "NN.."), "factor", "slower_ns")
    assert set(told.values()) == {(1, 0)}


def test_waiting_for_the_last_member_is_no_transfer():
    drawing = """
        0/20 NNNNNN  group=a bytes=100 size=2
        1/20 ....NN  group=a bytes=100 size=2
        2/20 NN....  group=b bytes=100 size=2
        3/20 NN....  group=b bytes=100 size=2
    """
    assert {factor for (factor,) in links(drawing, "factor").values()} == {1}


@pytest.mark.parametrize(
    ("drawing", "why"),
    [
        ("0/20 NN bytes=8\n1/20 NN bytes=8", "no two groups whose calls are alike"),
        ("0/20 NN\n1/20 NN", "no matched call whose size"),
        ("0/20 NN", "no second rank"),
    ],
)
def test_nothing_to_compare(drawing, why):
    with pytest.raises(NotMeasured, match=why):
        links(drawing)
