import pandas as pd

from tracekit.replay import unseen

MS = 1_000_000


def times(*rows):
    """Rank, begin and end in ms, slack in ms; each ends with an all-reduce."""
    return pd.DataFrame(
        [(rank, 0, rank, "all_reduce", begin * MS, end * MS, slack * MS, 0) for rank, begin, end, slack in rows],
        columns=["rank", "unseen", "call", "what", "begin_ns", "end_ns", "slack_ns", "step"],
    )


def waited_ms(told):
    return {int(rank): int(waited) // MS for rank, waited in told[["rank", "waited_ns"]].values.tolist()}


NOBODY_ELSE = times().iloc[:0]


def test_ranks_that_go_on_together_met():
    """Rank 1 comes last, at 90 ms, and decides the step; what is left of its time until 100 ms is its own."""
    told = unseen.met(times((0, 10, 100, 5), (1, 90, 100, 0)), NOBODY_ELSE)
    assert waited_ms(told) == {0: 90, 1: 0}
    assert set(told["latest_ns"]) == {90 * MS}
    assert told["meeting"].nunique() == 1


def test_who_did_not_wait_came_last():
    issued = times((2, 100, 100, 0))
    told = unseen.met(times((0, 10, 100, 0), (1, 40, 100, 0)), issued)
    assert waited_ms(told) == {0: 90, 1: 60, 2: 0}
    assert told.loc[told["rank"] == 2, "unseen"].tolist() == [-1]


def test_who_called_all_the_time_met_nobody():
    """Rank 2 issues a call every 10 ms: one of them comes at the right moment by chance."""
    issued = times(*((2, at, at, 0) for at in range(20, 110, 10)))
    assert unseen.met(times((0, 10, 100, 5)), issued).empty
    assert waited_ms(unseen.met(times((0, 10, 100, 5)), issued.tail(1))) == {0: 90, 2: 0}


def test_ranks_that_go_on_apart_did_not_meet():
    assert unseen.met(times((0, 10, 100, 5), (1, 90, 150, 0)), NOBODY_ELSE).empty


def test_ranks_that_began_together_worked():
    """Both did nothing that is seen for the same 90 ms: that is work, or sleep, of each."""
    assert unseen.met(times((0, 10, 100, 5), (1, 10.1, 100.05, 0)), NOBODY_ELSE).empty


def test_one_rank_alone_met_nobody():
    assert unseen.met(times((0, 10, 100, 5)), NOBODY_ELSE).empty


def test_other_calls_are_no_meeting():
    other = times((1, 90, 100, 0)).assign(what="barrier")
    assert unseen.met(pd.concat([times((0, 10, 100, 5)), other], ignore_index=True), NOBODY_ELSE).empty
