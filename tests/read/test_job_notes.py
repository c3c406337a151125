import pytest

from tests.read.drawn_calls import calls
from tracekit.read.clock import Clock
from tracekit.read.job_notes import of_job, of_moment
from tracekit.read.together import Moment

SPANS = {0: (0, 9), 1: (0, 9), 2: (0, 9)}
DRAWN = calls("0 RRR\n1 RRR\n2 RRR")


def told(clocks, untied=((0, 1, 2),), spans=SPANS, strangers=()):
    return [(note.code, note.rank, note.count, note.message) for note in of_moment(
        Moment(DRAWN, clocks, untied, strangers), spans)]  # fmt: skip


def test_all_is_well():
    assert told(dict.fromkeys(SPANS, Clock(0, 0))) == []


def test_one_clock_that_was_put_right():
    assert told({0: Clock(0, 0), 1: Clock(-2500, 300), 2: Clock(0, 9)}) == [
        ("clock-offset", 1, 1, "the file's clock is 2.5 us behind rank 0's, give or take 0.3 us: corrected")
    ]


def test_several_clocks_in_one_sentence_the_worst_first():
    assert told({0: Clock(0, 0), 1: Clock(5000, 300), 2: Clock(-7000, None)}) == [
        (
            "clock-offset", None, 2,
            "corrected the clocks of 2 files: rank 2's is 7.0 us behind rank 0's; "
            "rank 1's is 5.0 us ahead of rank 0's, give or take 0.3 us",
        )
    ]  # fmt: skip


def test_of_many_clocks_eight_are_named():
    clocks = {rank: Clock(rank * 1000, 0) for rank in range(12)}
    [(_, _, count, message)] = told(clocks, [list(clocks)], dict.fromkeys(clocks, (0, 9)))
    assert count == 11
    assert message.endswith("rank 4's is 4.0 us ahead of rank 0's, give or take 0.0 us; and 3 more")


def test_a_clock_is_told_against_the_lowest_rank_that_it_is_tied_to():
    [tied_to, untied] = told({0: Clock(0, 0), 1: Clock(0, 0), 2: Clock(4000, 0)}, [[0], [1, 2]])
    assert "ahead of rank 1's" in tied_to[3]
    assert untied == (
        "untied-clocks", None, 2,
        "no call ties these clocks together, each file's times are taken as they are: rank 0 | ranks 1-2",
    )  # fmt: skip


def test_a_clock_that_drifts():
    [(code, rank, _, message)] = told({0: Clock(0, 0), 1: Clock(0, 0, -70), 2: Clock(0, 0)})
    assert (code, rank) == ("clock-drift", 1)
    assert "runs 70 ppb slower than rank 0's" in message


@pytest.mark.parametrize(
    ("gap_ns", "long"),
    [
        (500, "0.5 us"),
        (12 * 10**6, "12.0 ms"),
        (3 * 10**10, "30.0 s"),
        (9 * 10**12, "2.5 hours"),
        (10**16, "115.7 days"),
    ],
)
def test_how_far_apart(gap_ns, long):
    [note] = told(dict.fromkeys(SPANS, Clock(0, 0)), spans={**SPANS, 2: (9 + gap_ns, 9 + gap_ns)})
    assert f"but {long} apart: ranks 0-1 | rank 2. Is this one job? No wait between them is told" in note[3]


def test_parts_that_nothing_ties_are_not_told_twice():
    apart = {0: (0, 9), 1: (0, 9), 2: (100, 109)}
    assert [code for code, *_ in told(dict.fromkeys(SPANS, Clock(0, 0)), [[0, 1], [2]], apart)] == ["no-overlap"]


def test_strangers():
    [(code, _, count, message)] = told(dict.fromkeys(SPANS, Clock(0, 0)), strangers=[1, 2])
    assert (code, count) == ("several-jobs", 2)
    assert message.startswith("the calls of ranks 1-2 look like other ranks' calls")


def test_calls_without_a_counterpart_in_one_sentence():
    lone = calls("0 RRR.RRR\n1 GGG\n2 AAA size=1")
    [note] = of_job(lone, 3, 1)
    assert (note.code, note.count) == ("unmatched-calls", 3)
    assert note.message.endswith("3 of 4 calls lack a counterpart on a member at hand, so no wait is told: "
                                 "2 all_reduce of rank 0; 1 all_gather of rank 1")  # fmt: skip
    assert list(of_job(lone, 1, 1)) == []


def test_windows_are_told():
    [note] = of_job(calls("0 ..."), 1, 2)
    assert (note.code, note.count) == ("several-windows", 2)
