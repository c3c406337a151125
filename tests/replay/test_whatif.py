import pytest

from tests.replay.drawn import TWO_RANKS, analysis
from tracekit.errors import NotMeasured
from tracekit.replay.whatif import what_if


def saved(told):
    return {what: step_ns // 1000 for what, step_ns in zip(told.changes["what"], told.changes["step_ns"], strict=True)}


def test_what_each_change_buys():
    told = analysis(TWO_RANKS).whatif
    assert (told.step_ns, told.measured_step_ns, told.ideal_step_ns) == (11_000, 11_000, 9_000)
    assert told.slowdown == pytest.approx(11 / 9)
    assert told.waste_frac == pytest.approx(1 - 9 / 11)
    assert told.replay_error_frac == 0
    assert told.trusted
    steps = saved(told)
    assert steps["rank:1"] == 7  # 1 us until it begins, 4 us like rank 0, 2 us of transfer
    assert steps["class:other compute"] == 9
    assert steps["comm"] == steps["collectives"] == 9
    assert steps["links:2x"] == 10
    assert steps["rank:0"] == steps["host"] == 11


def test_the_most_saved_stands_first():
    assert analysis(TWO_RANKS).whatif.changes["what"].iloc[0] == "rank:1"


def test_who_alone_slows_the_ideal_down():
    told = analysis(TWO_RANKS).whatif
    assert told.by_rank[["rank", "slowdown"]].values.tolist() == [[1, pytest.approx(11 / 9)], [0, 1]]
    assert dict(told.by_class[["class", "slowdown"]].values.tolist())["other compute"] == pytest.approx(11 / 9)
    assert told.slowest_workers == (1,)
    assert told.m_workers == 1  # rank 1 ideal: 1 + 6 + 2 us, as the whole ideal
    assert told.m_last_stage is None


PIPELINE = """
    step   00000000000000000000
    0/main acdb................
    0/main A...................  op=forward:0:0
    0/main ...A................  op=backward:0:0
    0/7    .CC.............CC..  by=ab
    0/20   ...N................  by=c op=send peer=1
    0/21   ...NNNNNNNNNNNNN....  by=d op=recv peer=1
    1/main xcabd...............
    1/main ..A.................  op=forward:1:0
    1/main ...A................  op=backward:1:0
    1/21   ..NN................  by=c op=recv peer=0
    1/7    .C..CCCCCCCCccc.....  by=xab
    1/20   ...............N....  by=d op=send peer=0
"""
"""Forward 2 us, transfer 1, forward 8, backward 3, transfer 1, backward 2, after 1 us until the first launch works."""


def test_a_slow_stage():
    told = analysis(PIPELINE).whatif
    steps = saved(told)
    assert told.measured_step_ns == told.step_ns == 18_000
    assert steps["stage:1"] == 11  # forward 2 instead of 8, backward 2 instead of 3
    assert steps["stages"] == 18  # 5 and 5 us instead of 2 and 8: one after another that is no shorter
    assert steps["class:forward"] == 18
    assert steps["collectives"] == steps["comm"] == 16  # both transfers; what is sent still has to come


def test_a_replay_that_is_far_off_says_so_and_why():
    """Work that begins 5 ms late for no reason that is seen: it was launched, its lane was free."""
    late = "." * 5000
    told = analysis(f"""
        step   {"0" * 5010}
        0/main ab{late}........
        0/7    .C{late}CCCC....  by=ab
    """).whatif
    assert told.measured_step_ns == 5_006_000
    assert not told.trusted
    assert told.replay_error_frac > 0.9
    assert "later than lanes, launches and waits explain" in told.doubts[0]


def test_chosen_changes_alone():
    asked = analysis(TWO_RANKS)
    told = what_if(asked.replay, asked, [])
    assert told.changes.empty
    assert told.slowdown == pytest.approx(11 / 9)


def test_a_step_whose_ideal_takes_no_time_has_no_slowdown():
    """Nothing works in step 1 (4-8 us, or until step 2 is done), so its ideal is nothing."""
    told = analysis("""
        0/step  00001111
        0/main  a.......
        0/7     .CC.....  by=a
        1/step  2222....
        1/main  a.......
        1/7     .CC.....  by=a
    """).whatif
    assert told.steps["ideal_ns"].tolist() == [3000, 0]
    assert told.steps["slowdown"].tolist() == [1, pytest.approx(float("nan"), nan_ok=True)]


def test_work_that_takes_no_time_cannot_be_mended():
    asked = analysis("""
        0/step  00001111  incomplete=0
        0/main  a.......
        0/7     .CC.....  by=a
        1/step  2222....  incomplete=2
        1/main  a.......
        1/7     .CC.....  by=a
    """)
    with pytest.raises(NotMeasured, match="no work that takes time"):
        assert asked.whatif
