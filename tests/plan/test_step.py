from dataclasses import replace

import pytest

from tracekit.plan.hardware import Cluster, Link, preset
from tracekit.plan.layout import Layout
from tracekit.plan.memory import PRECISIONS
from tracekit.plan.orders import orders
from tracekit.plan.pipeline import SPLIT_BACKWARD
from tracekit.plan.schedule import GIVES_GRADIENT, Action, makespan
from tracekit.plan.step import predict
from tracekit.plan.transformer import Transformer
from tracekit.plan.transformer import preset as model_preset

# A small vocabulary, so that the output layer hardly counts.
MODEL = Transformer(12, 1024, 16, 1024, 2, biases=False, dropout=False)
FREE = Link(1e30, 0.0)
CLUSTER = Cluster(64, 8, 80e9, 100e12, 0.5, FREE, FREE)
SLOW = replace(CLUSTER, inside=Link(1e9, 0.0), between=Link(1e9, 0.0))
ONE = 3 * (12 * 1024 * (24 * 1024**2 + 4 * 1024 * 1024) + 4 * 1024 * 1024) / 50e12  # seconds of a micro-batch


def test_with_one_gpu_a_step_is_its_flops():
    plan = predict(MODEL, Layout(microbatches=4), CLUSTER)
    assert plan.seconds == pytest.approx(4 * ONE)
    assert plan.mfu == pytest.approx(0.5)
    assert plan.tokens_per_second == pytest.approx(1024 / ONE)
    assert dict(plan.exposed) == {}


def test_full_checkpointing_takes_a_third_more_and_its_flops_are_the_hardwares_only():
    plan = predict(MODEL, Layout(checkpointing="full"), CLUSTER)
    assert plan.seconds == pytest.approx(4 / 3 * ONE, rel=1e-4)
    assert plan.mfu == pytest.approx(0.375, rel=1e-4)
    assert plan.hardware_flops_per_second == pytest.approx(50e12)


@pytest.mark.parametrize(
    ("schedule", "stages", "waits"),
    [("gpipe", 1, 1), ("1f1b", 1, 1), ("interleaved", 3, 3), ("zero-bubble", 1, 3), ("zbv", 2, 6)],
)
def test_a_pipelines_bubble_is_the_formulas(schedule, stages, waits):
    layout = Layout(pipeline=4, microbatches=8, schedule=schedule, stages_per_rank=stages)
    # Of scores, which have no weights, there are none here: forward, input and weight gradient are alike.
    plan = predict(replace(MODEL, layers=24, sequence=1), layout, CLUSTER)
    assert plan.bubble_frac == pytest.approx(3 / (8 * waits + 3), rel=1e-3)


def test_tensor_parallel_shows_all_of_its_communication():
    plan = predict(MODEL, Layout(tensor=4), SLOW)
    # 50 all-reduces of 2 MiB among four at 10^9 bytes per second.
    assert plan.exposed["tensor"] == pytest.approx(50 * 1.5 * 2 * 1024 * 1024 / 1e9)
    assert plan.compute == pytest.approx(ONE / 4)


def gradients(layout, link, **options):
    cluster = replace(CLUSTER, inside=link, between=link)
    return predict(MODEL, layout, cluster, **options).exposed["data"]


def test_gradients_hide_under_the_last_backward_but_for_one_layers():
    layout = Layout(data=2)
    whole = 2 * MODEL.parameters  # seconds by link's bandwidth
    assert gradients(layout, Link(1e12, 0)) == pytest.approx(whole / 1e12 / 12)
    slow = gradients(layout, Link(1e9, 0))
    assert slow == pytest.approx(whole / 1e9 - 2 / 3 * ONE, rel=1e-3)
    assert gradients(layout, Link(1e9, 0), overlapped=frozenset()) == pytest.approx(whole / 1e9)


def test_with_accumulation_gradients_cost_once():
    assert gradients(Layout(data=2, microbatches=8), Link(1e9, 0)) == gradients(Layout(data=2), Link(1e9, 0))


def test_zero_3_on_a_slow_link_waits_in_each_micro_batch():
    one, four = (gradients(Layout(data=2, zero_stage=3, microbatches=m), Link(1e8, 0)) for m in (1, 4))
    assert four == pytest.approx(4 * one, rel=0.1)


def test_the_slowest_rank_sets_the_pace():
    # An output layer as long as all others: the last of two stages takes three times as long as the first.
    heavy = replace(MODEL, vocabulary=12 * (12 * 1024 + 2 * 1024))
    plan = predict(heavy, Layout(pipeline=2, microbatches=16), CLUSTER)
    assert plan.compute == pytest.approx(16 * 1.5 * ONE, rel=1e-3)
    assert plan.bubble == pytest.approx(0.5 * ONE, rel=1e-3)
    # Of 16 × 1.5 and a ramp of 0.5, the first stage works 16 × 0.5, the last 16 × 1.5.
    assert plan.bubble_frac == pytest.approx(1 - (8 + 24) / 2 / 24.5, rel=1e-3)
    assert plan.makespan == pytest.approx(plan.seconds)


