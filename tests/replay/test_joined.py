import pandas as pd

from tests import lanes
from tests.replay.drawn import TWO_RANKS
from tracekit.replay.joined import joined

NO_PLACES = pd.DataFrame({"rank": [], "axis": [], "group": [], "place": []})


def calls(drawing, places=NO_PLACES):
    return joined(lanes.run(drawing), places).calls


def test_a_transfer_begins_when_the_last_has_come():
    told = calls(TWO_RANKS)
    assert told["own_transfer_ns"].tolist() == [2000, 2000]
    assert told["meeting"].nunique() == 1
    assert (told["meeting"] >= 0).all()


def test_a_call_without_counterpart_is_all_transfer():
    told = calls("0/7 CC......\n0/20 ..NNNN..")
    assert told["own_transfer_ns"].tolist() == [4000]
    assert told["meeting"].tolist() == [-1]


def test_ranks_do_not_wait_for_each_other_in_a_broadcast():
    told = calls("0/20 NNNN op=broadcast\n1/20 ..NN op=broadcast")
    assert told["meeting"].tolist() == [-1, -1]
    assert told["own_transfer_ns"].tolist() == [4000, 2000]


def test_what_one_kernel_does_together_waits_for_all_partners():
    """Rank 0 sends to 1 and receives from 2 at once: rank 2 comes at 6 us, so 2 us are transfer in both."""
    told = calls("""
        0/20 NNNNNNNN  op=send peer=1
        0/21 NNNNNNNN  op=recv peer=2
        1/21 ..NN....  op=recv peer=0
        2/20 ......NN  op=send peer=0
    """)
    assert told[told["rank"] == 0]["own_transfer_ns"].tolist() == [2000, 2000]
    assert told[told["rank"] == 1]["own_transfer_ns"].tolist() == [2000]


def test_kinds_are_told_by_axis_and_direction():
    places = pd.DataFrame([(0, "pipeline", 0, 0), (1, "pipeline", 0, 1)], columns=["rank", "axis", "group", "place"])
    told = calls(
        """
        0/20 NN......  op=send peer=1
        1/20 NN......  op=recv peer=0
        0/21 ....NN..  op=recv peer=1
        1/21 ....NN..  op=send peer=0
        """,
        places,
    )
    assert told.sort_values("start_ns")["what"].tolist() == ["pipeline forward"] * 2 + ["pipeline backward"] * 2


def test_a_group_of_no_axis_is_told_by_its_name():
    assert set(calls("0/20 NN group=embedding\n1/20 NN group=embedding")["what"]) == {"embedding all_reduce"}
