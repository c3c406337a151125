"""Expert parallelism: every token is computed by the experts it chooses, wherever they are, and none is dropped."""

import pytest
import torch
import torch.distributed as dist

from tests.workloads import ranks, traces
from tests.workloads.traces import SMALL, calls, named, numbers, steps
from workloads import launch
from workloads.expert import Choice, MixtureOfExperts
from workloads.transformer import Shape, initialise

LAST_STEP = ("--checkpoint-step", "4")
TOLERANCE = 1e-5
EXPERTS, TOP_K, LAYERS, SEQUENCE, WIDTH, FLOAT_BYTES = 4, 2, 2, 32, 64, 4
EFFECTIVE_BATCH = 8
ROWS = EFFECTIVE_BATCH * SEQUENCE * TOP_K * LAYERS


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    def one(*arguments):
        return traces.run(tmp_path_factory.mktemp("expert"), "expert", *SMALL, "--layers", str(LAYERS), *arguments)

    return one


@pytest.fixture(scope="module")
def whole(run):
    """One process with all experts and the whole batch."""
    return run("--ranks", "1", "--batch", "8", *LAST_STEP)


@pytest.fixture(scope="module")
def two_ranks(run):
    return run("--ranks", "2", *LAST_STEP)


@pytest.fixture(scope="module")
def four_accumulating(run):
    return run("--ranks", "4", "--batch", "1", "--accumulation", "2", "--activation-checkpointing", *LAST_STEP)


def same(one, other):
    assert one.facts["losses"] == pytest.approx(other.facts["losses"], abs=TOLERANCE)
    mine, theirs = one.parameters(), other.parameters()
    assert mine.keys() == theirs.keys()
    for name in mine:
        torch.testing.assert_close(mine[name], theirs[name], atol=TOLERANCE, rtol=0, msg=name)


def test_two_ranks_do_what_one_process_does(two_ranks, whole):
    same(two_ranks, whole)


def test_four_ranks_that_accumulate_and_recompute_do_so_too(four_accumulating, whole):
    same(four_accumulating, whole)


def test_averaging_that_does_not_overlap_gives_the_same(run, whole):
    same(run("--ranks", "2", "--fault", "no_overlap", *LAST_STEP), whole)


def computed(written):
    """Rows that each expert computed in the forwards of each recorded step, out of the traces."""
    world = written.facts["world_size"]
    by_rank = [steps(written.events(rank)) for rank in range(world)]
    for step in zip(*by_rank, strict=True):
        rows = [0] * EXPERTS
        for number, count in (numbers(span["name"]) for events in step for span in named(events, "expert number")):
            rows[number] += count
        yield rows


def test_no_token_is_dropped(two_ranks):
    assert list(computed(two_ranks)) == two_ranks.facts["rows_per_expert"][2:]
    assert [sum(rows) for rows in two_ranks.facts["rows_per_expert"]] == [ROWS] * 5


def test_recomputing_computes_all_rows_twice(four_accumulating):
    assert [sum(rows) for rows in computed(four_accumulating)] == [2 * ROWS] * 3
    assert [sum(rows) for rows in four_accumulating.facts["rows_per_expert"]] == [ROWS] * 5


def test_one_process_and_two_choose_alike(two_ranks, whole):
    assert two_ranks.facts["rows_per_expert"] == whole.facts["rows_per_expert"]


