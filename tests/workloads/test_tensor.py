"""Tensor parallelism: right before fast, then the collectives that Megatron's split needs, counted from the model."""

from collections import Counter

import pytest
import torch

from tests.workloads import traces
from tests.workloads.traces import EMULATED, SMALL, collectives, named, overlap, products, steps

LAYERS = 2
SIZES = (*SMALL, "--layers", str(LAYERS))
ACTIVATIONS = 4 * 32 * 64 * 4  # of SMALL: batch x sequence x width, in float32
NORM_PARAMETERS = 2 * (2 * LAYERS + 1)  # weight and bias of two norms a block and of the last
LAST_STEP = ("--checkpoint-step", "4")
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return lambda *arguments: traces.run(tmp_path_factory.mktemp("tensor"), *arguments)


@pytest.fixture(scope="module")
def whole(run):
    """One process with the whole batch, nothing split."""
    return run("ddp", "--ranks", "1", *SIZES, *LAST_STEP)


@pytest.fixture(scope="module")
def plain(run):
    return run("tensor", "--ranks", "2", *SIZES, *LAST_STEP)


@pytest.fixture(scope="module")
def sequence(run):
    return run("tensor", "--ranks", "2", *SIZES, "--sequence-parallel", *LAST_STEP)


@pytest.fixture(scope="module")
def accumulated(run):
    options = ("--batch", "2", "--accumulation", "2", "--activation-checkpointing", "--sequence-parallel")
    return run("tensor", "--ranks", "2", *SIZES, *options, *LAST_STEP)


@pytest.mark.parametrize("split", ["plain", "sequence", "accumulated"])
def test_ranks_together_do_what_one_process_does(whole, split, request):
    written = request.getfixturevalue(split)
    assert written.facts["losses"] == pytest.approx(whole.facts["losses"], abs=TOLERANCE)
    mine, theirs = written.parameters(), whole.parameters()
    assert mine.keys() == theirs.keys()
    for name in mine:
        torch.testing.assert_close(mine[name], theirs[name], atol=TOLERANCE, rtol=0, msg=name)


@pytest.mark.parametrize("split", ["plain", "sequence", "accumulated"])
def test_all_ranks_compute_the_same_samples(split, request):
    facts = request.getfixturevalue(split).facts
    assert facts["ranks"][0]["losses"] == facts["ranks"][1]["losses"]
    assert facts["samples_per_step"] == 4


@pytest.mark.parametrize("split", ["plain", "sequence"])
def test_matrices_shrink_and_the_rest_stays_whole(whole, split, request):
    # Of a block: query, key, value, out are 64 x 64, up and down 64 x 256, up's bias is cut with its columns.
    cut = 4 * LAYERS * (4 * 64 * 64 + 2 * 64 * 256 + 256)
    alone, ranks = whole.facts["ranks"][0], request.getfixturevalue(split).facts["ranks"]
    for kind in ("parameter_bytes", "gradient_bytes"):
        assert {rank[kind] for rank in ranks} == {alone[kind] - cut / 2}
    assert {rank["optimizer_bytes"] for rank in ranks} == {alone["optimizer_bytes"] - cut}  # two states of each


def issued(step, within=None):
    """How often each operation is called with how many bytes in the step, or in its spans of this name."""
    spans = named(step, within or "ProfilerStep#")
    return Counter(
        (call["op"], call["bytes"])
        for call, event in traces.calls(step)
        if any(span["ts"] <= event["ts"] < traces.end(span) for span in spans)
    )


def test_two_all_reduces_a_block_forward_and_two_backward(plain):
    for step in steps(plain.events(0))[:2]:
        assert issued(step, "forward") == {("all_reduce", ACTIVATIONS): 2 * LAYERS}
        assert issued(step, "backward") == {("all_reduce", ACTIVATIONS): 2 * LAYERS}
        assert issued(step) == {("all_reduce", ACTIVATIONS): 4 * LAYERS}


