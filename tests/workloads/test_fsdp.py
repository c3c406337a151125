"""FSDP: right before fast, then what is gathered and reduced when, and what hides behind compute."""

from collections import Counter

import pytest
import torch

from tests.workloads import traces
from tests.workloads.traces import EMULATED, SMALL, collectives, named, overlap, products, steps

LAYERS = 3
SIZES = (*SMALL, "--layers", str(LAYERS))
LAST_STEP = ("--checkpoint-step", "4")
TOLERANCE = 1e-5
# Bfloat16 has 8 bits of precision: losses of about 4 are right to about 0.01.
BFLOAT16_TOLERANCE = 0.02


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return lambda *arguments: traces.run(tmp_path_factory.mktemp("fsdp"), *arguments)


@pytest.fixture(scope="module")
def whole(run):
    """One process with the whole batch, nothing split."""
    return run("ddp", "--ranks", "1", *SIZES, "--batch", "8", *LAST_STEP)


@pytest.fixture(scope="module")
def zero3(run):
    return run("fsdp", "--ranks", "2", *SIZES, *LAST_STEP)


@pytest.fixture(scope="module")
def zero2(run):
    return run("fsdp", "--ranks", "2", *SIZES, "--keep-gathered", "--prefetch", "2", *LAST_STEP)


@pytest.fixture(scope="module")
def accumulated(run):
    accumulation = ("--batch", "2", "--accumulation", "2", "--no-sync", "--activation-checkpointing")
    return run("fsdp", "--ranks", "2", *SIZES, *accumulation, "--prefetch", "0", *LAST_STEP)


@pytest.fixture(scope="module")
def mixed(run):
    return run("fsdp", "--ranks", "2", *SIZES, "--mixed-precision")


@pytest.mark.parametrize("split", ["zero3", "zero2", "accumulated"])
def test_ranks_together_do_what_one_process_does(whole, split, request):
    written = request.getfixturevalue(split)
    assert written.facts["losses"] == pytest.approx(whole.facts["losses"], abs=TOLERANCE)
    mine, theirs = written.parameters(), whole.parameters()
    assert mine.keys() == theirs.keys()
    for name in mine:
        torch.testing.assert_close(mine[name], theirs[name], atol=TOLERANCE, rtol=0, msg=name)


def test_all_states_shrink_by_the_shards(whole, zero3):
    alone, shards = whole.facts["ranks"][0], zero3.facts["ranks"]
    for kind in ("parameter_bytes", "gradient_bytes"):
        assert [rank[kind] for rank in shards] == [alone[kind] / 2] * 2
    counters = 4 * len(whole.parameters())  # Adam's step of each parameter, on every rank
    assert [rank["optimizer_bytes"] - counters for rank in shards] == [(alone["optimizer_bytes"] - counters) / 2] * 2


def issued(written):
    """How often each operation is called in the first step of the trace."""
    return Counter(call["op"] for call, _ in traces.calls(steps(written.events(0))[0]))


def test_zero3_gathers_blocks_twice_and_zero2_once(zero3, zero2):
    assert issued(zero3) == {"all_gather": 2 * LAYERS + 1, "reduce_scatter": LAYERS + 1}
    assert issued(zero2) == {"all_gather": LAYERS + 1, "reduce_scatter": LAYERS + 1}


def test_no_sync_reduces_once_for_all_micro_batches(accumulated):
    assert issued(accumulated) == {"all_gather": 2 * (2 * LAYERS + 1), "reduce_scatter": LAYERS + 1}


def moved(written, op):
    return sum(call["bytes"] for call, _ in traces.calls(steps(written.events(0))[0]) if call["op"] == op)


def test_every_parameter_is_gathered_and_reduced(whole, zero2, mixed):
    everything = whole.facts["ranks"][0]["parameter_bytes"]
    assert moved(zero2, "all_gather") == moved(zero2, "reduce_scatter") == moved(mixed, "reduce_scatter") == everything


def test_mixed_precision_gathers_half_the_bytes(zero3, mixed):
    assert moved(mixed, "all_gather") == moved(zero3, "all_gather") / 2
    assert mixed.facts["losses"] == pytest.approx(zero3.facts["losses"], abs=BFLOAT16_TOLERANCE)
    assert mixed.facts["losses"] != pytest.approx(zero3.facts["losses"], abs=TOLERANCE)
    assert [rank["parameter_bytes"] for rank in mixed.facts["ranks"]] == [
        rank["parameter_bytes"] for rank in zero3.facts["ranks"]
    ]


@pytest.mark.parametrize(("split", "depth"), [("accumulated", 0), ("zero3", 1), ("zero2", 2)])
def test_prefetch_gathers_ahead(split, depth, request):
    first = steps(request.getfixturevalue(split).events(0))[0]
    computing = products(first)[0]["ts"]
    before = [call for call, event in traces.calls(first) if event["ts"] < computing]
    root_and_first_block = 2
    assert len(before) == root_and_first_block + depth


def hidden(written, op):
    """Microseconds in which calls of this operation run beside matrix products, on rank 0."""
    events = written.events(0)
    return sum(overlap(span, products(events)) for call, span in collectives(events) if call["op"] == op)


def test_gathers_hide_behind_compute_and_scatters_do_not(run):
    written = run("fsdp", "--ranks", "2", *EMULATED, "--layers", "2")
    assert hidden(written, "all_gather") > 0
    assert hidden(written, "reduce_scatter") == 0
    assert any("reduce-scatter does not overlap" in note for note in written.facts["notes"])


def test_no_overlap_hides_nothing(run):
    written = run("fsdp", "--ranks", "2", *EMULATED, "--layers", "2", "--fault", "no_overlap")
    assert hidden(written, "all_gather") == hidden(written, "reduce_scatter") == 0
    assert issued(written) == {"all_gather": 2 * 2 + 1, "reduce_scatter": 2 + 1}
    assert [fault["kind"] for fault in written.facts["faults"]] == ["no_overlap"]


def test_micro_batches_are_visible(accumulated):
    for step in steps(accumulated.events(1)):
        names = [event["name"] for event in named(step, "forward", "backward")]
        assert names == [f"{way} microbatch={number}" for number in (0, 1) for way in ("forward", "backward")]


def test_the_record_says_how_it_was_sharded(zero3, zero2, mixed):
    assert zero3.facts["layout"]["sharding"] == "all states (ZeRO-3)"
    assert zero2.facts["layout"]["sharding"] == "gradients and optimizer states (ZeRO-2)"
    assert zero2.facts["layout"]["prefetch"] == 2
    assert mixed.facts["precision"] == {"gathered_and_computed": "bfloat16", "reduced": "float32", "kept": "float32"}


def test_a_negative_prefetch_is_refused(tmp_path, capsys):
    code = traces.launch.main(["fsdp", "--prefetch", "-1", "--out", str(tmp_path)])
    assert (code, capsys.readouterr().err) == (2, "workloads: --prefetch -1 is below 0\n")