def test_what_travels(two_ranks):
    """Each rank sends all of its tokens' rows in the dispatch, and what its experts computed in the combine."""
    own_rows, row_bytes = 4 * SEQUENCE * TOP_K, WIDTH * FLOAT_BYTES
    for rank in (0, 1):
        for step in steps(two_ranks.events(rank)):
            exchanges = [call["bytes"] // row_bytes for call, _ in calls(step) if call["op"] == "all_to_all"]
            came = [sum(numbers(span["name"])[1] for span in pair) for pair in pairs(named(step, "expert number"))]
            forward = [rows for arrived in came for rows in (own_rows, arrived)]
            backward = [rows for arrived in reversed(came) for rows in (own_rows, arrived)]
            assert exchanges == forward + backward


def pairs(spans):
    return [spans[first : first + 2] for first in range(0, len(spans), 2)]


def test_both_ranks_annotate_the_same_calls(two_ranks):
    def annotated(rank):
        before_the_checkpoint = steps(two_ranks.events(rank))[:2]
        return [(c["op"], c["group"], c["seq"]) for step in before_the_checkpoint for c, _ in calls(step)]

    assert annotated(0) == annotated(1)
    ops = [op for op, _, _ in annotated(0)]
    assert ops.count("all_gather") == 2 * LAYERS
    assert ops.count("all_to_all") == 2 * LAYERS * 4


def test_experts_and_averaging_have_groups_of_their_own(two_ranks):
    groups = {call["op"]: call["group"] for call, _ in calls(steps(two_ranks.events(0))[0])}
    described = {group["pg_name"]: group["pg_desc"] for group in two_ranks.trace(0)["distributedInfo"]["pg_config"]}
    assert described[groups["all_to_all"]] == described[groups["all_gather"]] == "ep"
    assert groups["all_reduce"] != groups["all_to_all"]


def test_states_of_experts_shrink_by_the_ranks_and_the_others_do_not(two_ranks, whole):
    expert = (WIDTH * 4 * WIDTH * 2 + 5 * WIDTH) * FLOAT_BYTES
    elsewhere = LAYERS * EXPERTS // 2 * expert
    for kind in ("parameter_bytes", "gradient_bytes"):
        alone = whole.facts["ranks"][0][kind]
        assert [rank[kind] for rank in two_ranks.facts["ranks"]] == [alone - elsewhere] * 2
    assert two_ranks.facts["model"]["parameters"] == whole.facts["model"]["parameters"]


def test_the_layout_is_recorded(two_ranks):
    layout = two_ranks.facts["layout"]
    assert layout["axes"] == [{"name": "ep", "size": 2, "groups": [[0, 1]]}]
    assert (layout["experts"], layout["top_k"], layout["experts_held"]) == (4, 2, [[0, 1], [2, 3]])
    assert two_ranks.facts["batch"]["effective"] == EFFECTIVE_BATCH


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--ranks", "3"), "--experts 4 does not divide by 3 ranks"),
        (("--ranks", "2", "--top-k", "5"), "--top-k 5, but a token can choose 1 to 4 of --experts 4"),
    ],
)
def test_sizes_that_do_not_fit_are_named(tmp_path, capsys, arguments, said):
    assert launch.main(["expert", "--out", str(tmp_path), *arguments]) == 2
    assert said in capsys.readouterr().err


# --- The mixture alone ------------------------------------------------------------------------------------------------

SHAPE = Shape(layers=1, width=8, heads=1, vocabulary=2, sequence=5)


def mixture(top_k, experts=EXPERTS):
    layer = MixtureOfExperts(SHAPE, Choice(dist.group.WORLD, experts, top_k))
    initialise(layer, seed=3)
    return layer


def token_by_token(layer, tokens, experts):
    """What a mixture is, with no exchange and no sorting."""
    probability = layer.router(tokens).softmax(-1)
    rows = []
    for token, row in zip(tokens, probability, strict=True):
        chosen = sorted(range(len(row)), key=lambda number: -row[number])[: layer.choice.top_k]
        rows.append(sum(row[number] * experts[str(number)](token) for number in chosen))
    return torch.stack(rows)


@pytest.fixture
def alone():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("top_k", [1, 2, 4])
def test_a_mixture_is_the_sum_of_the_chosen_experts(alone, top_k):
    layer = mixture(top_k)
    hidden = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))
    expected = token_by_token(layer, hidden.flatten(0, 1), layer.experts).view_as(hidden)
    given = layer(hidden)
    torch.testing.assert_close(given, expected)
    mine = torch.autograd.grad(given.square().sum(), list(layer.parameters()))
    theirs = torch.autograd.grad(expected.square().sum(), list(layer.parameters()))
    torch.testing.assert_close(mine, theirs)


def all_choose_the_first(rank):
    """Both ranks' tokens go to rank 0, none to rank 1, and nothing is lost or waits."""
    layer = mixture(top_k=1)
    hidden = torch.ones(1, 5, 8) * (rank + 1)
    with torch.no_grad():
        layer.router.weight.zero_()[0] = 1.0
    given = layer(hidden)
    given.sum().backward()
    assert given.abs().min() > 0
    assert all(parameter.grad is not None for parameter in layer.parameters())


def test_an_expert_that_all_choose_gets_all_and_the_others_nothing(tmp_path):
    events = ranks.run(tmp_path, all_choose_the_first, list)
    rows = [dict(numbers(span["name"]) for span in named(of_rank, "expert number")) for of_rank in events]
    assert rows == [{0: 10, 1: 0}, {2: 0, 3: 0}]