def test_sequence_parallel_gathers_and_scatters_instead(sequence):
    first = steps(sequence.events(0))[0]
    each_way = {("all_gather", ACTIVATIONS): 2 * LAYERS + 1, ("reduce_scatter", ACTIVATIONS): 2 * LAYERS}
    assert issued(first, "forward") == each_way
    assert issued(first, "backward") == each_way


def test_sequence_parallel_sums_the_gradients_of_norms_once_a_step(sequence, accumulated):
    for written in (sequence, accumulated):
        first = steps(written.events(0))[0]
        assert issued(first, "gradients of norms") == {("all_reduce", 64 * 4): NORM_PARAMETERS}
        assert issued(first)["all_reduce", 64 * 4] == NORM_PARAMETERS


def innermost(events):
    """Of spans in spans of the same name, DTensor's with the whole shape around the one that computes: the latter."""
    return [
        event
        for event, following in zip(events, [*events[1:], None], strict=True)
        if following is None or following["ts"] >= traces.end(event)
    ]


def test_sequence_parallel_norms_compute_a_share_of_the_tokens(plain, sequence):
    def normalised(written):
        first = steps(written.events(0))[0]
        [forward] = named(first, "forward")
        norms = [norm for norm in named(first, "aten::native_layer_norm") if norm["ts"] < traces.end(forward)]
        return [norm["args"]["Input Dims"][0] for norm in innermost(norms)]

    assert normalised(plain) == [[4, 32, 64]] * (2 * LAYERS + 1)
    assert normalised(sequence) == [[4, 16, 64]] * (2 * LAYERS + 1)


def test_activation_checkpointing_repeats_the_communication_of_forward(accumulated):
    microbatches, size = 2, ACTIVATIONS // 2
    [first, *_] = steps(accumulated.events(0))
    assert issued(first, "activation checkpoint: recompute") == {
        ("all_gather", size): 2 * LAYERS * microbatches,
        ("reduce_scatter", size): LAYERS * microbatches,  # the last of a block changes no gradient
    }


def test_nothing_hides_the_communication(run):
    written = run("tensor", "--ranks", "2", *EMULATED)
    events = written.events(0)
    spans = [span for _, span in collectives(events)]
    assert len(spans) == 3 * 4
    assert sum(overlap(span, products(events)) for span in spans) == 0


@pytest.mark.parametrize("split", ["plain", "sequence"])
def test_a_wait_is_never_inside_an_operation_that_computes(split, request):
    for step in steps(request.getfixturevalue(split).events(0)):
        waits = named(step, "_c10d_functional::wait_tensor")
        assert waits
        assert not [event["name"] for event in named(step, "aten::") if any(around(wait, event) for wait in waits)]


def around(inner, outer):
    return inner["tid"] == outer["tid"] and outer["ts"] <= inner["ts"] and traces.end(inner) <= traces.end(outer)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--ranks", "3"), "--heads 4 does not divide by 3 ranks"),
        (("--ranks", "2", "--sequence", "15", "--sequence-parallel"), "--sequence 15 does not divide by 2 ranks"),
        (("--fault", "no_overlap"), "fault no_overlap cannot happen in tensor on cpu: it has no communication"),
        (("--fault", "length_imbalance"), "fault length_imbalance cannot happen in tensor on cpu: all ranks compute"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(tmp_path, capsys, options, said):
    code = traces.launch.main(["tensor", "--device", "cpu", "--out", str(tmp_path), *options])
    error = capsys.readouterr().err
    assert code == 2
    assert error.startswith(f"workloads: {said}")
    assert error.count("\n") == 1


def test_an_odd_sequence_needs_no_cut_without_sequence_parallel(run):
    facts = run("tensor", "--ranks", "2", *SIZES, "--sequence", "15").facts
    assert facts["layout"]["axes"] == [{"name": "tp", "size": 2, "groups": [[0, 1]]}]
    assert facts["layout"]["sequence_parallel"] is False
