from tests.pipelines import pipeline, torch_gpipe
from tracekit import Analysis


def table(run):
    """Rank, step, stage, micro-batches, and in microseconds forward, backward, weight, both per micro-batch."""
    rows = Analysis(run)["stages"]
    return [(*row[:4], *(value / 1000 for value in row[4:])) for row in rows.itertuples(index=False)]


def test_forward_and_backward_of_each_stage(tmp_path):
    assert table(pipeline("0 0011....aaaabb\n1 ..01AAABBn.o..", tmp_path)) == [
        (0, 0, 0, 2, 4, 6, 0, 2, 3),
        (1, 0, 1, 2, 2, 7, 2, 1, 3.5),
    ]


def test_several_stages_of_a_rank_and_several_steps(tmp_path):
    assert table(pipeline("step 00001111\n0:0 0..a0..a\n0:2 .0...00.", tmp_path)) == [
        (0, 0, 0, 1, 1, 1, 0, 1, 1),
        (0, 0, 2, 1, 1, 0, 0, 1, 0),
        (0, 1, 0, 1, 1, 1, 0, 1, 1),
        (0, 1, 2, 1, 2, 0, 0, 2, 0),
    ]


def test_without_a_pipeline_too(tmp_path):
    [row] = table(pipeline("0 0.aa", tmp_path, spelled=torch_gpipe))
    assert row[4:6] == (1, 2)
