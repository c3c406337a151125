import pytest

from tracekit.errors import WrongUse
from tracekit.plan import collectives
from tracekit.plan.collectives import bus_factor, hierarchical_seconds, seconds, sent_bytes, steps
from tracekit.plan.hardware import Link


@pytest.mark.parametrize(
    ("op", "ranks", "factor"),
    [("all_reduce", 2, 1), ("all_reduce", 8, 1.75), ("all_gather", 8, 0.875), ("reduce_scatter", 4, 0.75),
     ("all_to_all", 2, 0.5), ("broadcast", 8, 1), ("send", 2, 1), ("all_reduce", 1, 0)],
)  # fmt: skip
def test_bus_bandwidth_as_nccl_tests_have_it(op, ranks, factor):
    assert bus_factor(op, ranks) == factor


@pytest.mark.parametrize(
    ("op", "sent"),
    [("all_reduce", 1500), ("all_gather", 750), ("reduce_scatter", 750), ("all_to_all", 750), ("broadcast", 750),
     ("reduce", 750), ("gather", 187.5), ("scatter", 187.5), ("barrier", 0), ("send", 1000), ("recv", 0),
     ("unknown", None)],
)  # fmt: skip
def test_what_each_of_four_ranks_sends_of_a_thousand_bytes(op, sent):
    assert sent_bytes(op, 4, 1000) == sent


def ring(ranks, rounds):
    """Parts that each rank sends when it passes on, in each round, the part that it got in the round before."""
    sent = dict.fromkeys(range(ranks), 0)
    for _ in range(rounds):
        for rank in range(ranks):
            sent[rank] += 1
    return sent


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_by_counting_the_parts_that_go_round(ranks):
    size = 840
    gathered = ring(ranks, ranks - 1)
    assert {sent_bytes("all_gather", ranks, size)} == {parts * size / ranks for parts in gathered.values()}
    reduced = ring(ranks, 2 * (ranks - 1))
    assert {sent_bytes("all_reduce", ranks, size)} == {parts * size / ranks for parts in reduced.values()}


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
def test_bus_bandwidth_is_what_a_rank_sends(op):
    assert bus_factor(op, 6) * 600 == pytest.approx(sent_bytes(op, 6, 600))


LINK = Link(bandwidth=1e9, latency=1e-5)


def test_a_ring_of_eight_moves_24_5_of_14_gigabytes():
    assert collectives.busiest_bytes("all_reduce", 8, 14e9) == 24.5e9
    assert sent_bytes("all_reduce", 8, 14_000_000_000) == 24.5e9


@pytest.mark.parametrize(
    ("op", "ring", "tree"),
    [("all_reduce", 14, 6), ("all_gather", 7, 3), ("reduce_scatter", 7, 3), ("broadcast", 7, 3), ("reduce", 7, 3),
     ("all_to_all", 7, 3), ("send", 1, 1), ("barrier", 14, 6)],
)  # fmt: skip
def test_messages_one_after_the_other_among_eight(op, ring, tree):
    assert (steps(op, 8), steps(op, 8, "tree")) == (ring, tree)


def test_a_group_of_one_takes_no_time():
    assert all(seconds(op, 1, 10**9, LINK) == 0 for op in ("all_reduce", "all_gather", "broadcast", "all_to_all"))


def test_time_is_messages_and_bytes():
    assert seconds("all_reduce", 4, 1e9, LINK) == pytest.approx(6e-5 + 1.5)
    assert seconds("all_reduce", 4, 1e9, LINK, "tree") == pytest.approx(4e-5 + 2)
    assert seconds("sendrecv", 2, 1e9, LINK) == pytest.approx(1e-5 + 1)


@pytest.mark.parametrize("op", ["all_reduce", "all_to_all"])
def test_at_the_size_where_the_tree_stops_to_win_both_take_as_long(op):
    size = collectives.tree_beats_ring_below(op, 64, LINK)
    assert seconds(op, 64, size, LINK) == pytest.approx(seconds(op, 64, size, LINK, "tree"))
    assert collectives.quickest(op, 64, size / 2, LINK)[0] == "tree"
    assert collectives.quickest(op, 64, size * 2, LINK)[0] == "ring"


def test_the_size_by_hand():
    # 2·(7 - 3) messages of 10 µs are saved, and 2·S/8 bytes more are sent at 10^9 per second.
    assert collectives.tree_beats_ring_below("all_reduce", 8, LINK) == pytest.approx(8e-5 * 1e9 * 8 / 2)


def test_where_a_tree_sends_no_more_it_wins_at_any_size_and_of_two_ranks_never():
    assert collectives.tree_beats_ring_below("broadcast", 8, LINK) is None
    assert collectives.tree_beats_ring_below("all_reduce", 2, LINK) == 0


def test_hierarchical_all_reduce_sends_little_between_nodes():
    inside, between = collectives.hierarchical_bytes("all_reduce", 4, 8, 800)
    assert (inside, between) == (2 * 700, 2 * 75)


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"])
def test_on_one_node_hierarchical_is_the_ring(op):
    slow = Link(1, 1)
    assert hierarchical_seconds(op, 1, 8, 1e6, LINK, slow) == pytest.approx(seconds(op, 8, 1e6, LINK))
    assert hierarchical_seconds(op, 8, 1, 1e6, slow, LINK) == pytest.approx(seconds(op, 8, 1e6, LINK))


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter"])
def test_hierarchical_bytes_make_up_what_a_flat_ring_moves(op):
    inside, between = collectives.hierarchical_bytes(op, 4, 8, 3200)
    assert inside + between == pytest.approx(collectives.busiest_bytes(op, 32, 3200))


def test_what_is_not_known_is_refused():
    for call in (
        lambda: steps("shuffle", 4),
        lambda: steps("all_reduce", 4, "butterfly"),
        lambda: steps("all_reduce", 0),
        lambda: collectives.hierarchical_parts("gather", 2, 2, 1),
    ):
        with pytest.raises(WrongUse):
            call()
