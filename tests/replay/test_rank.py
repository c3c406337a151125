from tests import lanes
from tests.replay.test_joined import NO_PLACES
from tracekit.replay.joined import joined
from tracekit.replay.rank import KEPT_NS, Stretches, look_at


def rank(drawing):
    return look_at(joined(lanes.run(drawing), NO_PLACES).rank(0), 0)


def test_a_small_delay_is_kept_and_a_large_one_is_not_explained():
    """Both were launched long before; the second begins 3 us after the first, the third 100 us after that."""
    late = "." * 100
    found = rank(f"""
        step   {"0" * 120}
        0/main abc.
        0/7    .CC...CC{late}CC  by=abc
    """)
    assert found.delay.tolist() == [0, 3000, KEPT_NS]
    assert found.unexplained.tolist() == [0, 0, 100_000 - KEPT_NS]


def test_lengths_of_instances():
    found = rank("""
        step   000000000000
        0/main ab..........
        0/7    .CC.CCC.....  by=ab
    """)
    assert sorted(found.totals.tolist())[-1] == 5000


def test_stretches():
    told = Stretches({1: 0, 2: 0, 5: 1}, [], 0)
    assert told.of([5, 1, 2]).tolist() == [1, 0, 0]
