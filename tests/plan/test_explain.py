import pytest

from tracekit.plan.explain import reasons, runs_out
from tracekit.plan.hardware import preset
from tracekit.plan.search import Request, plans
from tracekit.plan.transformer import Transformer
from tracekit.plan.transformer import preset as model_preset


def request(model, gpus=8, batch=64, node="a100-80gb"):
    return Request(model, preset(node, gpus), batch)


@pytest.mark.parametrize(
    ("model", "node", "what"),
    [(model_preset("gpt2-xl"), "a100-80gb", "time"), (model_preset("llama-7b"), "a100-80gb", "layers"),
     (model_preset("megatron-1008b"), "a100-80gb", "a layer"), (model_preset("gpt2-xl"), "rtx4090-24gb", "layers")],
)  # fmt: skip
def test_what_runs_out(model, node, what):
    assert runs_out(request(model, node=node))[0] == what


def test_each_choice_is_told_with_what_another_would_cost():
    found = plans(request(model_preset("gpt3-175b"), 256, 512))
    told = " ".join(reasons(found))
    layout = found.chosen.layout
    without = found.best_with(checkpointing="none" if layout.checkpointing == "full" else "full")
    assert without is not None
    assert f"{without.seconds / found.chosen.seconds - 1:.1%} longer" in told
    assert "stays in its node of 8" in told


def test_what_does_not_fit_is_said_with_its_size():
    # States alone are 16 bytes each: without ZeRO or a split, 108 GB of 72.
    job = Request(model_preset("llama-7b"), preset("a100-80gb", 8), 64, fixed=(("tensor", 1), ("pipeline", 1)))
    [zero] = [sentence for sentence in reasons(plans(job)) if sentence.startswith("ZeRO")]
    assert "without it nothing fits (108.9 GB at least)" in zero


def test_a_tensor_group_over_two_nodes_pays_for_it():
    model = Transformer(8, 4096, 32, 2048, 1000, dropout=False)
    job = Request(model, preset("a100-80gb", 16), 16, fixed=(("tensor", 16),))
    assert "does not fit into a node of 8" in reasons(plans(job))[-1]
