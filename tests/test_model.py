import pickle

import numpy as np
import pandas as pd
import pytest

from tests import lanes
from tracekit import model
from tracekit.errors import WrongUse
from tracekit.model import NO_STEP, Note

DRAWING = """
    step    000111333
    0/main  a.A......
    0/7     .CC.C....  by=a
    0/20    ..NN.....  group=dp
    3/7     CCCCCCCCC
"""


def dtypes(frame):
    return {name: str(kind) for name, kind in frame.dtypes.items()}


def starts_per_rank(one):
    return pd.DataFrame({"start_ns": one.work["start_ns"]})


def only_rank_three(one):
    return pd.DataFrame({"answer": [one.rank] if one.rank == 3 else []})


@pytest.mark.parametrize(
    "schema", [model.RANKS, model.STEPS, model.EVENTS, model.CALLS, model.ALLOCATIONS, model.NOTES]
)
def test_an_empty_table_has_the_columns_and_dtypes_of_its_schema(schema):
    assert dtypes(model.table(schema)) == schema


def test_a_table_holds_unknown_and_64_bit_values_exactly():
    row = ("compute", "gemm", "0/7", NO_STEP, 1, 2, model.NO_TIME, 2**64 - 1, None, None, None)
    table = model.table(model.EVENTS, [row])
    assert dtypes(table) == model.EVENTS
    assert table["correlation"].to_list() == [18446744073709551615]
    assert table["launch_ns"].to_list() == [-(2**63)]
    assert table[["operation", "bytes"]].isna().all(axis=None)


def test_notes_stand_the_gravest_first():
    notes = [
        Note("b", "info", "x"),
        Note("b", "error", "x", rank=2),
        Note("b", "error", "x", rank=0),
        Note("a", "warning", "x"),
        Note("b", "error", "the job's", count=3),
    ]
    table = model.notes_table(notes)
    assert dtypes(table) == model.NOTES
    assert table["severity"].to_list() == ["error", "error", "error", "warning", "info"]
    assert table["message"].to_list()[:3] == ["the job's", "x", "x"]
    assert table["rank"].to_list()[1:3] == [0, 2]


def test_one_ranks_tables():
    one = lanes.run(DRAWING).rank(0)
    assert one.work["start_ns"].to_list() == [1000, 2000, 4000]
    assert one.host["kind"].to_list() == ["launch", "annotation"]
    assert one.steps["step"].to_list() == [0, 1, 3]
    assert one.calls["group"].to_list() == ["dp"]
    assert not one.on_cpu
    assert lanes.run("0/main CC").rank(0).on_cpu


def test_events_are_all_rows_in_order_of_start():
    events = lanes.run(DRAWING).events(0)
    assert dtypes(events) == model.EVENTS
    assert events["kind"].to_list() == ["launch", "compute", "comm", "annotation", "compute"]
    assert events["start_ns"].to_list() == [0, 1000, 2000, 2000, 4000]


@pytest.mark.parametrize("drawing", ["0/7 ....", "0/7 CCC", "0/main AAA"])
def test_events_of_a_rank_that_lacks_one_of_the_tables(drawing):
    assert dtypes(lanes.run(drawing).events(0)) == model.EVENTS


def test_busy_is_a_set_of_time():
    spans = lanes.run("0/7 CC...CC\n0/8 .CC.!..").rank(0).busy(model.COMPUTE)
    assert (spans.starts.tolist(), spans.ends.tolist()) == ([0, 5000], [3000, 7000])


def test_time_per_step():
    one = lanes.run("step .00.2233\n0/7 CCCC.CCC").rank(0)
    assert one.per_step(one.busy(model.COMPUTE)).tolist() == [2000, 1000, 2000]


def test_which_step_a_time_lies_in():
    one = lanes.run("step .00.2233\n0/7 CCCCCCCC").rank(0)
    times = np.array([0, 999, 1000, 2999, 3000, 4000, 6000, 7999, 8000])
    assert one.nth_step(times).tolist() == [-1, -1, 0, 0, -1, 1, 2, 2, -1]
    assert lanes.run("0/7 ....").rank(0).nth_step(times).tolist() == [-1] * 9


def test_a_rank_that_is_not_there():
    with pytest.raises(WrongUse, match=r"no rank 7 .* ranks 0, 3"):
        lanes.run(DRAWING).rank(7)
    with pytest.raises(WrongUse, match="no rank 0 with window 1"):
        lanes.run(DRAWING).events(0, window=1)


def test_map_leads_each_row_by_its_rank():
    rows = lanes.run(DRAWING).map(starts_per_rank)
    assert rows.values.tolist() == [[0, 1000], [0, 2000], [0, 4000], [3, 0]]
    assert list(rows) == ["rank", "start_ns"]


def test_map_leads_by_the_window_where_a_rank_has_several():
    rows = lanes.run("0.0/7 C\n0.1/7 ...C\n1/7 C").map(starts_per_rank)
    assert rows.values.tolist() == [[0, 0, 0], [0, 1, 3000], [1, 0, 0]]
    assert list(rows) == ["rank", "window", "start_ns"]


def test_map_over_ranks_that_have_nothing():
    assert lanes.run(DRAWING).map(only_rank_three).values.tolist() == [[3, 3]]
    assert list(lanes.run("0/7 CC").map(only_rank_three)) == ["rank", "answer"]


def test_map_takes_its_mapper_from_the_run():
    asked = []

    def mapper(work, ranks):
        asked.extend(one.rank for one in ranks)
        return [work(pickle.loads(pickle.dumps(one))) for one in ranks]  # noqa: S301

    run = model.replace(lanes.run(DRAWING), mapper=mapper)
    assert run.map(starts_per_rank)["rank"].to_list() == [0, 0, 0, 3]
    assert asked == [0, 3]


def test_only_some_steps():
    run = lanes.run(DRAWING).only_steps(1, 3)
    assert run.steps[["rank", "step"]].values.tolist() == [[0, 1], [0, 3], [3, 1], [3, 3]]
    assert run.calls.empty
    assert run.rank(0).steps["step"].to_list() == [1, 3]
    assert run.rank(0).work["start_ns"].to_list() == [1000, 2000, 4000]


def test_only_steps_that_are_not_there():
    with pytest.raises(WrongUse, match=r"no step from 4 to 9 .* steps 0-1, 3"):
        lanes.run(DRAWING).only_steps(4, 9)


def test_numbers_as_a_person_lists_them():
    assert model.listed([7, 0, 1, 2, 12, 2]) == "0-2, 7, 12"
    assert model.listed([]) == ""
