"""Context parallelism: attention round a ring is attention, and what travels is what is stated."""

import pytest
import torch
from torch.nn import functional

from tests.workloads import traces
from tests.workloads.traces import SMALL, calls, named, steps
from workloads import launch
from workloads.context import OnlineSoftmax, Ring

LAST_STEP = ("--checkpoint-step", "4")
SIZES = ("--sequence", "24")
TOLERANCE = 1e-5
LAYERS, BATCH, SEQUENCE, WIDTH, FLOAT_BYTES = 1, 4, 24, 64, 4


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    def one(workload, *arguments):
        return traces.run(tmp_path_factory.mktemp(workload), workload, *SMALL, *SIZES, *arguments)

    return one


@pytest.fixture(scope="module")
def whole(run):
    """One process, PyTorch's own attention."""
    return run("ddp", "--ranks", "1", *LAST_STEP)


@pytest.fixture(scope="module")
def two_ranks(run):
    return run("context", "--ranks", "2", *LAST_STEP)


@pytest.fixture(scope="module")
def three_contiguous(run):
    return run("context", "--ranks", "3", "--split", "contiguous", *LAST_STEP)


@pytest.fixture(scope="module")
def four_accumulating(run):
    halves = ("--batch", "2", "--accumulation", "2")
    written = run("context", "--ranks", "4", "--activation-checkpointing", *halves, *LAST_STEP)
    whole = run("ddp", "--ranks", "1", *halves, *LAST_STEP)
    return written, whole


def same(one, other):
    assert one.facts["losses"] == pytest.approx(other.facts["losses"], abs=TOLERANCE)
    mine, theirs = one.parameters(), other.parameters()
    assert mine.keys() == theirs.keys()
    for name in mine:
        torch.testing.assert_close(mine[name], theirs[name], atol=TOLERANCE, rtol=0, msg=name)


def test_two_ranks_do_what_one_process_does(two_ranks, whole):
    same(two_ranks, whole)


def test_three_ranks_with_contiguous_parts_do_so_too(three_contiguous, whole):
    same(three_contiguous, whole)


def test_four_ranks_that_accumulate_and_recompute_do_so_too(four_accumulating):
    same(*four_accumulating)


def test_replicas_stay_identical(two_ranks, three_contiguous):
    for written in (two_ranks, three_contiguous):
        assert len({rank["parameter_digest"] for rank in written.facts["ranks"]}) == 1


def test_transfers_that_do_not_overlap_give_the_same(run, whole):
    same(run("context", "--ranks", "2", "--fault", "no_overlap", *LAST_STEP), whole)


@pytest.mark.parametrize(("written", "ranks"), [("two_ranks", 2), ("three_contiguous", 3)])
def test_what_travels(written, ranks, request):
    keys_and_values = 2 * BATCH * SEQUENCE // ranks * WIDTH * FLOAT_BYTES
    written = request.getfixturevalue(written)
    for rank in range(ranks):
        for step in steps(written.events(rank)):
            sent = [call for call, _ in calls(step) if call["op"] == "send"]
            assert {call["bytes"] for call in sent} == {keys_and_values}
            assert len(sent) == LAYERS * ((ranks - 1) + (ranks - 1) + ranks)
            assert {(call["src"], call["dst"]) for call in sent} == {(rank, (rank + 1) % ranks)}


def test_both_ends_annotate_every_transfer_with_the_same_number(three_contiguous):
    ends = {"send": set(), "recv": set()}
    for rank in range(3):
        for call, _ in calls([event for step in steps(three_contiguous.events(rank)) for event in step]):
            if call["op"] in ends:
                ends[call["op"]].add((call["group"], call["src"], call["dst"], call["seq"], call["bytes"]))
    assert ends["send"] == ends["recv"]
    assert len(ends["send"]) == 3 * 3 * LAYERS * 7  # ranks, steps, layers, moves


def test_the_ring_and_the_averaging_are_two_groups(two_ranks):
    groups = {call["op"]: call["group"] for call, _ in calls(steps(two_ranks.events(0))[0])}
    assert groups["send"] != groups["all_reduce"]
    described = {group["pg_name"]: group["pg_desc"] for group in two_ranks.trace(0)["distributedInfo"]["pg_config"]}
    assert described[groups["send"]] == "cp"


def test_each_turn_names_whose_keys_it_sees(three_contiguous):
    turns = [event["name"] for event in named(steps(three_contiguous.events(0))[0], "ring turn")]
    assert turns == ["ring turn=0 keys_of=0", "ring turn=1 keys_of=2", "ring turn=2 keys_of=1"] * 2


def test_zigzag_makes_work_even_and_contiguous_does_not(two_ranks, three_contiguous):
    def products(written, rank):
        return sum(event["name"] == "aten::bmm" for event in steps(written.events(rank))[0])

    assert products(two_ranks, 0) == products(two_ranks, 1)
    assert [products(three_contiguous, rank) // 7 for rank in range(3)] == [1, 2, 3]  # 2 in forward, 5 in backward


def test_the_layout_is_recorded(two_ranks):
    layout = two_ranks.facts["layout"]
    assert layout["axes"] == [{"name": "cp", "size": 2, "groups": [[0, 1]]}]
    assert (layout["sequence_split"], layout["tokens_per_rank"]) == ("zigzag", 12)
    assert two_ranks.facts["batch"]["data_parallel"] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--ranks", "3", "--sequence", "64"), "--sequence 64 does not divide by 6, the chunks of --split zigzag"),
        (("--ranks", "2", "--fault", "length_imbalance"), "each sample is split evenly over the ranks"),
    ],
)
def test_what_cannot_be_split_is_refused(tmp_path, capsys, arguments, said):
    assert launch.main(["context", "--out", str(tmp_path), *arguments]) == 2
    assert said in capsys.readouterr().err


class Group:
    """A place in a ring of which nothing else is asked."""

    def __init__(self, rank, size):
        self.rank, self.size = lambda: rank, lambda: size


@pytest.mark.parametrize("chunks", [1, 2])
def test_the_ranks_hold_each_token_once_and_meet_each_visible_pair_once(chunks):
    rings = [Ring(Group(rank, 3), chunks) for rank in range(3)]
    assert sorted(torch.cat([ring.places(24) for ring in rings]).tolist()) == list(range(24))
    met = [
        (ring.held_by(rank)[pair.queries], ring.held_by(ring.owner(turn))[pair.keys], pair.diagonal)
        for rank, ring in enumerate(rings)
        for turn in range(3)
        for pair in ring.pairs(turn)
    ]
    assert sorted(met) == [(mine, theirs, mine == theirs) for mine in range(3 * chunks) for theirs in range(mine + 1)]


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_parts_in_any_order_give_what_all_keys_give_at_once(scale):
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(2, 2, 12, 8, generator=generator, dtype=torch.float64) for _ in range(3))
    softmax = OnlineSoftmax(scale * query)
    for part in (2, 0, 1):
        softmax.add(key[..., 4 * part : 4 * part + 4, :], value[..., 4 * part : 4 * part + 4, :], diagonal=False)
    expected = functional.scaled_dot_product_attention(scale * query, key, value)
    torch.testing.assert_close(softmax.output(), expected)
    assert softmax.log_sum().isfinite().all()


def test_a_query_does_not_see_what_comes_after_it():
    softmax = OnlineSoftmax(torch.zeros(3, 2))
    softmax.add(torch.zeros(3, 2), torch.tensor([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]), diagonal=True)
    assert softmax.output()[:, 0].tolist() == [0.0, 0.5, 1.0]
