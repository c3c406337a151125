import pytest

from tests import lanes
from tests.rules.drawn import healthy, job
from tests.rules.pipelined import pipelined, two_by_two
from tracekit import Analysis
from tracekit.errors import NotMeasured
from tracekit.rules import pipeline_bubble

FEW = two_by_two(
    "0011....aabb", "..0011aabb..",
    "0>1 ..ss........", "1<0 ..ss........", "1>0 ........ss..", "0<1 ........ss..",
)  # fmt: skip


def test_two_microbatches_for_two_stages(tmp_path):
    """GPipe: 1 of 3 slots is bubble, with four micro-batches 1 of 5; the same 2/3 of 12 us in 4/5 of 10 us."""
    [finding] = pipeline_bubble.check(pipelined(FEW, tmp_path))
    assert (finding.code, finding.ranks, finding.steps, finding.cost_ns) == ("pipeline-bubble", (), (), 2000)
    assert finding.title == "2 micro-batches are few for a pipeline of 2 ranks: 33% of its time is bubble"
    assert finding.evidence == (
        "by theory the schedule gpipe leaves a bubble of 33% of the makespan; measured are 33%",
        "with 4 micro-batches for the same batch theory says 20%",
    )
    assert finding.advice.startswith("4 micro-batches of half the size")


def test_silent_with_many_microbatches(tmp_path):
    """Ten for two stages: 1 of 11."""
    forward, backward = "0123456789", "abcdefghij"
    drawing = "\n".join([
        f"0 {forward}..{backward}", f"1 .{forward}{backward}.",
        f"0>1 .{'s.' * 5}{'.' * 11}", f"1<0 .{'r.' * 5}{'.' * 11}",
    ])  # fmt: skip
    assert list(pipeline_bubble.check(pipelined(drawing, tmp_path))) == []


@pytest.mark.parametrize("drawing", [job(healthy(), healthy()), "0/7 CC"])
def test_without_a_pipeline_there_is_nothing_to_tell(drawing):
    with pytest.raises(NotMeasured):
        list(pipeline_bubble.check(Analysis(lanes.run(drawing))))
