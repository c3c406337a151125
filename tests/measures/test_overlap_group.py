import pytest

from tests import lanes
from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured


def table(drawing):
    """Rank, step, group, and in nanoseconds: communication, overlap; share of overlap; exposed."""
    analysis = Analysis(lanes.run(drawing))
    rows = analysis["overlap_group"]
    exposed = rows.groupby(["rank", "step"])["exposed_ns"].sum()
    whole = analysis["breakdown"].set_index(["rank", "step"])["exposed_comm_ns"]
    assert exposed.to_dict() == whole[whole.index.isin(exposed.index)].to_dict()
    return rows.values.tolist()


def test_each_group_by_itself():
    assert table("""
        0/7  CCCCCC......
        0/20 ....NNNN....  group=dp
        0/21 .........NN.  group=tp
    """) == [[0, 0, "dp", 4000, 2000, 0.5, 2000], [0, 0, "tp", 2000, 0, 0.0, 2000]]


def test_what_both_cover_is_shared():
    assert table("""
        0/7  CC......
        0/20 .NNNNN..  group=dp
        0/21 ...NNNNN  group=tp
    """) == [[0, 0, "dp", 5000, 1000, 0.2, 1000 + 1500], [0, 0, "tp", 5000, 0, 0.0, 1500 + 2000]]


def test_each_step_by_itself():
    assert table("""
        step 00001111
        0/7  CC......
        0/20 .NN..NN.  group=dp
        0/21 .....N..  group=tp
        1/20 NN......  group=dp
    """) == [
        [0, 0, "dp", 2000, 1000, 0.5, 1000],
        [0, 1, "dp", 2000, 0, 0.0, 1500],
        [0, 1, "tp", 1000, 0, 0.0, 500],
        [1, 0, "dp", 2000, 0, 0.0, 2000],
    ]


def test_no_communication_is_not_zero():
    with pytest.raises(NotMeasured, match="no communication"):
        table("0/7 CCC\n1/7 ...")
