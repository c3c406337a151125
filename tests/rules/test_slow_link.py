import pytest

from tests.rules.drawn import LAUNCHING, found, healthy, job, late
from tracekit.errors import NotMeasured
from tracekit.rules import slow_link


def step(ab=2, ba=2, cd=2, dc=2, arrives=0):
    """Ranks 0, 1 and 2, 3 transfer, then 0, 2 and 1, 3; each takes so many microseconds; then all meet for 1 us.

    Rank 3 computes longer by what it `arrives` late.
    """
    first = {0: ab, 1: ab, 2: ba, 3: ba}
    second = {0: cd, 1: dc, 2: cd, 3: dc}
    begin = {rank: 3 + (arrives if rank == 3 else 0) for rank in range(4)}
    met = {0: 3, 1: 3, 2: begin[3], 3: begin[3]}
    done = {rank: met[rank] + first[rank] for rank in range(4)}
    last = {rank: max(done[rank], done[(rank + 2) % 4]) + second[rank] for rank in range(4)}
    end = max(last.values()) + 1
    lines = []
    for rank in range(4):
        one, other = ("a", "b")[rank // 2], ("c", "d")[rank % 2]
        lines += [
            f"{rank}/main abcd" + "S" * (end - 3),
            f"{rank}/7 .{'C' * (begin[rank] - 1)}{'.' * (end + 1 - begin[rank])} by=a",
            _lane(rank, 20, begin[rank], done[rank], end, f"by=b group={one} bytes=1000000 size=2"),
            _lane(rank, 20, done[rank], last[rank], end, f"by=c group={other} bytes=1000000 size=2"),
            _lane(rank, 20, last[rank], end, end, "by=d group=all bytes=8 size=4"),
        ]
    return "\n".join(lines)


def _lane(rank, stream, start, stop, end, options):
    return f"{rank}/{stream} {'.' * start}{'N' * (stop - start)}{'.' * (end + 1 - stop)} {options}"


SLOW = {"ba": 4, "dc": 4}
"""What rank 3 takes part in takes 4 us instead of 2, one after the other."""


def test_all_groups_of_one_rank():
    """4 us in a step: 2 us in each of its groups."""
    [finding] = found(slow_link, job(step(**SLOW), step(**SLOW), step(**SLOW)))
    assert (finding.code, finding.ranks, finding.steps, finding.cost_ns) == ("slow-link", (3,), (0, 1, 2), 4000)
    assert finding.title == "rank 3's link is slow: alike transfers take 2.00 times as long"
    assert finding.evidence == (
        "counted from the last arrival, transfers take 2.00 times as long in every group of the rank, in 3 of 3 steps",
        "its calls take 0.004 ms a step longer than alike ones elsewhere",
    )


def test_from_some_step_on():
    [finding] = found(slow_link, job(step(), step(), step(**SLOW), step(**SLOW)))
    assert (finding.ranks, finding.steps, finding.cost_ns) == ((3,), (2, 3), 2000)


def test_ranks_that_are_in_one_group_only_cannot_be_told_apart():
    drawing = """
        step 000000111111
        0/20 NN....NN....  group=a bytes=100 size=2
        1/20 NN....NN....  group=a bytes=100 size=2
        2/20 NNNN..NNNN..  group=b bytes=100 size=2
        3/20 NNNN..NNNN..  group=b bytes=100 size=2
    """
    [finding] = found(slow_link, drawing)
    assert finding.ranks == (2, 3)
    assert finding.title == "a link of ranks 2-3 is slow: alike transfers take 2.00 times as long"
    assert "every group of these ranks, which cannot be told apart, in 2 of 2 steps" in finding.evidence[0]


@pytest.mark.parametrize(
    "drawing",
    [
        job(step(), step(), step()),
        job(step(), step(**SLOW), step()),  # in one step only
        job(*[step(ba=4)] * 3),  # ranks 2 and 3 transfer as fast as others with other ranks
        job(*[step(arrives=4)] * 3),  # late, but its transfers are not slow
        job(*[step(4, 4, 4, 4)] * 3),  # all alike
        job(*[step(20, 22, 20, 22)] * 3),  # a tenth
        "\n".join(f"{rank}/20 {'NNN.' if rank > 1 else 'NN..'} group={rank // 2} bytes=9 size=2" for rank in range(4)),
    ],
)
def test_silent(drawing):
    assert found(slow_link, drawing) == []


@pytest.mark.parametrize("drawing", [job(healthy()), job(late(LAUNCHING))])
def test_one_group_of_all_ranks_has_nothing_to_compare_with(drawing):
    with pytest.raises(NotMeasured):
        found(slow_link, drawing)
