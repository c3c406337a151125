import pytest

from tests.pipelines import pipeline, torch_gpipe
from tests.read.tiny import kernel, launch, op, span, step, write
from tracekit import Analysis, load
from tracekit.errors import NotMeasured

CAUSES = ["must_ns", "imbalance_ns", "jitter_ns", "transfer_ns"]
GPIPE = """
    0  0011......aaaabbbb
    1  ..0011aaaabbbb....
"""
FORWARDS_THEN_GAP = """
    0  0011........aaaabbbb
    1  ...0011aaaabbbb.....
"""


@pytest.fixture
def rows(tmp_path):
    return lambda drawing, **spelled: Analysis(pipeline(drawing, tmp_path, **spelled))["pipeline"]


def us(rows, *columns):
    """The columns' values in microseconds, a tuple a row."""
    return [tuple(value / 1000 for value in row) for row in rows[list(columns)].itertuples(index=False)]


def found(rows):
    """Schedule, p, m and v, which all rows share."""
    [only] = set(rows[["schedule", "ranks", "microbatches", "stages_per_rank"]].itertuples(index=False, name=None))
    return only


def test_t8_a_third_of_the_window_is_bubble(cases):
    table = Analysis(load(cases / "T8"))["pipeline"]
    assert us(table, "window_ns", "busy_ns", "bubble_ns") == [(900, 600, 300)] * 2
    assert table["bubble_frac"].tolist() == table["theory_frac"].tolist() == [1 / 3] * 2
    assert table["bubble_ideal_frac"].tolist() == table["theory_ideal_frac"].tolist() == [1 / 2] * 2
    assert table[["group", "rank", "stage", "step"]].values.tolist() == [["0 1", 0, 0, 3], ["0 1", 1, 1, 3]]
    assert found(table) == ("gpipe", 2, 2, 1)


def test_each_phase_has_its_part_of_the_bubble(rows):
    table = rows(GPIPE)
    assert us(table, "window_ns", "bubble_ns") == [(18, 6), (18, 6)]
    assert us(table, "warmup_ns", "steady_ns", "cooldown_ns") == [(6, 0, 0), (2, 0, 4)]


def test_what_lies_outside_the_window_is_in_no_phase(rows):
    """The window is from the first forward (2) to the end of the last backward (8): rank 0's backward is before it."""
    table = rows("""
        0  aa..00..
        1  ..00..aa
    """)
    assert us(table, "window_ns", "bubble_ns") == [(6, 4), (6, 2)]
    assert us(table, "warmup_ns", "steady_ns", "cooldown_ns") == [(0, 2, 2), (2, 0, 0)]


def test_where_all_backwards_are_before_the_forwards_the_window_is_the_step(rows):
    table = rows("""
        0  aa..00
        1  aa..00
    """)
    assert us(table, "window_ns", "bubble_ns") == [(6, 2), (6, 2)]
    assert table[["warmup_ns", "steady_ns", "cooldown_ns"]].isna().all(axis=None)


def test_a_balanced_pipeline_is_as_idle_as_it_must_be(rows):
    assert us(rows(GPIPE), *CAUSES) == [(6, 0, 0, 0)] * 2


def test_what_lies_between_stages_is_transfer(rows):
    table = rows(FORWARDS_THEN_GAP)  # one microsecond on the way forward, one on the way back
    assert us(table, "bubble_ns", *CAUSES) == [(8, 6, 0, 0, 2)] * 2


def test_a_slow_stage_is_imbalance(rows):
    table = rows("""
        0  0011........aaaabbbb
        1  ..000111aaaabbbb....
    """)
    # Forwards take 2.5 on average: (p-1)(2.5 + 4) must be idle. The slow one makes the whole 20 instead of 19.5.
    assert us(table, "bubble_ns") == [(8,), (6,)]
    assert us(table, *CAUSES) == [(6.5, 0.5, 0, 0)] * 2


