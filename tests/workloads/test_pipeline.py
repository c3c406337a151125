"""Pipelines: right before fast, then what their traces show, and on the emulated device the bubble beside theory."""

from __future__ import annotations

import argparse
import itertools
import re
from collections import defaultdict
from typing import NamedTuple

import pytest

from tests.workloads import traces
from tests.workloads.orders import busy_share, in_flight, order, plan
from tests.workloads.traces import Event, Written, end, named, products, steps, total
from workloads import pipeline
from workloads.errors import WrongUse

SIZES = ("--layers", "4", "--width", "32", "--sequence", "16", "--vocabulary", "16", "--wait", "0", "--active", "2")
LAST_STEP = ("--checkpoint-step", "2")
MICROBATCHES = 4
ACTION = re.compile(r"PP:(\d+)([FBIW])(\d+)")


class Stages(NamedTuple):
    virtual: int  # on each rank
    boundaries: int  # with two ranks, how many neighbours are on different ones


SCHEDULES = {
    "gpipe": Stages(1, 1),
    "1f1b": Stages(1, 1),
    "interleaved": Stages(2, 3),
    "interleaved-zero-bubble": Stages(2, 3),
    "zbv": Stages(2, 2),
    "dualpipev": Stages(2, 2),
}


class Scheduled(NamedTuple):
    schedule: str
    written: Written
    steps: list[list[list[Event]]]  # by rank


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """One process with the whole batch."""
    folder = tmp_path_factory.mktemp("whole")
    return traces.run(folder, "ddp", "--ranks", "1", "--batch", "8", *SIZES, *LAST_STEP)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two ranks and four micro-batches of two samples."""
    given = ("--ranks", "2", "--batch", "2", "--microbatches", str(MICROBATCHES), *SIZES)
    return lambda schedule, *more: traces.run(
        tmp_path_factory.mktemp(schedule), "pipeline", "--schedule", schedule, *given, *more
    )


@pytest.fixture(scope="module", params=SCHEDULES)
def scheduled(request, run):
    """Under each schedule; in the last step the checkpoint is written."""
    written = run(request.param, *LAST_STEP)
    return Scheduled(request.param, written, [steps(written.events(rank)) for rank in (0, 1)])


def actions(events):
    """Stage, F, B, I or W, and micro-batch of each span in order, with the span."""
    found = [(ACTION.fullmatch(event["name"]), event) for event in named(events, "PP:")]
    return [((int(match[1]), match[2], int(match[3])), event) for match, event in found]


def within(span, events):
    return [event for event in events if span["ts"] <= event["ts"] < end(span)]


def test_a_pipeline_does_what_one_process_does(scheduled, whole):
    traces.same(scheduled.written, whole)


def test_activations_computed_again_change_nothing(run, whole):
    traces.same(run("zbv", "--activation-checkpointing", *LAST_STEP), whole)


def test_actions_come_in_the_schedules_order_and_none_within_another(scheduled):
    planned = plan(scheduled.schedule, 2, MICROBATCHES, SCHEDULES[scheduled.schedule].virtual)
    for of_rank, recorded in zip(planned, scheduled.steps, strict=True):
        for step in recorded:
            seen = actions(step)
            assert [action for action, _ in seen] == order(of_rank)
            assert all(end(one) <= other["ts"] for (_, one), (_, other) in itertools.pairwise(seen))


def test_each_stage_and_micro_batch_has_its_forward_and_its_backward(scheduled):
    letters = defaultdict(list)
    for first, _ in scheduled.steps:
        for (stage, letter, microbatch), _ in actions(first):
            letters[stage, microbatch].append(letter)
    assert len(letters) == 2 * SCHEDULES[scheduled.schedule].virtual * MICROBATCHES
    assert all(sorted(seen) in (["B", "F"], ["F", "I", "W"]) for seen in letters.values())


def test_there_is_no_other_spelling(scheduled):
    for step in itertools.chain(*scheduled.steps):
        assert not named(step, "Forward ", "Backward ")
        assert all(ACTION.fullmatch(event["name"]) for event in named(step, "PP:"))


def test_transfers_are_annotated_alike_on_both_ends(scheduled):
    ends = {"send": [], "recv": []}
    for rank, (first, _) in enumerate(scheduled.steps):
        for call, _ in traces.calls(first):
            ends[call["op"]].append(tuple(call[key] for key in ("group", "seq", "src", "dst", "bytes")))
            assert rank == call["src" if call["op"] == "send" else "dst"]
    assert sorted(ends["send"]) == sorted(ends["recv"])
    assert len(ends["send"]) == 2 * SCHEDULES[scheduled.schedule].boundaries * MICROBATCHES
    assert {size for *_, size in ends["send"]} == {2 * 16 * 32 * 4}  # batch × sequence × width, in float32


def test_every_transfer_is_awaited_and_nothing_computes_meanwhile(scheduled):
    for first, _ in scheduled.steps:
        waits, computing = named(first, "wait:"), named(first, "PP:", "aten::")
        awaited = sorted(event["name"].removeprefix("wait:") for event in waits)
        assert awaited == sorted(event["name"].removeprefix("comm:") for event in named(first, "comm:"))
        assert not [event for wait in waits for event in computing if traces.overlap(wait, [event])]


def test_the_gradients_of_inputs_and_of_weights_are_each_computed_once(run):
    """Per layer six matrices and attention, which has no weights; one matrix more in the head."""
    written, seen = run("interleaved-zero-bubble"), defaultdict(set)
    for rank in (0, 1):
        events = steps(written.events(rank))[0]
        for (stage, letter, _), span in actions(events):
            seen[stage, letter].add(len(products(within(span, events))))
    middle = {"F": 7, "I": 7, "W": 6}
    for letter, count in middle.items():
        assert seen[1, letter] == seen[2, letter] == {count}
        assert seen[3, letter] == {count + 1}
    assert (seen[0, "F"], seen[0, "I"], seen[0, "W"]) == ({7}, {0}, {7 + 6})


def test_the_record_says_which_stage_is_where(run):
    facts = run("zbv").facts
    assert facts["layout"] == {
        "axes": [{"name": "pp", "size": 2, "groups": [[0, 1]]}],
        "schedule": "zbv",
        "microbatches": 4,
        "virtual_stages": 2,
    }
    assert [(stage["pp"], stage["layers"]) for stage in facts["stages"]] == [(0, [0]), (1, [1]), (1, [2]), (0, [3])]
    assert facts["batch"] == {"per_device": 2, "data_parallel": 1, "accumulation": 4, "effective": 8}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"layers": 6}, "--layers 6 does not divide by 4 stages"),
        ({"accumulation": 3, "schedule": "1f1b"}, "--microbatches 3, but 1f1b needs 4, one for each stage"),
        ({"accumulation": 6, "schedule": "dualpipev"}, "--microbatches 6, but dualpipev needs 8, one for each stage"),
        (
            {"accumulation": 9, "schedule": "interleaved"},
            "--microbatches 9 does not divide by 2, its rounds over 4 ranks",
        ),
        ({"virtual_stages": 3, "schedule": "zbv"}, "--virtual-stages 3, but zbv has 2 on each rank"),
    ],
)
def test_sizes_that_do_not_fit_are_named(given, said):
    options = {"layers": 8, "accumulation": 8, "schedule": "gpipe", "virtual_stages": None, **given}
    with pytest.raises(WrongUse, match=said):
        pipeline.layout(argparse.Namespace(**options), 4)


@pytest.mark.parametrize(("microbatches", "ranks"), [(8, 4), (12, 4), (4, 2)])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_schedules_are_as_idle_and_hold_as_much_as_the_docstring_says(schedule, ranks, microbatches):
    virtual = SCHEDULES[schedule].virtual
    planned = plan(schedule, ranks, microbatches, virtual)
    busy = busy_share(planned, {"F": 1, "B": 2, "I": 1, "W": 1})
    assert busy == pytest.approx([theory(schedule, ranks, microbatches)] * ranks)
    held = {
        "gpipe": lambda _: microbatches,
        "1f1b": lambda rank: ranks - rank,
        "interleaved": lambda rank: ((virtual + 1) * ranks - 2 * rank - 1) / virtual,
        "dualpipev": lambda _: ranks + 1 / 2,
    }.get(schedule, lambda _: ranks)
    assert [in_flight(of_rank, virtual) for of_rank in planned] == [held(rank) for rank in range(ranks)]


def theory(schedule, ranks, microbatches):
    """The busy share of the time from the first forward to the last backward."""
    ramps = {"interleaved": 2, "interleaved-zero-bubble": 6, "zbv": 6, "dualpipev": 3}  # how much shorter than GPipe's
    work = ramps.get(schedule, 1) * microbatches
    return work / (work + ranks - 1)


# Matrix products and attention take 20 ms or more each; 20 of them are a layer's forward and backward.
EMULATED = ("--device", "emulated", "--emulated-flops", "5.2e7", "--width", "64", "--sequence", "32", "--batch", "4")
ONE_STEP = ("--vocabulary", "16", "--wait", "0", "--warmup", "0", "--active", "1")


@pytest.mark.parametrize(("schedule", "microbatches"), [("gpipe", 4), ("1f1b", 4), ("interleaved", 4), ("zbv", 8)])
def test_on_the_emulated_device_ranks_are_as_busy_as_in_theory(tmp_path, schedule, microbatches):
    layers = 4 * SCHEDULES[schedule].virtual
    given = ("--ranks", "4", "--layers", str(layers), "--microbatches", str(microbatches), *EMULATED, *ONE_STEP)
    expected = pytest.approx([theory(schedule, 4, microbatches)] * 4, abs=0.05)
    # Whatever else runs on the machine takes time away, and never gives any: the least disturbed of a few runs counts.
    shares = []
    while expected not in shares and len(shares) < 3:
        shares.append(busy_shares(traces.run(tmp_path, "pipeline", "--schedule", schedule, *given)))
    assert shares[-1] == expected


def busy_shares(written):
    """Of each of four ranks, by the time from the first forward to the last backward on any."""
    ranks = [written.events(rank) for rank in range(4)]
    assert len({written.trace(rank)["baseTimeNanoseconds"] for rank in range(4)}) == 1  # one host, one clock
    spans = [[span for _, span in actions(events)] for events in ranks]
    window = max(end(of_rank[-1]) for of_rank in spans) - min(of_rank[0]["ts"] for of_rank in spans)
    return [
        sum(computing(within(span, events)) for span in of_rank) / window
        for events, of_rank in zip(ranks, spans, strict=True)
    ]


def computing(events):
    """Microseconds in which an operator runs; one within another counts once."""
    busy, until = 0.0, 0.0
    for event in named(events, "aten::"):
        busy += max(0.0, end(event) - max(until, event["ts"]))
        until = max(until, end(event))
    return busy


def test_a_stage_with_a_layer_more_takes_longer_and_the_others_wait(tmp_path):
    sizes = ("--ranks", "2", "--layers", "2", "--microbatches", "3", *EMULATED, "--emulated-flops", "1e8", *ONE_STEP)
    even = traces.run(tmp_path / "even", "pipeline", *sizes)
    uneven = traces.run(tmp_path / "uneven", "pipeline", *sizes, "--fault", "stage_imbalance:1:1")
    assert [stage["layers"] for stage in uneven.facts["stages"]] == [[0], [1, 2]]
    [recorded] = uneven.facts["faults"]
    assert (recorded["kind"], recorded["rank"], recorded["size"]) == ("stage_imbalance", 1, 1)
    assert recorded["happened"] == [{"rank": 1, "step": 0, "times": 1}]

    def work(written, rank):
        return total(products(written.events(rank)))

    assert work(uneven, 1) / work(uneven, 0) == pytest.approx(2, rel=0.2)
    assert work(even, 1) / work(even, 0) == pytest.approx(1, rel=0.2)
    waited = [total(named(written.events(0), "wait:")) for written in (even, uneven)]
    assert waited[1] - waited[0] > 0.7 * work(even, 0)
