import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import lanes
from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured
from tracekit.measures.breakdown import residue_ns


def rows(drawing):
    return Analysis(lanes.run(drawing))["breakdown"]


def parts(drawing):
    """Microseconds: step, compute, exposed communication, exposed memory, idle, communication, overlap."""
    table = rows(drawing)
    assert not residue_ns(table).any()
    return (table.set_index(["rank", "step"]) // 1000).apply(list, axis=1).to_dict()


def test_parts_by_eye():
    assert parts("""
        0/7   CCCC.......C
        0/20  ..NNNN......
        0/9   .....MMM....
    """) == {(0, 0): [12, 5, 2, 2, 3, 4, 2]}


def test_work_of_one_kind_on_two_lanes_counts_once():
    assert parts("""
        0/7   CCCC....
        0/8   ..CCCC..
        0/20  .....NNN
        0/21  ......NN
    """) == {(0, 0): [8, 6, 2, 0, 0, 3, 1]}


def test_work_counts_in_the_window_in_which_it_runs_whoever_launched_it():
    assert parts("""
        step    0000001111
        0/main  a.........
        0/7     ....CCCC..  by=a
    """) == {(0, 0): [6, 2, 0, 0, 4, 0, 0], (0, 1): [4, 2, 0, 0, 2, 0, 0]}


def test_work_outside_of_all_windows_counts_nowhere():
    assert parts("""
        step  ..00..22..
        0/7   CCCCCCCCCC
    """) == {(0, 0): [2, 2, 0, 0, 0, 0, 0], (0, 2): [2, 2, 0, 0, 0, 0, 0]}


def test_an_incomplete_step_has_a_row_too():
    assert parts("""
        step  000011  incomplete=1
        0/7   CC..C.
    """) == {(0, 0): [4, 2, 0, 0, 2, 0, 0], (0, 1): [2, 1, 0, 0, 1, 0, 0]}


def test_a_rank_without_work_is_idle():
    assert parts("""
        step  0000
        0/7   CCC.
        1/7   ....
    """) == {(0, 0): [4, 3, 0, 0, 1, 0, 0], (1, 0): [4, 0, 0, 0, 4, 0, 0]}


def test_work_without_length_adds_nothing():
    assert parts("""
        step  0000
        0/7   .!C!
    """) == {(0, 0): [4, 1, 0, 0, 3, 0, 0]}


def test_the_spans_of_a_cpu_rank_stand_for_work():
    assert parts("""
        0/main  CCCCC...
        0/main  .CC.....
        0/gloo  ....NNNN
        0/gloo  NNNNNNNN  op=send
    """) == {(0, 0): [8, 5, 3, 0, 0, 4, 1]}


LANE = st.text("CcNnMm!...", min_size=24, max_size=24)
BORDERS = st.lists(st.integers(0, 24), min_size=4, max_size=4).map(sorted).filter(lambda at: at[0] < at[1])


@settings(max_examples=40)
@given(st.lists(LANE, min_size=1, max_size=4), BORDERS)
def test_any_drawing_cell_by_cell(streams, borders):
    first, second, third, fourth = borders
    ruler = "." * first + "0" * (second - first) + "." * (third - second) + "1" * (fourth - third) + "." * (24 - fourth)
    table = rows("\n".join([f"step {ruler}", "1/7 C", *(f"0/{n} {cells}" for n, cells in enumerate(streams))]))
    assert not residue_ns(table).any()
    for step, step_ns, *found in table[table["rank"] == 0].drop(columns="rank").values.tolist():
        at_once = [
            set("".join(cells).upper())
            for cells, at in zip(zip(*streams, strict=True), ruler, strict=True)
            if at == str(step)
        ]
        kinds = [(("C" in here), ("N" in here), ("M" in here)) for here in at_once]
        assert step_ns == 1000 * len(kinds)
        assert found == [
            1000 * sum(compute for compute, _, _ in kinds),
            1000 * sum(comm and not compute for compute, comm, _ in kinds),
            1000 * sum(memory and not (compute or comm) for compute, comm, memory in kinds),
            1000 * sum(not any(here) for here in kinds),
            1000 * sum(comm for _, comm, _ in kinds),
            1000 * sum(comm and compute for compute, comm, _ in kinds),
        ]


def test_windows_of_one_rank_stay_apart():
    table = rows("0.0/7 CC..C\n0.1/7 .....C.C")
    assert table[["rank", "window", "step", "step_ns", "idle_ns"]].values.tolist() == [
        [0, 0, 0, 5000, 2000],
        [0, 1, 0, 3000, 1000],
    ]


def test_no_step_is_not_an_empty_table():
    with pytest.raises(NotMeasured, match="no step"):
        rows("0/7 ....")
