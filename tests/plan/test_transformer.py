import pytest

from tracekit.errors import WrongUse
from tracekit.plan.transformer import PRESETS, Transformer, preset

TINY = Transformer(2, 8, 2, 4, 10)


@pytest.mark.parametrize(
    ("name", "parameters"),
    # Counted by their authors' own code: Hugging Face's GPT2LMHeadModel, LlamaForCausalLM, MixtralForCausalLM.
    [("gpt2-small", 124_439_808), ("llama-7b", 6_738_415_616), ("llama2-70b", 68_976_648_192),
     ("llama3-8b", 8_030_261_248), ("mistral-7b", 7_241_732_096), ("mixtral-8x7b", 46_702_792_704)],
)  # fmt: skip
def test_parameters_of_models_that_one_can_download(name, parameters):
    assert preset(name).parameters == parameters


@pytest.mark.parametrize("billions", [1.7, 3.6, 7.5, 18.4, 39.1, 76.1, 145.6, 310.1, 529.6, 1008.0])
def test_parameters_as_in_table_1_of_narayanan(billions):
    name = next(name for name in PRESETS if name.startswith(f"megatron-{billions:g}b"))
    assert preset(name).parameters / 1e9 == pytest.approx(billions, abs=0.06)


def test_parameters_by_narayanans_formula():
    # 12·l·h²·(1 + 13/(12·h) + (V + s)/(12·l·h)), and the last norm, which the formula leaves out.
    gpt = preset("gpt3-175b")
    h, layers = gpt.hidden, gpt.layers
    formula = 12 * layers * h**2 * (1 + 13 / (12 * h) + (gpt.vocabulary + gpt.sequence) / (12 * layers * h))
    assert gpt.parameters == pytest.approx(formula + 2 * h, rel=1e-12)


def test_flops_by_narayanans_formula():
    # 72·B·s·l·h²·(1 + s/(6h) + V/(12·l·h)) for forward and backward (96 and 1/16 with what is computed again).
    gpt = preset("megatron-18.4b")
    h, layers, s, v = gpt.hidden, gpt.layers, gpt.sequence, gpt.vocabulary
    formula = 72 * 3 * s * layers * h**2 * (1 + s / (6 * h) + v / (12 * layers * h))
    assert gpt.step_flops(3 * s) == pytest.approx(formula, rel=1e-12)


def test_flops_by_palms_formula():
    # 6·N + 12·L·H·Q·T per token, N without what is no matrix product: the embedding and the norms.
    llama = preset("llama-7b")
    matrices = llama.parameters - llama.embedding_parameters - (2 * 32 + 1) * 4096
    assert llama.step_flops(1000) == pytest.approx(1000 * (6 * matrices + 12 * 32 * 4096 * 2048))


def test_experts_that_do_not_work_on_a_token_cost_parameters_and_no_flops():
    one = Transformer(2, 8, 2, 4, 10, experts=1)
    four = Transformer(2, 8, 2, 4, 10, experts=4)
    assert four.parameters - one.parameters == 2 * (3 * one.expert_parameters + 4 * 8)
    assert four.active_parameters - one.parameters == 2 * 4 * 8
    assert four.layer_flops(1) - one.layer_flops(1) == 2 * 4 * 8


def test_by_hand():
    # Attention 4·64 + 4·8, feed-forward 2·8·32 + 32 + 8, two norms of 16; embedding 80 + 32; last norm 16.
    assert TINY.layer_parameters == 288 + 552 + 32
    assert TINY.parameters == 2 * 872 + 112 + 16
    assert TINY.layer_flops(1) == 2 * (4 * 64 + 2 * 8 * 32) + 4 * 4 * 8


@pytest.mark.parametrize(
    ("change", "said"),
    [({"heads": 3}, "8 does not divide by 3"), ({"kv_heads": 4}, "2 heads do not divide by 4"),
     ({"layers": 0}, "layers"), ({"experts_per_token": 2}, "2 experts per token")],
)  # fmt: skip
def test_shapes_that_cannot_be(change, said):
    with pytest.raises(WrongUse, match=said):
        Transformer(**{"layers": 2, "hidden": 8, "heads": 2, "sequence": 4, "vocabulary": 10, **change})


def test_an_unknown_model_names_the_known_ones():
    with pytest.raises(WrongUse, match="gpt3-175b"):
        preset("gpt5")
