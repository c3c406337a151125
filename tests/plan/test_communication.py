import pytest

from tracekit.plan.communication import calls, link_for, link_of
from tracekit.plan.hardware import Cluster, Link
from tracekit.plan.layout import Layout
from tracekit.plan.memory import PRECISIONS
from tracekit.plan.transformer import Transformer, preset

MIXED = PRECISIONS["mixed-adam"]
GPT3 = preset("gpt3-175b")
ACTIVATIONS = 2048 * 12288 * 2
PSI = 2 * GPT3.parameters


def sent(layout, axis, *, model=GPT3, place=0):
    return sum(call.sent_bytes for call in calls(model, layout, MIXED, place) if call.axis == axis)


def count(layout, axis, place=0, model=GPT3):
    found = {}
    for call in calls(model, layout, MIXED, place):
        if call.axis == axis:
            found[call.op] = found.get(call.op, 0) + call.count
    return found


def test_one_gpu_talks_to_nobody():
    assert calls(GPT3, Layout(), MIXED) == []


@pytest.mark.parametrize(("stage", "psi"), [(0, 2), (1, 2), (2, 2), (3, 3)])
def test_zero_3_moves_half_as_much_again(stage, psi):
    assert sent(Layout(data=64, zero_stage=stage), "data") == pytest.approx(psi * PSI * 63 / 64)


def test_with_accumulation_zero_0_and_1_communicate_once_and_the_others_per_micro_batch():
    told = [sent(Layout(data=2, zero_stage=stage, microbatches=4), "data") / PSI * 2 for stage in range(4)]
    assert told == pytest.approx([2, 2, 4 + 1, 3 * 4])


def test_tensor_parallel_all_reduces_four_times_a_layer_and_once_each_for_embedding_and_output():
    layout = Layout(tensor=8, microbatches=3)
    assert count(layout, "tensor") == {"all_reduce": 3 * (4 * 96 + 2)}
    whole = Layout(tensor=8, microbatches=3, split_vocabulary=False)
    assert count(whole, "tensor") == {"all_reduce": 3 * 4 * 96}
    full = Layout(tensor=8, microbatches=3, checkpointing="full")
    assert count(full, "tensor") == {"all_reduce": 3 * (6 * 96 + 2)}
    assert sent(layout, "tensor") == pytest.approx(3 * 386 * 2 * 7 / 8 * ACTIVATIONS)


def test_sequence_parallel_sends_as_much_and_gathers_twice_more_in_backward():
    plain, split = Layout(tensor=8, pipeline=3), Layout(tensor=8, pipeline=3, sequence_parallel=True)
    more = sent(split, "tensor", place=1) - sent(plain, "tensor", place=1)
    assert more == pytest.approx(32 * 2 * 7 / 8 * ACTIVATIONS)


@pytest.mark.parametrize(("place", "sends"), [(0, 8), (1, 16), (3, 8)])
def test_a_stage_sends_each_micro_batch_forward_and_its_gradient_back(place, sends):
    layout = Layout(pipeline=4, microbatches=8)
    assert count(layout, "pipeline", place)["send"] == sends
    assert count(layout, "pipeline", 1) == {"send": 16}


def test_interleaved_stages_go_round():
    layout = Layout(pipeline=4, microbatches=8, stages_per_rank=3, schedule="interleaved")
    assert [count(layout, "pipeline", place)["send"] for place in range(4)] == [8 * 5, 8 * 6, 8 * 6, 8 * 5]


def test_a_v_turns_on_the_last_rank():
    layout = Layout(pipeline=4, microbatches=8, stages_per_rank=2, schedule="zbv")
    assert [count(layout, "pipeline", place)["send"] for place in range(4)] == [16, 32, 32, 16]


def test_tied_embeddings_are_summed_over_first_and_last_stage():
    assert count(Layout(pipeline=4), "pipeline")["all_reduce"] == 1
    assert "all_reduce" not in count(Layout(pipeline=4), "pipeline", model=preset("llama-65b"))


def test_tensor_ranks_send_a_part_each():
    whole = sum(c.bytes for c in calls(GPT3, Layout(pipeline=2), MIXED) if c.op == "send")
    split = Layout(pipeline=2, tensor=8, sequence_parallel=True)
    assert sum(c.bytes for c in calls(GPT3, split, MIXED) if c.op == "send") == whole / 8


def test_keys_and_values_go_round_the_ring_and_back_with_their_gradients():
    layout = Layout(context=4)
    assert sent(layout, "context") == pytest.approx(96 * 3 * 3 * 2 * ACTIVATIONS / 4)


def test_tokens_go_to_their_experts_and_back():
    model = Transformer(4, 64, 4, 16, 32, experts=8, experts_per_token=2)
    assert count(Layout(data=8, expert=4), "expert", model=model) == {"all_to_all": 4 * 4}
    # Each token's 64 values of 2 bytes, twice; three of four parts leave the rank.
    assert sent(Layout(data=8, expert=4), "expert", model=model) == 16 * 16 * 64 * 2 * 2 * 3 / 4


def test_gradients_of_experts_are_reduced_among_those_who_hold_them():
    model = Transformer(4, 64, 4, 16, 32, experts=8)
    told = {call.group: call for call in calls(model, Layout(data=8, expert=4), MIXED) if call.axis == "data"}
    assert (told["gradients"].ranks, told["expert_data"].ranks) == (8, 2)
    assert told["expert_data"].size_bytes == 2 * 4 * 2 * model.expert_parameters


CLUSTER = Cluster(16, 4, 80e9, 1e14, 0.5, Link(100e9, 1e-6), Link(10e9, 5e-6))


def test_links_of_each_axis():
    layout = Layout(tensor=2, data=4, pipeline=2)
    assert link_of("tensor", layout, CLUSTER) == CLUSTER.inside
    assert link_of("gradients", layout, CLUSTER).bandwidth == 20e9
    assert link_of("pipeline", layout, CLUSTER) == CLUSTER.between
    assert link_of("pipeline", Layout(pipeline=4), CLUSTER) == CLUSTER.inside


def test_an_all_to_all_across_nodes_has_one_adapter_per_rank():
    model = Transformer(4, 64, 4, 16, 32, experts=8)
    layout = Layout(data=8, expert=8)
    [call] = {c for c in calls(model, layout, MIXED) if c.axis == "expert" and c.phase == "forward"}
    assert link_for(call, layout, CLUSTER) == CLUSTER.between


def test_without_no_sync_gradients_are_reduced_after_each_micro_batch():
    once, each = (Layout(data=2, microbatches=4, reduce_each=flag) for flag in (False, True))
    assert sent(each, "data") == 4 * sent(once, "data")
    sharded = (Layout(data=2, microbatches=4, zero_stage=1, reduce_each=flag) for flag in (False, True))
    assert [sent(layout, "data") / PSI * 2 for layout in sharded] == pytest.approx([2, 5])
