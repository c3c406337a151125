import pytest

from tests.workloads import traces


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory):
    return traces.run(tmp_path_factory.mktemp("ddp"), "ddp", "--ranks", "2")


def test_one_trace_a_rank_with_steps_shapes_and_memory(two_ranks):
    for rank in (0, 1):
        trace = two_ranks.trace(rank)
        assert trace["distributedInfo"]["rank"] == rank
        assert (trace["record_shapes"], trace["profile_memory"]) == (1, 1)
        steps = [event["name"] for event in two_ranks.events(rank) if event["name"].startswith("ProfilerStep")]
        assert steps == ["ProfilerStep#2", "ProfilerStep#3", "ProfilerStep#4"]


def test_buckets_are_reduced_while_backward_runs(two_ranks):
    names = [event["name"] for event in two_ranks.events(0)]
    assert names.count("gloo:all_reduce") >= 6


def test_the_model_learns(two_ranks):
    losses = two_ranks.facts["losses"]
    assert losses[-1] < losses[0]
