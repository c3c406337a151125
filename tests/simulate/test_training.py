from collections import Counter

import pytest

from tracekit.simulate.costs import Costs
from tracekit.simulate.job import job_of
from tracekit.simulate.program import Busy, Call, Enter, Sync
from tracekit.simulate.training import Trouble, programs, step_program, tied

MODEL = {"preset": "megatron-1.7b", "layers": 8, "vocabulary": 1000}


def program(layout, place=0, **trouble):
    return step_program(Costs(job_of({"model": MODEL, "layout": layout})), place, Trouble(**trouble))


def calls(told):
    return [one for one in told.work if isinstance(one, Call)]


def counted(told):
    return Counter((call.axis, call.op) for call in calls(told))


def annotations(told):
    return [one.name for one in told.instructions if isinstance(one, Enter)]


def test_gradients_of_large_layers_are_reduced_one_by_one_the_embedding_last():
    # 8 layers of 127 MB of gradients and an embedding: more than 25 MB each.
    told = program("dp 2")
    assert counted(told) == {("data", "all_reduce"): 9}
    assert sum(call.bytes for call in calls(told)) == pytest.approx(
        2 * job_of({"model": MODEL}).model.parameters, rel=1e-6
    )


def test_gradients_are_reduced_with_the_last_micro_batch_only_unless_they_are_sharded():
    accumulated = {"data": 2, "microbatches": 3}
    assert counted(program(accumulated)) == {("data", "all_reduce"): 9}
    assert counted(program({**accumulated, "zero_stage": 1})) == {
        ("data", "reduce_scatter"): 9,
        ("data", "all_gather"): 8,
    }
    assert counted(program({**accumulated, "zero_stage": 2}))["data", "reduce_scatter"] == 27


def test_sharded_layers_are_gathered_in_forward_and_in_backward_and_scattered_once():
    # Each of 8 layers twice, the embedding and the output layer once; gradients of all ten.
    assert counted(program("fsdp 2")) == {("data", "all_gather"): 18, ("data", "reduce_scatter"): 10}


def test_tensor_ranks_meet_twice_a_layer_each_way_and_at_both_ends():
    assert counted(program("tp 2")) == {("tensor", "all_reduce"): 34}
    counts = counted(program({"tensor": 2, "sequence_parallel": True}))
    # Forward: 2 and 1 at the output, 2 and 1 at the embedding. Backward: 4 and 1, 2 and 1.
    assert counts == {("tensor", "all_gather"): 16 + 1 + 32 + 1, ("tensor", "reduce_scatter"): 16 + 1 + 16 + 1}


PIPELINES = [
    ("gpipe", 1), ("1f1b", 1), ("looped-bfs", 2), ("interleaved", 2), ("zero-bubble", 1), ("zbv", 2), ("dualpipev", 2),
]  # fmt: skip


@pytest.mark.parametrize(("schedule", "virtual"), PIPELINES)
@pytest.mark.parametrize("ranks", [2, 4])
def test_between_two_ranks_both_ends_keep_one_order(schedule, virtual, ranks):
    layout = {"pipeline": ranks, "microbatches": 8, "schedule": schedule, "stages_per_rank": virtual}
    ends = {"send": Counter(), "recv": Counter()}
    for place in range(ranks):
        for call in calls(program(layout, place)):
            if call.axis == "pipeline":
                ends[call.op][call.channel] += 1
                assert place == call.channel[0 if call.op == "send" else 1]
    assert ends["send"] == ends["recv"]
    boundaries = ranks * virtual - 1 - (schedule in ("zbv", "dualpipev"))
    assert sum(ends["send"].values()) == 2 * 8 * boundaries


def test_actions_are_annotated_as_pytorch_does():
    told = annotations(program({"pipeline": 2, "microbatches": 2, "schedule": "zero-bubble"}, 1))
    assert [name for name in told if name.startswith("PP:")] == [
        "PP:1F0",
        "PP:1I0",
        "PP:1F1",
        "PP:1I1",
        "PP:1W0",
        "PP:1W1",
    ]


def test_embeddings_are_tied_between_the_first_and_the_last_rank():
    two, four = ({"model": MODEL, "layout": {"pipeline": size, "microbatches": 8}} for size in (2, 4))
    assert tied(job_of(two))
    whole = [counted(step_program(Costs(job_of(four)), place, Trouble())) for place in range(4)]
    assert [counts["embedding", "all_reduce"] for counts in whole] == [1, 0, 0, 1]
    in_a_v = {"pipeline": 2, "microbatches": 8, "schedule": "zbv", "stages_per_rank": 2}
    assert not tied(job_of({**two, "layout": in_a_v}))


def busy(told):
    return [(one.name, one.ns) for one in told.instructions if isinstance(one, Busy)]


def test_what_faults_do_to_the_host():
    assert busy(program("dp 2", stall_ns=3))[1:] == [("", 3)] * 8
    assert busy(program("dp 2", garbage_ns=9))[0] == ("Python GC generation=2", 9)
    assert busy(program("dp 2", load_ns=50)) == [
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 100_050)
    ]
    syncs = [one for one in program("dp 2", syncs=True).instructions if isinstance(one, Sync)]
    assert len(syncs) == 8 + 8 + 1  # after each layer, forward and backward, and the loss


def test_a_heavy_stage_has_more_layers_on_all_ranks_that_hold_it():
    layout = {"data": 2, "pipeline": 2, "microbatches": 4}
    job = job_of({"model": MODEL, "layout": layout, "faults": ["stage_imbalance:3:2"]})
    sizes = [steps[0].slots for _, steps in programs(Costs(job))]
    healthy = [steps[0].slots for _, steps in programs(Costs(job.without(*job.faults)))]
    assert [size > normal for size, normal in zip(sizes, healthy, strict=True)] == [False, False, True, True]


def test_ranks_that_do_the_same_share_a_program():
    made = [steps for _, steps in programs(Costs(job_of({"model": MODEL, "layout": "dp 4", "faults": ["gc:1"]})))]
    assert made[0][0] is made[3][2]
    assert made[1][0] is made[0][0]
    assert made[1][1] is not made[0][1]
