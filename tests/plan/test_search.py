from dataclasses import replace

import pytest

from tracekit.errors import WrongUse
from tracekit.plan.hardware import preset
from tracekit.plan.layout import Layout
from tracekit.plan.memory import peak
from tracekit.plan.search import Impossible, Request, described, layouts, plans
from tracekit.plan.transformer import preset as model_preset

LLAMA = model_preset("llama-7b")


def request(model=LLAMA, gpus=8, batch=64, node="a100-80gb", **options):
    return Request(model, preset(node, gpus), batch, **options)


@pytest.fixture(scope="module")
def seven_billion():
    return plans(request())


def test_all_layouts_use_all_gpus_and_all_samples():
    found = list(layouts(request()))
    assert {(layout.ranks, layout.batch) for layout in found} == {(8, 64)}
    assert len(set(found)) == len(found)
    assert {layout.zero_stage for layout in found if layout.pipeline == 1 and layout.data > 1} == {0, 1, 2, 3}
    assert {layout.tensor for layout in found} == {1, 2, 4, 8}


def test_what_is_best_fits_and_none_that_fits_is_much_quicker(seven_billion):
    assert all(plan.memory.total <= seven_billion.request.room for plan in seven_billion.best)
    assert all(one.memory.total > seven_billion.request.room for one in seven_billion.too_big)
    quickest = min(plan.seconds for plan in seven_billion.best)
    assert seven_billion.chosen.seconds <= 1.01 * quickest


def test_seven_billion_on_one_fast_node_is_data_parallel_with_sharded_states(seven_billion):
    layout = seven_billion.chosen.layout
    assert (layout.data, layout.tensor, layout.pipeline) == (8, 1, 1)
    assert layout.zero_stage >= 1
    assert seven_billion.best_with(data=8, zero_stage=0) is None
    assert seven_billion.least_memory_with(data=8, zero_stage=0) > 80e9


def test_a_model_that_fits_one_gpu_is_plainly_data_parallel():
    layout = plans(request(model_preset("gpt2-small"))).chosen.layout
    assert (layout.data, layout.checkpointing) == (8, "none")
    assert layout.zero_stage <= 1  # stage 1 takes nothing more and makes the optimizer's part eight times shorter


def test_175_billion_on_1024_need_tensor_inside_the_node_and_a_pipeline():
    layout = plans(request(model_preset("gpt3-175b"), 1024, 1536)).chosen.layout
    assert layout.pipeline > 1
    assert 1 < layout.tensor <= 8


def test_given_degrees_are_kept():
    assert {(plan.layout.tensor, plan.layout.zero_stage) for plan in plans(
        request(fixed=(("tensor", 2), ("zero_stage", 1)))
    ).best} == {(2, 1)}  # fmt: skip


def test_sequence_parallelism_goes_with_tensor_unless_told_otherwise():
    assert {(layout.tensor > 1, layout.sequence_parallel) for layout in layouts(request())} == {
        (True, True), (False, False)
    }  # fmt: skip
    assert not any(layout.sequence_parallel for layout in layouts(request(fixed=(("sequence_parallel", False),))))


def test_experts_are_tried_for_a_mixture():
    found = layouts(request(model_preset("mixtral-8x7b"), 16, 64))
    assert {layout.expert for layout in found} == {1, 2, 4, 8}


def test_long_sequences_are_tried_with_context_parallelism():
    found = list(layouts(request(replace(LLAMA, sequence=65_536), 8, 8)))
    assert {layout.context for layout in found} == {1, 2, 4, 8}


def said(job):
    with pytest.raises(Impossible) as why:
        plans(job)
    return str(why.value)


def test_too_little_memory_says_how_much_and_how_many_gpus_would_do():
    sentence = said(request(gpus=1))
    assert "108.9 GB" in sentence
    assert "72.0 of 80 GB" in sentence
    assert "2 GPUs like these" in sentence
    assert plans(request(gpus=2)).best
    # GPUs as large as it says are enough for the leanest layout.
    size = float(sentence.split("possible with ")[1].split(" GB")[0])
    lean = Layout(microbatches=64, checkpointing="full", fused_attention=True)
    assert peak(LLAMA, lean).total <= 0.9 * (size + 1) * 1e9


def test_more_gpus_than_samples():
    # 512 GPUs of which at most 8 × 32 share a sample.
    sentence = said(request(gpus=512, batch=1))
    assert "batch 1 " in sentence
    assert "2 " in sentence


def test_given_degrees_that_exclude_each_other():
    assert "3 does not divide 8 GPUs; 2 would, or 3 GPUs" in said(request(fixed=(("tensor", 3),)))
    assert "32 heads do not divide by tensor 64; 32 would" in said(request(gpus=64, fixed=(("tensor", 64),)))
    assert "32 layers cannot be shared out to pipeline 64; 32 would" in said(
        request(gpus=64, fixed=(("pipeline", 64),))
    )
    assert "batch 10 does not divide by the 8 samples" in said(request(batch=10, fixed=(("data", 8),)))


def test_given_degrees_that_do_not_fit_may_be_left_open():
    assert "without fixing data" in said(request(fixed=(("data", 8), ("zero_stage", 0))))


def test_requests_that_mean_nothing():
    with pytest.raises(WrongUse):
        request(batch=0)
    with pytest.raises(WrongUse):
        request(fixed=(("width", 3),))


def test_a_layout_in_a_line():
    layout = Layout(data=2, tensor=8, pipeline=4, zero_stage=1, microbatches=8, stages_per_rank=2,
                    schedule="interleaved", checkpointing="full")  # fmt: skip
    assert described(layout) == (
        "data 2 × tensor 8 × pipeline 4, ZeRO-1, micro-batch 1 × 8, interleaved (2 stages per rank), full checkpointing"
    )
    assert described(Layout()) == "one GPU, micro-batch 1 × 1"
