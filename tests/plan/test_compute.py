from dataclasses import replace

import pytest

from tracekit.plan.compute import Work, layer_backward, layer_forward, stage_backward, stage_forward, stage_weights
from tracekit.plan.hardware import Cluster, Link
from tracekit.plan.layout import Layout
from tracekit.plan.transformer import preset

GPT = preset("megatron-18.4b")
H, S, HEADS = GPT.hidden, GPT.sequence, GPT.heads
CLUSTER = Cluster(8, 8, 80e9, 100e12, 0.5, Link(1e9, 0), Link(1e9, 0))


def test_products_at_efficiency_and_bytes_at_the_memorys_bandwidth():
    work = Work(flops=100e12, moved_bytes=1e12)
    assert work.seconds(CLUSTER) == 2
    assert work.seconds(replace(CLUSTER, memory_bandwidth=1e12)) == 2 + 1.25


def test_a_gpt_layers_forward_is_24_h_h_and_4_s_h_per_token():
    assert layer_forward(GPT, Layout()).flops == S * (24 * H**2 + 4 * S * H)


def test_bytes_by_counting_passes():
    # Whole 22·h, activation function 16·h, queries, keys and values 12·h, and 13 bytes per score.
    assert layer_forward(GPT, Layout()).moved_bytes == S * ((22 + 16 + 12) * H + 13 * HEADS * S)
    assert layer_forward(GPT, Layout(fused_attention=True)).moved_bytes == S * 50 * H
    assert layer_forward(GPT, Layout(tensor=8)).moved_bytes == S * (22 * H + (28 * H + 13 * HEADS * S) / 8)
    sequence = Layout(tensor=8, sequence_parallel=True)
    assert layer_forward(GPT, sequence).moved_bytes == S * (50 * H + 13 * HEADS * S) / 8


@pytest.mark.parametrize(
    ("layout", "scores", "forwards"),
    [(Layout(), 0, 2), (Layout(checkpointing="full"), 0, 3), (Layout(checkpointing="selective"), 1, 2),
     (Layout(fused_attention=True), 0.5, 2), (Layout(fused_attention=True, checkpointing="full"), 0.5, 3)],
)  # fmt: skip
def test_a_backward_is_two_forwards_and_what_is_computed_again(layout, scores, forwards):
    extra = layer_backward(GPT, layout).flops - forwards * layer_forward(GPT, layout).flops
    assert extra == pytest.approx(scores * 4 * S * S * H)


def test_with_full_checkpointing_narayanans_formula():
    # 96·B·s·l·h²·(1 + s/(6h) + V/(16·l·h)).
    layout, layers, v = Layout(checkpointing="full"), GPT.layers, GPT.vocabulary
    flops = stage_forward(GPT, layout).flops + stage_backward(GPT, layout).flops
    assert flops == pytest.approx(96 * S * layers * H**2 * (1 + S / (6 * H) + v / (16 * layers * H)))


def test_tensor_and_context_split_the_products():
    alone = layer_forward(GPT, Layout()).flops
    assert layer_forward(GPT, Layout(tensor=4, context=2)).flops == alone / 8


def test_gradients_of_weights_are_a_forwards_products_without_scores():
    assert stage_weights(GPT, Layout()).flops == S * (GPT.layers * 24 * H**2 + 2 * H * GPT.vocabulary)
    assert stage_weights(GPT, Layout(pipeline=4)).flops == S * GPT.layers / 4 * 24 * H**2
    assert stage_weights(GPT, Layout(fused_attention=True)).moved_bytes == 0
