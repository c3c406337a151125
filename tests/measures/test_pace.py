import numpy as np
import pytest

from tests import lanes
from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured
from tracekit.measures.pace import _median_of_others


def pace(drawing, *columns):
    rows = Analysis(lanes.run(drawing))["pace"]
    return [tuple(row) for row in rows[["rank", "step", *columns]].values.tolist()]


def test_a_device_that_takes_half_as_long_again():
    assert pace(
        """
        0/7 CCcc....
        1/7 CCcc....
        2/7 CCCccc..
    """,
        *("factor", "spread", "slower_ns", "compute_ns", "peers"),
    ) == [(0, 0, 0.8, 0, 0, 4000, 2), (1, 0, 0.8, 0, 0, 4000, 2), (2, 0, 1.5, 0, 2000, 6000, 2)]


def test_more_kernels_are_more_work_and_no_slow_device():
    assert pace("0/7 CCcc....\n1/7 CCcc....\n2/7 CCccCCcc", "factor", "work_factor") == [
        (0, 0, 1, 2 / 3),
        (1, 0, 1, 2 / 3),
        (2, 0, 1, 2),
    ]


def test_names_are_compared_with_their_like_by_the_weight_of_their_time():
    rows = pace(
        """
        0/7 CCCC....  name=gemm
        0/7 ....C...  name=norm
        1/7 CCCC....  name=gemm
        1/7 .....CC.  name=norm
    """,
        *("factor", "spread"),
    )
    assert rows == [(0, 0, 1, 0), (1, 0, 1, 0)]


def test_each_step_stands_for_itself():
    # a throttled device: the second of three steps takes half as long again; peers are judged over all steps
    rows = pace(
        """
        step 000011112222
        0/7  CC..CC..CC..
        1/7  CC..CCC.CC..
        2/7  CC..CC..CC..
    """,
        "factor",
    )
    assert [row for row in rows if row[0] == 1] == [(1, 0, 1), (1, 1, 1.5), (1, 2, 1)]
    assert {factor for rank, _, factor in rows if rank != 1} == {1}


def test_peers_are_the_ranks_of_the_same_stage():
    stage = """
        {0}/main  AA.........  op=forward:{2}:0
        {0}/7     {3}
        {0}/21    .....N.....  group=pp-{1} op={4} peer={5} bytes=8
        {0}/22    ........N..  group=dp-{2} bytes=8 size=2
    """
    drawing = "".join(
        stage.format(*rank)
        for rank in [
            (0, 0, 0, "C..........", "send", 2),
            (1, 1, 0, "C..........", "send", 3),
            (2, 0, 1, "CCCC.......", "recv", 0),
            (3, 1, 1, "CC.........", "recv", 1),
        ]
    )
    assert pace(drawing, "factor", "peers") == [(0, 0, 1, 1), (1, 0, 1, 1), (2, 0, 2, 1), (3, 0, 0.5, 1)]


@pytest.mark.parametrize("values", [[3.0, 1.0], [1.0, 2.0, 10.0], [4.0, 4.0, 1.0, 7.0], [5.0, 1.0, 3.0, 2.0, 9.0]])
def test_medians_of_all_others(values):
    others = [np.median(values[:nth] + values[nth + 1 :]) for nth in range(len(values))]
    assert _median_of_others(np.array(values)).tolist() == others


def test_one_value_has_no_others():
    assert np.isnan(_median_of_others(np.array([3.0]))).all()


@pytest.mark.parametrize(
    ("drawing", "why"),
    [
        ("0/7 CC", "no second rank"),
        ("0/20 NN\n1/20 NN", "no complete step with compute"),
        ("0/7 CC name=a\n1/7 CC name=b", "no two ranks that run the same kernels"),
    ],
)
def test_nothing_to_compare(drawing, why):
    with pytest.raises(NotMeasured, match=why):
        pace(drawing)