def test_the_optimizer_reads_and_writes_its_states():
    cluster = replace(CLUSTER, memory_bandwidth=1e12)
    # Gradients and weights of 2 bytes once, 12 bytes of states twice, at 0.8 of the bandwidth.
    assert predict(MODEL, Layout(), cluster).optimizer == pytest.approx(28 * MODEL.parameters / 0.8e12)
    sharded = predict(MODEL, Layout(data=4, zero_stage=1), cluster)
    assert sharded.optimizer == pytest.approx(7 * MODEL.parameters / 0.8e12)


@pytest.mark.parametrize(
    ("model", "pipeline", "gpus", "batch", "tflops"),
    [("megatron-18.4b", 1, 256, 1024, 135), ("megatron-145.6b", 8, 1536, 2304, 148),
     ("megatron-1008b", 64, 3072, 3072, 163)],
)  # fmt: skip
def test_published_throughput_within_eight_percent(model, pipeline, gpus, batch, tflops):
    data = gpus // 8 // pipeline
    layout = Layout(
        data=data, tensor=8, pipeline=pipeline, microbatches=batch // data, checkpointing="full",
        stages_per_rank=2 if pipeline > 1 else 1, schedule="interleaved" if pipeline > 1 else "1f1b",
    )  # fmt: skip
    plan = predict(
        model_preset(model), layout, preset("a100-80gb", gpus), PRECISIONS["mixed-adam"],
        overlapped=frozenset({"pipeline"}),
    )  # fmt: skip
    assert plan.hardware_flops_per_second / 1e12 == pytest.approx(tflops, rel=0.08)


def test_where_bytes_go():
    plan = predict(MODEL, Layout(data=8, tensor=8), CLUSTER)
    assert {call.axis: plan.link(call) for call in plan.traffic} == {"tensor": "inside", "data": "between"}


def test_without_no_sync_a_slow_link_is_paid_in_each_micro_batch():
    once, each = (Layout(data=2, microbatches=4, reduce_each=flag) for flag in (False, True))
    assert gradients(each, Link(1e8, 0)) == pytest.approx(4 * gradients(once, Link(1e8, 0)), rel=0.05)


def replayed(ran, durations):
    """How long the ranks' orders take, each action as early as it can; an action is (kind, stage, micro-batch)."""
    last = max(action.stage for order in ran for action in order)
    ahead, done, placed = [list(order) for order in ran], set(), []
    while any(ahead):
        for rank, order in enumerate(ahead):
            while order and needs(order[0], last) <= done:
                action = order.pop(0)
                done |= {action, action._replace(kind="gradient")} if action.kind in GIVES_GRADIENT else {action}
                placed.append((rank, action, durations(action)))
    return makespan(placed)


def needs(action, last):
    kind, stage, micro_batch = action
    if kind == "forward":
        return {Action("forward", stage - 1, micro_batch)} if stage else set()
    if kind == "backward_weight" or stage == last:
        return set()
    return {Action("gradient", stage + 1, micro_batch)}


@pytest.mark.parametrize("vocabulary", [2, 20_000, 60_000])
@pytest.mark.parametrize(
    ("schedule", "ranks", "micro_batches", "stages"),
    [("gpipe", 4, 8, 1), ("1f1b", 4, 8, 1), ("1f1b", 8, 32, 1), ("interleaved", 4, 8, 2), ("interleaved", 4, 16, 4),
     ("looped-bfs", 4, 8, 2), ("zero-bubble", 4, 8, 1), ("interleaved-zero-bubble", 4, 8, 2), ("zbv", 4, 16, 2),
     ("dualpipev", 4, 16, 2)],
)  # fmt: skip
def test_a_step_is_what_its_schedule_takes_when_replayed(schedule, ranks, micro_batches, stages, vocabulary):
    model = replace(MODEL, layers=32, vocabulary=vocabulary)
    scores, products, output = 4 * 1024 * 1024, 24 * 1024**2, 2 * 1024 * vocabulary

    def seconds(action):
        layers, head = 32 // (ranks * stages), output if action.stage == ranks * stages - 1 else 0
        forward, weights = layers * (products + scores) + head, layers * products + head
        return 1024 / 50e12 * {
            "forward": forward, "backward": 2 * forward, "backward_weight": weights,
            "backward_input": 2 * forward - weights,
        }[action.kind]  # fmt: skip

    layout = Layout(pipeline=ranks, microbatches=micro_batches, schedule=schedule, stages_per_rank=stages)
    took = replayed(orders(schedule, ranks, micro_batches, stages), seconds)
    # Where backwards are split, a last stage that is longer than the others makes the formula's ramp a little long.
    split = schedule in SPLIT_BACKWARD
    close = (0.005 if vocabulary == 2 else 0.035) if split else 1e-4
    assert predict(model, layout, CLUSTER).seconds == pytest.approx(took, rel=close)
