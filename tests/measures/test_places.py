from tests.pipelines import pipeline
from tracekit import Analysis


def test_each_rank_has_a_group_and_a_place_on_each_axis(tmp_path):
    table = Analysis(
        pipeline(
            """
            0:1           .0aa.
            1:1           .0aa.
            2:0           0...aa
            3:0           0...aa
            0=all_reduce  ....N  group=dp ranks=1,0
            1=all_reduce  ....N  group=dp ranks=1,0
            2=all_reduce  ....N  group=dp ranks=2,3
            3=all_reduce  ....N  group=dp ranks=2,3
            """,
            tmp_path,
        )
    )["places"]
    assert table[["axis", "group", "place", "rank"]].values.tolist() == [
        ["data", 0, 0, 1], ["data", 0, 1, 0], ["data", 1, 0, 2], ["data", 1, 1, 3],
        ["pipeline", 0, 0, 2], ["pipeline", 0, 1, 0], ["pipeline", 1, 0, 3], ["pipeline", 1, 1, 1],
    ]  # fmt: skip
    assert set(table["size"]) == {2}
    assert dict(zip(table["axis"], table["told_by"], strict=True)) == {"data": "name", "pipeline": "stages"}


def test_ranks_without_files_have_places_too(tmp_path):
    run = pipeline("0=all_reduce .N group=tp ranks=0,1,2\n1=all_reduce .N group=tp ranks=0,1,2", tmp_path)
    assert Analysis(run)["places"][["rank", "place"]].values.tolist() == [[0, 0], [1, 1], [2, 2]]
