import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracekit.plan.schedule import Action
from tracekit.simulate.accounting import Moments, _replayed


def moments(**classes):
    return Moments.of(
        {name: tuple(np.array(part, np.int64) for part in zip(*spans, strict=True)) for name, spans in classes.items()}
    )


def test_lengths_counted_by_eye():
    # compute  CCCC......
    # comm     ..NNNN.NN.
    told = moments(compute=[(0, 4)], comm=[(2, 6), (7, 9)])
    compute, comm = told.running["compute"], told.running["comm"]
    assert told.length(comm & compute, 0, 10) == 2
    assert told.length(comm & ~compute, 0, 10) == 4
    assert told.length(comm, [0, 5], [5, 8]).tolist() == [3, 2]
    assert told.length(compute, -5, 3) == 3


spans = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 8)).map(lambda one: (one[0], one[0] + one[1])), min_size=1
)


@given(one=spans, other=spans, begin=st.integers(-5, 40), long=st.integers(0, 40))
def test_lengths_as_sets_of_cells(one, other, begin, long):
    told = moments(a=one, b=other)
    cells = {name: {at for start, end in part for at in range(start, end)} for name, part in (("a", one), ("b", other))}
    asked = told.running["a"] & ~told.running["b"]
    assert told.length(asked, begin, begin + long) == len((cells["a"] - cells["b"]) & set(range(begin, begin + long)))


def test_two_stages_replayed_by_eye():
    # 0  FF..BBB     the second stage takes 2 for its forward and 1 for its backward
    # 1  ..FFB
    order = [[Action("forward", 0, 0), Action("backward", 0, 0)], [Action("forward", 1, 0), Action("backward", 1, 0)]]
    lasts = dict(zip([action for mine in order for action in mine], [2, 3, 2, 1], strict=True))
    assert _replayed(order, lasts) == 8