def test_one_slow_microbatch_is_jitter(rows):
    table = rows("""
        0  0011......aaaabbbbbbbb
        1  ..0011aaaabbbb........
    """)
    # Stage 0's backwards take 6 on average and stage 1's 4, so 5: 2 + 5 must be idle, of 5 + 9 + 7 = 21 in all.
    assert us(table, "window_ns") == [(22,)] * 2
    assert us(table, *CAUSES) == [(7, 1, 0, 0)] * 2


def test_causes_sum_to_the_mean_bubble(rows):
    table = rows("""
        0  0.11..........aaaa.bbbbbb
        1  ..00.11.aaa.bbbb.........
    """)
    assert (table[CAUSES].sum(axis=1) == table["bubble_ns"].mean()).all()


def test_1f1b(rows):
    table = rows("""
        0  01...aa2bbcc
        1  .0aa1bb2cc..
    """)
    assert found(table) == ("1f1b", 2, 3, 1)
    assert table["theory_frac"].tolist() == [1 / 4] * 2
    assert us(table, "bubble_ns", "warmup_ns", "steady_ns", "cooldown_ns") == [(3, 3, 0, 0), (3, 1, 0, 2)]


def test_interleaved(rows):
    table = rows("""
        0:0  01............aabb
        0:2  ..01......aabb....
        1:1  .01.........aabb..
        1:3  ...01.aabb........
    """)
    assert found(table)[1:] == (2, 2, 2)
    assert table["theory_frac"].tolist() == [1 / 5] * 2


def test_zero_bubble_counts_both_halves_of_a_backward(rows):
    table = rows("""
        0  01.A2BnCop
        1  .0A1B2Cnop
    """)
    assert found(table) == ("zero-bubble", 2, 3, 1)
    assert us(table, "window_ns", "busy_ns") == [(10, 9)] * 2
    assert table["theory_frac"].tolist() == table["bubble_frac"].tolist() == [1 / 10] * 2
    assert us(table, *CAUSES) == [(1, 0, 0, 0)] * 2


SENDS = """
    0    0123......a..b..c..d
    1    ....0aa1bb2cc3dd....
    0>1  .s.s.s.s............
    1<0  ...rr..r..r..r......
    1>0  .......s..s..s..s...
    0<1  .......r..r..r..r...
"""


def test_without_annotations_sends_tell_the_schedule_and_the_step_is_the_window(rows):
    table = rows(SENDS, spelled=None)
    assert found(table)[0:4] == ("1f1b", 2, 4, 1)
    assert us(table, "window_ns", "busy_ns", "bubble_ns") == [(20, 8, 12), (20, 12, 8)]
    assert table[["warmup_ns", "must_ns"]].isna().all(axis=None)
    assert table["theory_frac"].tolist() == [1 / 5] * 2


def test_gpipe_by_sends(rows):
    table = rows(
        """
        0    01....a.b
        1    ..0.1aabb
        0>1  .s.s.....
        1<0  .r.r.....
        1>0  ......s.s
        0<1  .....r.rr
        """,
        spelled=None,
    )
    assert found(table) == ("gpipe", 2, 2, 1)


def test_annotations_without_stages_take_the_place_in_the_pipeline(rows):
    table = rows(GPIPE + "0>1 ..s\n1<0 ..r\n1>0 ..........s\n0<1 ..........r", spelled=torch_gpipe)
    assert found(table) == ("gpipe", 2, 2, 1)
    assert us(table, "bubble_ns", *CAUSES) == [(6, 6, 0, 0, 0)] * 2


def test_receiving_is_bubble_and_a_collective_inside_a_forward_is_busy(rows):
    table = rows("""
        0               0...11......aaaabbbb
        1               ..0011aaaabbbb......
        0<1             ......rrrr
        1>0             .........s
        0=all_reduce    .NN.................  group=embedding ranks=0
    """)
    assert us(table, "busy_ns") == [(1 + 2 + 8,), (12,)]  # launched at 1, after the first forward's annotation


