import pytest

from tests import lanes
from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured, WrongUse
from tracekit.report import figures
from tracekit.report.figures import FIGURES, figure

DRAWING = """
    step 000000000011111111111
    0/7  CCCC......CCCC.......
    0/20 ..NNNN......NNNN.....  op=all_reduce group=dp bytes=2048
    1/7  CCCC......CCCC.......
    1/20 ....NN........NN.....  op=all_reduce group=dp bytes=2048
"""


def of(name, drawing=DRAWING):
    return figure(Analysis(lanes.run(drawing)), name)


def values(shown):
    return {bar.name: list(bar.y) for bar in shown.data}


def test_overlap_is_hidden_and_exposed_communication_per_rank():
    assert values(of("overlap")) == {"hidden under compute": [2.0, 0.0], "exposed": [2.0, 2.0]}


def test_breakdown_is_the_mean_step_of_each_rank():
    found = values(of("breakdown"))
    assert found["compute"] == [4.0, 4.0]
    assert found["exposed communication"] == [2.0, 2.0]
    assert found["idle"] == [4.5, 4.5]


def test_waits_per_rank_and_step():
    heat = of("waits").data[0]
    assert heat.z.tolist() == [[0.0, 0.0], [0.0, 0.0]]  # rank 0 waits 2 us, but it computes meanwhile
    assert of("waits", DRAWING.replace("0/7  CCCC", "0/7  CC..")).data[0].z.tolist()[0] == [2.0, 0.0]


def test_blame_is_who_waits_for_whom():
    heat = of("blame", DRAWING.replace("0/7  CCCC", "0/7  CC..")).data[0]
    assert list(heat.x) == ["1"]


def test_bytes_from_rank_to_rank_count_once():
    """Rank 0 sends to 1, which receives it; what rank 2 sent to 1 only the receiver's file tells."""
    drawing = """
        0/20 SS....  op=send peer=1 bytes=100
        1/20 SS....  op=recv peer=0 bytes=100
        1/21 ...SS.  op=recv peer=2 bytes=30
    """
    heat = of("matrix", drawing.replace("SS", "NN")).data[0]
    assert (list(heat.x), [text[0] for text in heat.text]) == (["1"], ["0 sends", "2 sends"])
    assert heat.z.tolist() == [[100.0], [30.0]]


@pytest.mark.parametrize(
    "name",
    ["overlap", "waits", "pipeline", "memory", "bubble", "matrix", "bandwidth", "own_grid", "link_speeds", "volume"],
)
def test_what_is_not_measured_has_no_figure(name):
    with pytest.raises(NotMeasured):
        of(name, "step 00000\n0/7 CCC..")


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(WrongUse, match="breakdown"):
        of("no such figure")


def test_every_name_gives_a_figure_or_says_why_not():
    analysis = Analysis(lanes.run(DRAWING))
    drawn = set()
    for name in FIGURES:
        try:
            assert figure(analysis, name).data
            drawn.add(name)
        except NotMeasured:
            continue
    assert drawn >= {"breakdown", "steps", "overlap", "exposed", "own", "waits", "blame", "kernels", "sizes"}


@pytest.mark.parametrize("name", FIGURES)
def test_a_run_without_a_step_has_no_figure(name):
    with pytest.raises(NotMeasured, match=r"^the run|^no call"):
        of(name, "0/7 ....")


def test_ranks_stand_in_the_order_of_the_layout():
    drawing = """
        0/20 NN..........  op=all_reduce group=TENSOR_MODEL_PARALLEL_GROUP_0 size=2
        1/20 NN..........  op=all_reduce group=TENSOR_MODEL_PARALLEL_GROUP_0 size=2
    """
    assert figures.order(Analysis(lanes.run(drawing))) == {0: "rank 0 tp 0", 1: "rank 1 tp 1"}
    assert figures.order(Analysis(lanes.run("3/7 CC"))) == {3: "rank 3"}


FOUR = """
    0/20 N..n.......  op=all_reduce group=TENSOR_MODEL_PARALLEL_GROUP_0 size=2
    1/20 N..n.......  op=all_reduce group=TENSOR_MODEL_PARALLEL_GROUP_0 size=2
    2/20 N..n.......  op=all_reduce group=TENSOR_MODEL_PARALLEL_GROUP_1 size=2
    3/20 N..n.......  op=all_reduce group=TENSOR_MODEL_PARALLEL_GROUP_1 size=2
    0/21 ......NNNNN  op=all_reduce group=DATA_PARALLEL_GROUP_0 size=2
    2/21 ........NNN  op=all_reduce group=DATA_PARALLEL_GROUP_0 size=2
    1/21 ......NNNNN  op=all_reduce group=DATA_PARALLEL_GROUP_1 size=2
    3/21 .........NN  op=all_reduce group=DATA_PARALLEL_GROUP_1 size=2
"""
"""Ranks 0 and 1 are a replica, 2 and 3 another; rank 0 waits 2 us for rank 2, rank 1 waits 3 us for rank 3."""


def test_the_grid_has_each_rank_where_the_layout_has_it():
    heat = of("waits_grid", FOUR).data[0]
    assert list(heat.x) == ["tp 0", "tp 1"]
    assert [list(row) for row in heat.text] == [["rank 0, dp 0", "rank 1, dp 0"], ["rank 2, dp 1", "rank 3, dp 1"]]
    assert heat.z.tolist() == [[2.0, 3.0], [0.0, 0.0]]
    assert of("own_grid", FOUR).data[0].z.tolist() == [[9.0, 8.0], [11.0, 11.0]]


def test_ranks_along_one_axis_make_no_grid():
    with pytest.raises(NotMeasured, match="fewer than two"):
        of("own_grid", "\n".join(line for line in FOUR.splitlines() if "TENSOR" in line))


def test_bandwidth_between_ranks_is_bytes_over_the_time_of_transfer():
    drawing = """
        0/20 NN.NN.  op=send peer=1 bytes=3000
        1/20 .N.NN.  op=recv peer=0 bytes=3000
    """
    heat = of("link_speeds", drawing).data[0]
    assert (list(heat.x), [text[0] for text in heat.text]) == (["1"], ["0 sends"])
    assert heat.z.tolist() == [[2.0]]  # 6000 bytes in 1 + 2 us: 2 GB/s


def test_volume_stands_beside_what_a_ring_sends():
    drawing = "\n".join(f"{rank}/20 NN.nn  op=all_reduce group=dp bytes=1000 size=4" for rank in range(4))
    arrays, ring = of("volume", drawing).data
    assert list(arrays.text) == ["all_reduce, 4 ranks"]
    assert (list(arrays.x), list(ring.x)) == ([2000 / 1024], [3000 / 1024])  # a ring: 2 (n - 1) / n = 3 / 2 of them
