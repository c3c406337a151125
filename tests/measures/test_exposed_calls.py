import pytest

from tests import lanes
from tracekit import Analysis
from tracekit.errors import NotMeasured
from tracekit.measures import exposed_calls

DRAWING = """
    step 000000000000000000001111
    0/7  CCCC........CCCCCCCC....
    0/20 ..NNNN........NN..NNNN..  seq=1
    1/7  CC..CCCCCCCCCCCCCCCC....
    1/20 ....................NNN.  seq=9
"""


def found(drawing):
    return Analysis(lanes.run(drawing))["exposed_calls"]


def test_calls_by_what_of_them_no_compute_hides():
    """Rank 0's first call runs from 2 to 6, with compute until 4; its last from 18 to 22, with compute until 20."""
    rows = found(DRAWING)
    told = list(rows[["rank", "start_ns", "length_ns", "exposed_ns"]].itertuples(index=False, name=None))
    assert told == [(1, 20000, 3000, 3000), (0, 2000, 4000, 2000), (0, 18000, 4000, 2000)]
    assert rows["op"].tolist() == ["all_reduce"] * 3


def test_so_many_and_no_more(monkeypatch):
    monkeypatch.setattr(exposed_calls, "MOST", 1)
    assert found(DRAWING)["rank"].tolist() == [1]


@pytest.mark.parametrize("drawing", ["0/7 CCCC", "0/7 CCCC\n0/20 .NN."])
def test_none_is_exposed(drawing):
    with pytest.raises(NotMeasured, match="no communication call that is exposed"):
        found(drawing)
