import pytest

from tests import lanes
from tests.pipelines import pipeline
from tracekit import Analysis
from tracekit.errors import NotMeasured


def table(run):
    """Rank, step, axis and, in microseconds, communication and its exposed part; the parts sum to the breakdown's."""
    analysis = Analysis(run)
    rows = analysis["exposed"]
    parts = rows.groupby(["rank", "step"])["exposed_ns"].sum()
    whole = analysis["breakdown"].set_index(["rank", "step"])["exposed_comm_ns"]
    assert parts.to_dict() == whole[whole.index.isin(parts.index)].to_dict()
    return [(*row[:3], row[3] / 1000, row[4] / 1000) for row in rows.itertuples(index=False)]


def test_what_several_axes_cover_is_shared():
    assert table(
        lanes.run("""
        0/7   CCC.......
        0/20  ..NNNN....  group=dp-a size=2
        0/21  ....NNNN..  group=tp-a size=2
        1/20  ....N.....  group=dp-a size=2
        2/21  ....N.....  group=tp-a size=2
        """)
    )[:2] == [(0, 0, "data", 4, 1 + 1), (0, 0, "tensor", 4, 1 + 2)]


def test_calls_belong_to_the_axes_along_which_their_members_lie(tmp_path):
    run = pipeline(
        """
        0:0           0...........
        1:0           0...........
        2:1           .0..........
        3:1           .0..........
        0=all_reduce  ..N.........  group=dp ranks=0,1
        1=all_reduce  ..N.........  group=dp ranks=0,1
        2=all_reduce  ..N.........  group=dp ranks=2,3
        3=all_reduce  ..N.........  group=dp ranks=2,3
        0=all_reduce  ....NN......  group=embedding ranks=0,2
        2=all_reduce  ....NN......  group=embedding ranks=0,2
        0=all_reduce  .......NNN..  group=norm ranks=0,1,2,3
        1=all_reduce  .......NNN..  group=norm ranks=0,1,2,3
        2=all_reduce  .......NNN..  group=norm ranks=0,1,2,3
        3=all_reduce  .......NNN..  group=norm ranks=0,1,2,3
        0=all_reduce  ...........N  group=tp ranks=0
        """,
        tmp_path,
    )
    assert [row[2:] for row in table(run) if row[0] == 0] == [
        ("data", 1, 1), ("data+pipeline", 3, 3), ("pipeline", 2, 2), ("tensor", 1, 1),
    ]  # fmt: skip


def test_all_to_all_counts_for_experts_and_the_rest_for_data():
    calls = "{0}/20 NN...... group=1 op=all_to_all size=2\n{0}/21 ...NNN.. group=2 size=2"
    assert [row[2:4] for row in table(lanes.run(calls.format(0) + "\n" + calls.format(1)))][:2] == [
        ("data", 3), ("expert", 2),
    ]  # fmt: skip


def test_each_step_by_itself():
    assert table(
        lanes.run("""
        step  00001111
        0/20  NN...NNN  group=dp size=2
        1/20  NN...NNN  group=dp size=2
        """)
    )[:2] == [(0, 0, "data", 2, 2), (0, 1, "data", 3, 3)]


def test_without_groups_there_are_no_axes():
    with pytest.raises(NotMeasured, match="no ranks that communicate"):
        table(lanes.run("0/7 CCC"))
