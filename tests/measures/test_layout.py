import pytest

from tests import lanes
from tests.pipelines import pipeline
from tracekit import Analysis
from tracekit.errors import NotMeasured
from tracekit.measures.layout import shape


@pytest.fixture
def layout(tmp_path):
    """Axis, size, groups, what told it, and the confidence."""
    return lambda drawing, **spelled: found(pipeline(drawing, tmp_path, **spelled))


def found(run):
    return Analysis(run)["layout"][["axis", "size", "groups", "told_by", "confidence"]].values.tolist()


def test_a_name_tells_an_axis(layout):
    assert layout("""
        0=all_reduce  .N  group=mesh_dp ranks=0,1
        1=all_reduce  .N  group=mesh_dp ranks=0,1
    """) == [["data", 2, "0 1", "name", 1.0]]


def test_a_pipeline_stands_in_the_order_of_its_stages(layout):
    assert layout("""
        0:1  .0aa.
        1:0  0...aa
        2:3  .0aa.
        3:2  .0aa.
    """) == [["pipeline", 4, "1 0 3 2", "stages", 1.0]]


def test_replicas_of_a_pipeline_are_told_apart_by_their_transfers(layout):
    drawing = """
        0:0  0...aa
        1:0  0...aa
        2:1  .0aa.
        3:1  .0aa.
        0>3  .s
        3<0  .r
        1>2  .s
        2<1  .r
    """
    assert layout(drawing) == [["pipeline", 2, "0 3; 1 2", "stages", 0.5]]


def test_without_stages_what_is_sent_first_is_sent_forward(layout):
    assert layout(
        """
        1>0  .s....
        0<1  .r....
        0>1  ...s..
        1<0  ...r..
        """,
        spelled=None,
    ) == [["pipeline", 2, "1 0", "transfers", 0.8]]


def test_a_ring_one_way_round_is_context_parallel(layout):
    ring = "\n".join(f"{rank}>{(rank + 1) % 3} .s\n{rank}<{(rank - 1) % 3} .r" for rank in range(3))
    assert layout(ring, spelled=None) == [["context", 3, "0 1 2", "transfers", 0.8]]


REDUCES = """
    0/7   CCCCCCCCCC
    0/20  {}  group=13 size=2 bytes=8
    1/7   CCCCCCCCCC
    1/20  {}  group=13 size=2 bytes=8
"""


@pytest.mark.parametrize(("cells", "axis"), [(".NN.NN.NN.", "tensor"), ("......NN.N", "data")])
def test_when_a_group_reduces_tells_what_for(cells, axis):
    assert found(lanes.run(REDUCES.format(cells, cells))) == [[axis, 2, "0 1", "operations", 0.6]]


def test_small_calls_say_nothing_of_a_groups_purpose():
    early = "0/21 .N........ group=13 bytes=0 size=2\n1/21 .N........ group=13 bytes=0 size=2"
    assert found(lanes.run(REDUCES.format("......NN.N", "......NN.N") + early))[0][0] == "data"


def test_all_to_all_is_expert_and_lies_across_data():
    table = Analysis(
        lanes.run("""
        0/7   CCCCCCCCCC
        0/20  .NN....... group=1 op=all_to_all size=2
        0/21  ........NN group=2 size=2
        1/7   CCCCCCCCCC
        1/20  .NN....... group=1 op=all_to_all size=2
        1/21  ........NN group=2 size=2
        """)
    )["layout"]
    assert table[["axis", "size", "confidence"]].values.tolist() == [["data", 2, 0.6], ["expert", 2, 0.4]]
    assert shape(table) == "dp 2 × ep 2"


def test_two_axes_do_not_hold_the_same_ranks():
    assert found(
        lanes.run("""
        0/20  NN......  group=dp size=2
        0/21  ...NN...  group=tp size=2
        1/20  NN......  group=dp size=2
        1/21  ...NN...  group=tp size=2
        """)
    ) == [["data", 2, "0 1", "name", 1.0]]


def test_sharded_and_replicated_are_one_data_axis(layout):
    shards = "\n".join(
        f"{rank}=all_reduce .N.. group=dp_shard ranks={rank // 2 * 2},{rank // 2 * 2 + 1}" for rank in range(4)
    )
    copies = "\n".join(
        f"{rank}=all_reduce ..N. group=dp_replicate ranks={rank % 2},{rank % 2 + 2}" for rank in range(4)
    )
    assert layout(f"{shards}\n{copies}") == [["data", 4, "0 1 2 3", "name", 1.0]]


def test_what_the_ends_of_a_pipeline_sum_up_is_no_data_parallelism(layout):
    # Groups without names: gradients over 0 1 and 2 3, tied embeddings over 0 2 and 1 3.
    stages = "\n".join(f"{rank}:{rank // 2}  0aa......." for rank in range(4))
    sends = "\n".join(f"{rank}>{rank + 2} .s\n{rank + 2}<{rank} .r" for rank in (0, 1))
    groups = {7: "0,1", 8: "2,3", 9: "0,2", 10: "1,3"}
    reduces = "\n".join(
        f"{rank}=all_reduce ......{cells} group={group} ranks={ranks}"
        for group, ranks in groups.items()
        for rank in map(int, ranks.split(","))
        for cells in ("N." if group < 9 else ".N",)
    )
    assert layout(f"{stages}\n{sends}\n{reduces}") == [
        ["data", 2, "0 1; 2 3", "operations", 0.6],
        ["pipeline", 2, "0 2; 1 3", "stages", 1.0],
    ]


def test_ranks_that_have_no_place_lower_the_confidence(layout):
    assert layout("""
        0=all_reduce  .N  group=tp ranks=0,1
        1=all_reduce  .N  group=tp ranks=0,1
        2=all_reduce  .N  group=norm ranks=2
        3=all_reduce  .N  group=norm ranks=3
    """) == [["tensor", 2, "0 1", "name", 0.25]]  # half of the ranks, and 2 is not the world of 4


def test_one_rank_has_no_layout():
    with pytest.raises(NotMeasured, match="no ranks that communicate"):
        found(lanes.run("0/7 CC\n0/20 NN"))
