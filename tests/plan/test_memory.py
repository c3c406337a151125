import pytest

from tracekit.errors import WrongUse
from tracekit.plan.layout import Layout
from tracekit.plan.memory import (
    PRECISIONS,
    held,
    layer_activation_bytes,
    lora_parameters,
    memory_at,
    peak,
    states,
)
from tracekit.plan.transformer import Transformer, preset

MIXED = PRECISIONS["mixed-adam"]
GPT3 = preset("gpt3-175b")
SBH = GPT3.sequence * GPT3.hidden


def test_seven_billion_parameters_take_16_bytes_each():
    assert states(7e9, MIXED).total == 112e9


@pytest.mark.parametrize(("stage", "gigabytes"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_zero_as_in_its_figure_1(stage, gigabytes):
    assert states(7.5e9, MIXED, stage, 64).total / 1e9 == pytest.approx(gigabytes, abs=0.05)


def test_frozen_parameters_are_weights_and_nothing_else():
    lora = states(100, MIXED, trainable=0.01)
    assert (lora.weights, lora.gradients, lora.optimizer) == (200, 2, 12)


def test_lora_of_rank_8_on_queries_and_values_of_gpt3_is_37_7_million():
    # Hu et al. 2021, table 4 (r_q = r_v = 8 of 96 layers of 12288).
    assert lora_parameters(GPT3, 8) == 37_748_736


@pytest.mark.parametrize("wrong", [{"zero_stage": 4}, {"trainable": 2.0}])
def test_states_that_cannot_be(wrong):
    with pytest.raises(WrongUse):
        states(1, MIXED, **wrong)


@pytest.mark.parametrize(
    ("layout", "per_sbh"),
    [(Layout(), 34 + 80), (Layout(tensor=8), 10 + 24 / 8 + 80 / 8),
     (Layout(tensor=8, sequence_parallel=True), (34 + 80) / 8),
     (Layout(checkpointing="selective"), 34), (Layout(fused_attention=True), 34), (Layout(checkpointing="full"), 2),
     (Layout(micro_batch=3), 3 * 114), (Layout(context=2), 57)],
)  # fmt: skip
def test_activations_of_a_gpt3_layer_as_korthikanti_counts_them(layout, per_sbh):
    assert layer_activation_bytes(GPT3, layout) / SBH == pytest.approx(per_sbh)


def test_activations_without_dropout_gated_and_with_fewer_keys():
    # Per token: norms and first inputs 8·h, queries and projection 4·h, keys and values 2·h, three of 6·h: width 2h.
    model = Transformer(1, 8, 4, 16, 10, kv_heads=2, feed_forward=16, gated=True, dropout=False)
    fused = layer_activation_bytes(model, Layout(fused_attention=True))
    assert fused == 16 * (8 * 8 + 4 * 8 + 2 * 8 + 6 * 16)
    assert layer_activation_bytes(model, Layout()) - fused == 2 * 4 * 16 * 16


def test_1f1b_holds_as_many_micro_batches_as_ranks_and_gpipe_all():
    layer = layer_activation_bytes(GPT3, Layout(tensor=8, pipeline=8))
    for schedule, micro_batches in (("1f1b", 8), ("gpipe", 64), ("zero-bubble-h2", 15)):
        layout = Layout(tensor=8, pipeline=8, microbatches=64, schedule=schedule)
        assert memory_at(GPT3, layout).activations == pytest.approx(micro_batches * 12 * layer)


def test_interleaving_holds_more_by_the_published_factor():
    # Korthikanti et al. 2022, 4.3: 1 + (p - 1)/(p·m), m stages per rank.
    plain = memory_at(GPT3, Layout(pipeline=8, microbatches=64)).activations
    layout = Layout(pipeline=8, microbatches=64, stages_per_rank=3, schedule="interleaved")
    assert memory_at(GPT3, layout).activations / plain == pytest.approx(1 + 7 / 24)


def test_the_parts_of_all_ranks_are_the_model():
    layout = Layout(tensor=4, pipeline=4)
    norms = 2 * GPT3.norm_parameters * GPT3.layers
    parts = sum(held(GPT3, layout, place).dense for place in range(4)) * 4
    copies = 3 * (norms + GPT3.norm_parameters) + GPT3.hidden * GPT3.vocabulary  # norms on each rank, tied output
    assert parts == pytest.approx(GPT3.parameters + copies)


def test_experts_are_shared_by_fewer_ranks():
    model = Transformer(4, 64, 4, 16, 32, experts=8)
    one, shared = held(model, Layout()), held(model, Layout(data=8, expert=4))
    assert (shared.experts, shared.dense) == (one.experts / 4, one.dense)
    assert one.total == model.parameters


def test_the_output_layer_may_make_the_last_rank_the_fullest():
    model = Transformer(4, 64, 4, 128, 100_000)
    layout = Layout(pipeline=4, microbatches=8, checkpointing="full")
    assert peak(model, layout) == memory_at(model, layout, place=3)


def test_zero_3_holds_layers_that_are_gathered():
    memory = memory_at(GPT3, Layout(data=64, zero_stage=3))
    assert memory.weights == pytest.approx(2 * GPT3.parameters / 64)
    assert memory.gathered == pytest.approx(6 * GPT3.layer_parameters)


def test_embeddings_that_are_not_split_stay_whole():
    split, whole = (held(GPT3, Layout(tensor=8, split_vocabulary=flag)).dense for flag in (True, False))
    assert whole - split == pytest.approx(7 / 8 * GPT3.embedding_parameters)
