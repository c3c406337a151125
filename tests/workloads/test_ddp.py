"""DDP: right before fast, then what its traces show."""

import pytest
import torch

from tests.workloads import traces
from tests.workloads.traces import SMALL, collectives, end, named, steps

LAST_STEP = ("--checkpoint-step", "4")
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return lambda *arguments: traces.run(tmp_path_factory.mktemp("ddp"), "ddp", *SMALL, *arguments)


@pytest.fixture(scope="module")
def whole(run):
    """One process with the whole batch."""
    return run("--ranks", "1", "--batch", "8", *LAST_STEP)


@pytest.fixture(scope="module")
def two_ranks(run):
    return run("--ranks", "2", *LAST_STEP)


@pytest.fixture(scope="module")
def sharded(run):
    return run("--ranks", "2", "--zero1", *LAST_STEP)


@pytest.fixture(scope="module")
def accumulated(run):
    return run("--ranks", "2", "--batch", "2", "--accumulation", "2", "--no-sync", *LAST_STEP)


def same(one, other):
    assert one.facts["losses"] == pytest.approx(other.facts["losses"], abs=TOLERANCE)
    mine, theirs = one.parameters(), other.parameters()
    assert mine.keys() == theirs.keys()
    for name in mine:
        torch.testing.assert_close(mine[name], theirs[name], atol=TOLERANCE, rtol=0, msg=name)


@pytest.mark.parametrize("split", ["two_ranks", "sharded", "accumulated"])
def test_ranks_together_do_what_one_process_does(whole, split, request):
    same(request.getfixturevalue(split), whole)


def test_accumulation_without_no_sync_gives_the_same(run, whole):
    same(run("--ranks", "2", "--batch", "2", "--accumulation", "2", *LAST_STEP), whole)


@pytest.mark.parametrize("split", ["two_ranks", "sharded", "accumulated"])
def test_replicas_stay_identical(split, request):
    assert len({rank["parameter_digest"] for rank in request.getfixturevalue(split).facts["ranks"]}) == 1


def test_without_averaging_replicas_diverge(run):
    written = run("--ranks", "2", "--never-average")
    assert len({rank["parameter_digest"] for rank in written.facts["ranks"]}) == 2


def test_the_model_learns(whole):
    assert whole.facts["losses"][-1] < whole.facts["losses"][0]


def test_ddp_holds_all_states_on_every_rank(whole, two_ranks):
    for kind in ("parameter_bytes", "gradient_bytes", "optimizer_bytes"):
        assert {rank[kind] for rank in two_ranks.facts["ranks"]} == {whole.facts["ranks"][0][kind]}


def test_zero1_shards_the_optimizer_states_and_nothing_else(whole, sharded):
    alone, shards = whole.facts["ranks"][0], sharded.facts["ranks"]
    assert sum(rank["optimizer_bytes"] for rank in shards) == alone["optimizer_bytes"]
    assert max(rank["optimizer_bytes"] for rank in shards) < 0.7 * alone["optimizer_bytes"]
    assert {rank["parameter_bytes"] for rank in shards} == {alone["parameter_bytes"]}


def test_zero1_broadcasts_parameters(sharded):
    first = steps(sharded.events(0))[0]
    assert {call["op"] for call, _ in collectives(first)} == {"all_reduce", "broadcast"}


def test_the_effective_batch_is_recorded(accumulated):
    assert accumulated.facts["batch"] == {"per_device": 2, "data_parallel": 2, "accumulation": 2, "effective": 8}
    assert accumulated.facts["samples_per_step"] == 8


def all_reduces(written):
    return [sum(call["op"] == "all_reduce" for call, _ in traces.calls(step)) for step in steps(written.events(0))]


def test_no_sync_averages_once_a_step(two_ranks, accumulated):
    assert all_reduces(accumulated) == all_reduces(two_ranks)


def test_without_no_sync_every_micro_batch_is_averaged(run, two_ranks):
    written = run("--ranks", "2", "--batch", "2", "--accumulation", "2")
    assert all_reduces(written) == [2 * count for count in all_reduces(two_ranks)]


def test_smaller_buckets_are_more_calls_of_the_same_bytes(run, two_ranks):
    def reduced(written):
        return [call["bytes"] for call, _ in traces.calls(steps(written.events(0))[0])]

    fine = reduced(run("--ranks", "2", "--bucket-mb", "0.05"))
    coarse = reduced(two_ranks)
    assert len(fine) > len(coarse)
    assert sum(fine) == sum(coarse) == two_ranks.facts["ranks"][0]["gradient_bytes"]


def test_one_trace_a_rank_with_steps_shapes_and_memory(two_ranks):
    for rank in (0, 1):
        trace = two_ranks.trace(rank)
        assert trace["distributedInfo"]["rank"] == rank
        assert (trace["record_shapes"], trace["profile_memory"]) == (1, 1)
        names = [event["name"] for event in named(two_ranks.events(rank), "ProfilerStep")]
        assert names == ["ProfilerStep#2", "ProfilerStep#3", "ProfilerStep#4"]


def test_the_record_is_complete(two_ranks):
    facts = two_ranks.facts
    assert facts["layout"] == {
        "axes": [{"name": "dp", "size": 2, "groups": [[0, 1]]}],
        "sharding": None,
        "bucket_bytes": 2**19,
    }
    assert facts["model"]["parameters"] * 4 == facts["ranks"][0]["parameter_bytes"]
    assert (facts["device"], facts["backend"], facts["world_size"]) == ("cpu", "gloo", 2)
    assert facts["command"].startswith("python -m workloads ddp --layers 1")
    assert set(facts["versions"]) == {"python", "torch"}
    assert [rank["trace"] for rank in facts["ranks"]] == ["rank0.json.gz", "rank1.json.gz"]
    assert all(rank["peak_memory"]["bytes"] > 0 for rank in facts["ranks"])
    assert facts["faults"] == []


def test_the_fault_tolerance_checkpoint_shows_as_one(two_ranks):
    for rank in (0, 1):
        events = two_ranks.events(rank)
        assert [event["name"] for event in named(events, "fault-tolerance")] == [
            "fault-tolerance checkpoint: save step=4"
        ]
        assert not named(events, "activation checkpoint")


def test_activation_checkpointing_shows_as_a_second_forward(run, two_ranks):
    written = run("--ranks", "2", "--activation-checkpointing")
    assert written.facts["losses"] == pytest.approx(two_ranks.facts["losses"], abs=TOLERANCE)
    for step in steps(written.events(0)):
        [backward] = named(step, "backward")
        [again] = named(step, "activation checkpoint: recompute layer=0")
        assert backward["ts"] < again["ts"]
        assert end(again) < end(backward)
    assert not named(written.events(0), "fault-tolerance")
