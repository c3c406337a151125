import pytest

from tracekit.plan.collectives import bus_factor, sent_bytes


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
