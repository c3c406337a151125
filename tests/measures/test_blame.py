import pytest

from tests import lanes
from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured


def blamed(drawing, column="wait_ns"):
    """Microseconds by rank that waits and rank that is blamed; a rank's sum is its waits."""
    analysis = Analysis(lanes.run(drawing))
    rows, waits = analysis["blame"], analysis["waits"].groupby("rank")[column].sum()
    assert rows.groupby("rank")[column].sum().reindex(waits.index, fill_value=0).to_dict() == waits.to_dict()
    return {(rank, last): ns / 1000 for rank, last, ns in rows[["rank", "blamed_rank", column]].values.tolist()}


def test_the_last_to_come_is_blamed():
    assert blamed("""
        0/20 NNNNNN
        1/20 ...NNN
        2/20 .NNNNN
    """) == {(0, 1): 3, (2, 1): 2}


def test_who_only_waited_passes_the_blame_on():
    # 1 waits 4 for 0, computes as long as 2 does, and so keeps 2 waiting for those 4
    assert blamed("""
        0/20 ....NN......  op=send peer=1
        1/20 NNNNNN......  op=recv peer=0
        1/7  ......CC....
        1/21 ........NN..  op=send peer=2
        2/7  CCCC........
        2/21 ....NNNNNN..  op=recv peer=1
    """) == {(1, 0): 4, (2, 0): 4}


def test_only_the_part_that_waits_explain_is_passed_on():
    # 1 waits 2 for 0 and computes 4 longer than 2
    assert blamed("""
        0/20 ..NN........  op=send peer=1
        1/20 NNNN........  op=recv peer=0
        1/7  ....CCCC....
        1/21 ........NN..  op=send peer=2
        2/7  CC..........
        2/21 ..NNNNNNNN..  op=recv peer=1
    """) == {(1, 0): 2, (2, 0): 2, (2, 1): 4}


def test_blame_is_passed_on_along_a_chain():
    assert blamed("""
        0/20 ...NN..............  op=send peer=1
        1/20 NNNNN..............  op=recv peer=0
        1/21 .....NN............  op=send peer=2
        2/21 ..NNNNN............  op=recv peer=1
        2/22 .......NN..........  op=send peer=3
        3/22 .....NNNN..........  op=recv peer=2
    """) == {(1, 0): 3, (2, 0): 3, (3, 0): 2}


def test_waiting_before_the_members_last_call_explains_nothing():
    # 1 waited 4 for 0, but then met 2 in a call; what it is late by afterwards is its own
    assert blamed("""
        0/20 ....NN..........  op=send peer=1
        1/20 NNNNNN..........  op=recv peer=0
        1/21 ......NN........  group=a
        2/21 ......NN........  group=a
        1/7  ........CCC.....
        1/21 ...........NN...  group=a
        2/21 ........NNNNN...  group=a
    """) == {(1, 0): 4, (2, 1): 3}


def test_members_who_met_in_another_group_have_met():
    # 0 keeps 1 waiting and meets it in doing so; that 1 then computes for 2 longer is its own
    assert blamed("""
        0/7  CCC.......
        0/20 ...NN.....  op=send peer=1 group=pp
        1/20 NNNNN.....  op=recv peer=0 group=pp
        1/7  .....CC...
        0/21 .....NNNNN  group=dp
        1/21 .......NNN  group=dp
    """) == {(1, 0): 3, (0, 1): 2}


def test_the_latest_waits_explain_first():
    # 1 waited 4 for 0 long ago and 2 for 3 just now: being 2 late is 3's doing
    assert blamed("""
        0/20 ....N...........  op=send peer=1
        1/20 NNNNN...........  op=recv peer=0
        1/7  .....CCCC.......
        3/22 ...........N....  op=send peer=1
        1/22 .........NNN....  op=recv peer=3
        1/21 ............NN..  op=send peer=2
        2/21 ..........NNNN..  op=recv peer=1
    """) == {(1, 0): 4, (1, 3): 2, (2, 3): 2}


def test_waiting_under_compute_makes_nobody_late():
    drawing = """
        0/20 ....NN......  op=send peer=1
        1/20 NNNNNN......  op=recv peer=0
        1/7  CCCCCCCC....
        1/21 ........NN..  op=send peer=2
        2/21 ....NNNNNN..  op=recv peer=1
    """
    assert blamed(drawing) == {(1, 0): 4, (2, 1): 4}
    assert blamed(drawing, "exposed_wait_ns") == {(1, 0): 0, (2, 1): 4}


def test_calls_that_begin_together_do_not_excuse_each_other():
    # the send and the receive between 1 and 2 are one exchange, as in a pipeline's steady state
    assert blamed("""
        0/20 ....NN......  op=send peer=1
        1/20 NNNNNN......  op=recv peer=0
        1/21 ......NN....  op=send peer=2
        1/22 ......NN....  op=recv peer=2
        2/21 ..NNNNNN....  op=recv peer=1
        2/22 ..NNNNNN....  op=send peer=1
    """) == {(1, 0): 4, (2, 0): 8}


def test_one_who_is_kept_by_what_it_kept_itself_blames_itself():
    assert blamed("""
        0/20 ...N......  op=send peer=1
        1/20 NNNN......  op=recv peer=0
        1/21 ....N.....  op=send peer=2
        2/21 .NNNN.....  op=recv peer=1
        2/22 .....N....  op=send peer=0
        0/22 ....NN....  op=recv peer=2
    """) == {(1, 0): 3, (2, 0): 3, (0, 0): 1}


def test_parts_of_nanoseconds_are_not_lost():
    drawing = """
        0/20 .NN.......  op=send peer=2
        1/21 ..NN......  op=send peer=2
        2/20 NNN.......  op=recv peer=0
        2/21 NNNN......  op=recv peer=1
        2/22 ....NN....  op=send peer=3
        3/22 ...NNN....  op=recv peer=2
    """
    told = blamed(drawing)
    assert told[3, 0] + told[3, 1] == 1
    assert told[3, 1] == pytest.approx(2 / 3, abs=0.001)


def test_a_world_of_one():
    with pytest.raises(NotMeasured, match="no second rank"):
        blamed("0/20 NN")
