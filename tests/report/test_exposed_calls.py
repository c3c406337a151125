import pytest

from tests import lanes
from tracekit.errors import NotMeasured
from tracekit.report.exposed_calls import COLUMNS, exposed_calls, longest

DRAWING = """
    step 000000000000000000001111
    0/7  CCCC........CCCCCCCC....
    0/20 ..NNNN........NN..NNNN..  seq=1
    1/7  CC..CCCCCCCCCCCCCCCC....
    1/20 ....................NNN.  seq=9
"""


def test_calls_by_what_of_them_no_compute_hides():
    """Rank 0's first call runs from 2 to 6, with compute until 4; its last from 18 to 22, with compute until 20."""
    found = exposed_calls(lanes.run(DRAWING))
    told = list(found[["rank", "start_ns", "length_ns", "exposed_ns"]].itertuples(index=False, name=None))
    assert told == [(1, 20000, 3000, 3000), (0, 2000, 4000, 2000), (0, 18000, 4000, 2000)]
    assert found["op"].tolist() == ["all_reduce"] * 3
    assert dict(found.dtypes.astype(str)) == COLUMNS


def test_so_many_and_no_more():
    assert exposed_calls(lanes.run(DRAWING), most=1)["rank"].tolist() == [1]


@pytest.mark.parametrize("drawing", ["0/7 CCCC", "0/7 CCCC\n0/20 .NN."])
def test_none_is_exposed(drawing):
    with pytest.raises(NotMeasured, match="no communication call that is exposed"):
        exposed_calls(lanes.run(drawing))


def test_the_longest_are_told_in_words():
    """Times of one unit, sizes where they are known, and how many more there are."""
    told = longest(exposed_calls(lanes.run(DRAWING.replace("seq=9", "seq=9 bytes=2048"))), most=1)
    assert told.rows == (("1", "1", "default", "all_reduce", "2.0 KiB", "20.00", "3.00", "3.00", "0.00"),)
    assert told.headings[-1] == "wait, µs"
    assert told.more.startswith("and 2 more calls")
