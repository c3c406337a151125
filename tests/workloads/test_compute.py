"""The emulated device: each operation takes its stated time, once, and no core."""

import time

import pytest
import torch
from torch import nn
from torch.distributed.pipelining._backward import stage_backward_input, stage_backward_weight
from torch.profiler import ProfilerActivity, profile

from tests.workloads import traces
from tests.workloads.traces import EMULATED, EMULATED_STEP_MS, MS, products, steps
from workloads import compute, options

WIDTH, ROWS = 8, 4
FLOP = 2 * ROWS * WIDTH * WIDTH  # of each of a linear layer's three products
OPERATION_S = 0.05


@pytest.fixture
def emulated():
    """A device on which each product of a linear layer takes 50 ms."""
    library = compute.emulate(FLOP / OPERATION_S, factor=lambda: 1.0, added=lambda _: None)
    yield
    del library


def recorded(work):
    """Milliseconds of each product that `work` does."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        work()
    return [
        event.time_range.elapsed_us() / MS for event in profiler.events() if event.name in ("aten::mm", "aten::addmm")
    ]


def inputs():
    return torch.ones(ROWS, WIDTH, requires_grad=True)


def once_each(times):
    return all(50 <= time_ms < 100 for time_ms in times)


def test_forward_and_both_gradients_take_their_time_once(emulated):
    layer, hidden = nn.Linear(WIDTH, WIDTH), inputs()
    assert once_each(forward := recorded(lambda: layer(hidden)))
    loss = layer(hidden).sum()
    assert once_each(backward := recorded(loss.backward))
    assert (len(forward), len(backward)) == (1, 2)


def test_a_split_backward_counts_each_gradient_once(emulated):
    """As zero-bubble schedules do it: down to the input first, the weights' gradients later."""
    layer, hidden = nn.Linear(WIDTH, WIDTH), inputs()
    output = layer(hidden)
    kept = []

    def to_the_input():
        _, groups = stage_backward_input([output], [torch.ones_like(output)], [hidden], layer.parameters())
        kept.extend(groups)

    assert len(recorded(to_the_input)) == 1
    assert len(recorded(lambda: stage_backward_weight(layer.parameters(), kept))) == 1
    torch.testing.assert_close(layer.weight.grad, torch.full((WIDTH, WIDTH), float(ROWS)))


def test_results_are_real(emulated):
    left, right = torch.randn(ROWS, WIDTH), torch.randn(WIDTH, WIDTH)
    torch.testing.assert_close(left @ right, torch.from_numpy(left.numpy() @ right.numpy()))


def test_it_uses_no_core(emulated):
    layer, hidden = nn.Linear(WIDTH, WIDTH), inputs()
    began = time.process_time()
    for _ in range(10):
        layer(hidden)
    assert time.process_time() - began < 0.1 * 10 * OPERATION_S


def test_shapes_alone_cost_nothing(emulated):
    layer = nn.Linear(WIDTH, WIDTH, device="meta")
    began = time.perf_counter()
    layer(torch.ones(ROWS, WIDTH, device="meta"))
    assert time.perf_counter() - began < OPERATION_S


def test_it_ends_with_its_library(emulated):
    library = compute.emulate(1.0, factor=lambda: 1.0, added=lambda _: None)
    del library
    assert once_each(recorded(lambda: nn.Linear(WIDTH, WIDTH)(inputs())))


def test_a_stretched_operation_takes_the_factor_longer():
    added = []
    library = compute.stretch(factor=lambda: 3.0, added=added.append)
    square = torch.ones(700, 700)
    [stretched] = recorded(lambda: square @ square)
    del library
    assert sum(added) / 1e6 == pytest.approx(stretched * 2 / 3, rel=0.5)


def test_by_default_each_operation_takes_20_ms_or_more():
    given = options.parser("ddp", "").parse_args(["--out", "unused"])
    smallest = 2 * given.batch * given.sequence * given.width**2  # queries
    attention = 4 * given.batch * given.sequence**2 * given.width
    assert min(smallest, attention) / given.emulated_flops >= 0.02


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory):
    return traces.run(tmp_path_factory.mktemp("emulated"), "ddp", "--ranks", "2", *EMULATED)


def test_a_run_says_that_it_is_emulated(two_ranks):
    assert (two_ranks.facts["device"], two_ranks.facts["emulated_flop_per_s"]) == ("emulated", 2e8)
    assert two_ranks.facts["ranks"][0]["device"] == "cpu"


def test_a_step_takes_what_the_model_shape_says(two_ranks):
    took_ms = [traces.total(products(step)) / MS for step in steps(two_ranks.events(0))]
    assert EMULATED_STEP_MS <= min(took_ms) < 1.3 * EMULATED_STEP_MS
