import pytest

from workloads.errors import WrongUse
from workloads.layout import Layout


def test_the_last_axis_is_the_fastest():
    layout = Layout({"dp": 2, "pp": 3})
    assert [layout.place(rank) for rank in (0, 1, 3)] == [{"dp": 0, "pp": 0}, {"dp": 0, "pp": 1}, {"dp": 1, "pp": 0}]
    assert layout.groups("pp") == [[0, 1, 2], [3, 4, 5]]
    assert layout.groups("dp") == [[0, 3], [1, 4], [2, 5]]


def test_data_is_split_along_the_data_axes_only():
    layout = Layout({"dp": 2, "ep": 2, "tp": 2}, data_axes=("dp", "ep"))
    assert layout.shards() == 4
    assert [layout.shard(rank) for rank in range(8)] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert (Layout({"tp": 2}).shards(), Layout({"tp": 2}).shard(1)) == (1, 0)


def test_the_product_must_be_the_number_of_ranks():
    with pytest.raises(WrongUse, match="dp 2 × tp 3 is 6 ranks, but there are 4"):
        Layout({"dp": 2, "tp": 3}).check(4)