def test_a_collective_launched_inside_counts_without_its_wait(tmp_path):
    """Rank 0 computes [0, 2), is in an all-reduce from 2 to 8 that rank 1 enters at 5, and computes again [8, 10)."""
    tensor = {"Collective name": "allreduce", "Process Group Name": "norm", "Process Group Ranks": "[0, 1]",
              "Group size": 2, "Seq": 1, "dtype": "Float", "In msg nelems": 4, "Out msg nelems": 4}  # fmt: skip
    for rank, begin in ((0, 2), (1, 5)):
        events = [
            *(step(0, 0, 10), op(0, 3, f"PP:{rank}F0", cat="user_annotation"), launch(1, 0), launch(2, 1)),
            *(kernel(0, 2, correlation=1), kernel(begin, 8, "ncclDevKernel_AllReduce", 20, correlation=2, **tensor)),
            *(op(8, 10, f"PP:{rank}B0", cat="user_annotation"), launch(3, 8), kernel(8, 10, correlation=3)),
        ]
        write(tmp_path, events, f"rank{rank}.json", distributedInfo={"rank": rank, "world_size": 2})
    table = Analysis(load(tmp_path))["pipeline"]
    assert us(table, "window_ns", "busy_ns", "bubble_ns") == [(10, 7, 3), (10, 7, 3)]


def test_an_annotation_that_holds_a_wait_ends_with_its_compute(tmp_path):
    for rank, begin in ((0, 0), (1, 6)):
        events = [
            *(step(0, 0, 20), span(f"PP:{rank}F0", 0, 10, "user_annotation", (100, 1))),
            *(launch(1, begin), kernel(begin, begin + 2, correlation=1)),
            *(span(f"PP:{rank}B0", 10, 20, "user_annotation", (100, 1)), launch(2, 15 - begin)),
            kernel(15 - begin, 18 - begin, correlation=2),
        ]
        write(tmp_path, events, f"rank{rank}.json", distributedInfo={"rank": rank, "world_size": 2})
    assert us(Analysis(load(tmp_path))["pipeline"], "window_ns") == [(18,), (18,)]


def test_pipelines_beside_each_other_have_windows_of_their_own(rows):
    table = rows("""
        0:0  0...aa
        1:1  .0aa..
        2:0  .0...aa
        3:1  ..0aa..
    """)
    assert table[["group", "rank", "stage"]].values.tolist() == [
        ["0 1", 0, 0], ["0 1", 1, 1], ["2 3", 2, 0], ["2 3", 3, 1],
    ]  # fmt: skip
    assert us(table, "window_ns") == [(6,)] * 4


def test_each_step_by_itself(rows):
    table = rows("""
        step  0000001111111
        0     0...aa.0...aa
        1     .0aa...0aaa..
    """)
    assert table[["step", "rank"]].values.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert us(table, "window_ns", "busy_ns") == [(6, 3), (6, 3), (6, 3), (6, 4)]


def test_a_stage_whose_file_is_missing_leaves_the_causes_untold(rows, tmp_path):
    sends = "0>1 ..s ranks=0,1,2\n1<0 ..r ranks=0,1,2"
    pipeline(GPIPE + sends.replace("ranks", "group=pp ranks"), tmp_path)
    for rank in (0, 1):
        file = tmp_path / f"rank{rank}.json"
        file.write_text(file.read_text().replace('"world_size": 2', '"world_size": 3'))
    table = Analysis(load(tmp_path, cache=False))["pipeline"]
    assert table[["rank", "ranks"]].values.tolist() == [[0, 3], [1, 3]]
    assert table[CAUSES].isna().all(axis=None)
    assert table["theory_frac"].tolist() == [2 / 4] * 2


def test_a_job_without_stages_has_no_pipeline(rows):
    with pytest.raises(NotMeasured, match="no pipeline"):
        rows("0 0a\n1 0a\n0=all_reduce .N ranks=0,1\n1=all_reduce .N ranks=0,1", spelled=torch_gpipe)
