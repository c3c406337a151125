import pytest

from tracekit.plan import compute
from tracekit.simulate.costs import Costs
from tracekit.simulate.job import job_of


def seconds(*halves):
    return sum(piece.ns for half in halves for piece in half) / 1e9


@pytest.mark.parametrize("checkpointing", ["none", "selective", "full"])
@pytest.mark.parametrize("model", ["megatron-1.7b", "llama2-7b"])
def test_kernels_sum_to_what_plan_says(model, checkpointing):
    job = job_of({"model": model, "layout": {"tensor": 2, "checkpointing": checkpointing}})
    costs = Costs(job)
    again = seconds(*costs.forward) if costs.recomputes else 0
    whole = (job.model, job.layout)
    assert seconds(*costs.forward) == pytest.approx(compute.layer_forward(*whole).seconds(job.cluster), rel=1e-4)
    backward = compute.layer_backward(*whole).seconds(job.cluster)
    assert seconds(*costs.backward) + again == pytest.approx(backward, rel=1e-4)
    assert seconds(costs.output) == pytest.approx(compute.output_forward(*whole).seconds(job.cluster), rel=1e-4)
    assert seconds(costs.output_backward) == pytest.approx(2 * seconds(costs.output), rel=1e-4)


def test_half_of_a_backwards_products_give_the_weights_gradients():
    costs = Costs(job_of({"model": "megatron-1.7b"}))
    products = [piece for half in costs.backward for piece in half if piece.kernel.operator == "aten::mm"]
    weights = sum(piece.ns for piece in products if piece.weights)
    assert weights == pytest.approx(sum(piece.ns for piece in products) / 2, rel=1e-4)


def test_sizes_by_hand():
    # 2048 tokens of 2304 values of 2 bytes; half of it from each of two tensor ranks.
    costs = Costs(job_of({"model": "megatron-1.7b", "layout": "tp 2"}))
    assert (costs.tokens, costs.hidden_bytes, costs.boundary_bytes) == (2048, 9_437_184, 4_718_592)
    assert costs.gradient_bytes(10.4) == 20
