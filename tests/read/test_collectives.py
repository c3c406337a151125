import pandas as pd
import pytest

from tests.read.drawn_calls import calls
from tracekit.read.collectives import match

NO_HOSTS: dict[int, str | None] = {}


def matched(drawing, ranks=None):
    """The drawing's calls after matching, and the clocks."""
    drawn = calls(drawing)
    found, clocks, _ = match(drawn, ranks or sorted(set(drawn["rank"])), NO_HOSTS, frozenset())
    return found, clocks


def pairs(drawing, **options):
    """Which calls are one, as sets of rank and the call's number on its rank, and how each was found."""
    found = matched(drawing, **options)[0]
    numbered = found.assign(number=found.groupby("rank").cumcount())
    return [
        ({(row.rank, row.number) for row in one.itertuples()}, one["how"].iloc[0])
        for _, one in numbered.groupby("match")
    ]


def test_by_sequence_number_whatever_the_order():
    assert pairs("""
        0  RRR..RRR..RRR  group=dp ranks=[0,1] seq=41,42,43
        1  .....RRR..RRR  group=dp ranks=[0,1] seq=42,43
    """) == [({(0, 1), (1, 0)}, "seq"), ({(0, 2), (1, 1)}, "seq")]


def test_an_id_comes_before_the_sequence_number():
    assert pairs("""
        0  RRR  group=dp ranks=[0,1] seq=1 id=18446744073709551615
        1  RRR  group=dp ranks=[0,1] seq=7 id=18446744073709551615
    """) == [({(0, 0), (1, 0)}, "id")]


def test_one_number_of_two_groups_is_two_calls():
    assert pairs("""
        0  RRR.....  group=a ranks=[0,1] seq=1
        1  RRR.....  group=a ranks=[0,1] seq=1
        0  ....RRR.  group=b ranks=[0,2] seq=1
        2  ....RRR.  group=b ranks=[0,2] seq=1
    """) == [({(0, 0), (1, 0)}, "seq"), ({(0, 1), (2, 0)}, "seq")]


def test_a_group_with_two_names_is_one_group():
    found, _ = matched("""
        0  RRR  group=3 ranks=[0,1] seq=1
        1  RRR  group=5 ranks=[0,1] seq=1
    """)
    assert found["match"].tolist() == [0, 0]
    assert found["group"].nunique() == 1


def test_two_groups_of_the_same_members_four_calls_in_flight_each():
    assert pairs("""
        0  RRRR....RRRR....  group=a ranks=[0,1] seq=1,2
        0  ..RRRR....RRRR..  group=b ranks=[0,1] seq=1,2
        1  ..RR......RR....  group=a ranks=[0,1] seq=1,2
        1  ....RR......RR..  group=b ranks=[0,1] seq=1,2
    """) == [({(0, 0), (1, 0)}, "seq"), ({(0, 2), (1, 2)}, "seq"), ({(0, 1), (1, 1)}, "seq"), ({(0, 3), (1, 3)}, "seq")]


def test_another_operation_under_the_same_number_is_not_the_same_call():
    assert (
        pairs("""
        0  RRR  group=dp ranks=[0,1] seq=1
        1  GGG  group=dp ranks=[0,1] seq=1
    """)
        == []
    )


def test_without_numbers_a_lost_head_shifts_nothing():
    assert pairs("""
        0  RRR.RRRR..RRRRR..RR
        1  .....RRR..RRRRR..RR
    """) == [({(0, 1), (1, 0)}, "ends"), ({(0, 2), (1, 1)}, "ends"), ({(0, 3), (1, 2)}, "ends")]


def test_without_numbers_a_lost_middle_shifts_nothing():
    assert pairs("""
        0  RRR..RRRR..RR..RRR
        1  RRR.........R..RRR
    """) == [({(0, 0), (1, 0)}, "ends"), ({(0, 2), (1, 1)}, "ends"), ({(0, 3), (1, 2)}, "ends")]


def test_without_numbers_a_lost_tail_on_a_shifted_clock_shifts_nothing():
    drawing = """
        0  RRR.RRRR....RRRRR..RR.......RRR
        1  RRR.RRRR....RRRRR..RR.......      ahead=3
    """
    found, clocks = matched(drawing)
    assert clocks[1].offset_ns == 3000
    assert found.groupby("match")["rank"].apply(list).tolist() == [[0, 1]] * 4
    assert found.loc[found["match"].isna(), "rank"].tolist() == [0]


def test_without_numbers_every_second_call_lost_moves_no_clock():
    found, clocks = matched("""
        0  RRRRR.......RRRRR.......RRRRR.......RRRRR
        1  ..RRR....................RRRR...........
    """)
    assert found.loc[found["match"].notna(), ["rank", "start_ns"]].values.tolist() == [
        [0, 0], [0, 24_000], [1, 2000], [1, 25_000],
    ]  # fmt: skip
    assert clocks[1].offset_ns == 0


def test_only_if_every_member_at_hand_shows_it():
    drawing = """
        0  RRR.RRR  group=dp ranks=[0,1,2] seq=1,2
        1  RRR.RRR  group=dp ranks=[0,1,2] seq=1,2
        2  ....RRR  group=dp ranks=[0,1,2] seq=2
    """
    assert pairs(drawing) == [({(0, 1), (1, 1), (2, 0)}, "seq")]


def test_a_member_without_a_file_is_not_waited_for():
    assert pairs("""
        0  RRR  group=dp ranks=[0,1,2] seq=1
        1  RRR  group=dp ranks=[0,1,2] seq=1
    """) == [({(0, 0), (1, 0)}, "seq")]


def test_a_group_of_one_matches_nobody():
    found, _ = matched("""
        0  RRR  group=solo ranks=[0] size=1 seq=1
        1  RRR  group=solo ranks=[1] size=1 seq=1
    """)
    assert found["match"].isna().all()
    assert found["how"].tolist() == ["none", "none"]


def test_a_counter_of_sends_and_receives_with_all_peers_tells_no_pairs():
    # Rank 0 sends, receives, sends: 1, 2, 3. Rank 1 receives, receives, sends: 1, 2, 3; by number, 0's 3 had no end.
    assert pairs("""
        0  ss.....ss..  group=pp ranks=[0,1] peer=1 seq=1,3
        0  .........rr  group=pp ranks=[0,1] peer=1 seq=2
        1  rr.....rr..  group=pp ranks=[0,1] peer=0 seq=1,2
        1  .........ss  group=pp ranks=[0,1] peer=0 seq=3
    """) == [({(0, 0), (1, 0)}, "order"), ({(0, 1), (1, 1)}, "order"), ({(0, 2), (1, 2)}, "order")]


def test_numbers_that_both_ends_count_alike_tell_which_call_is_lost():
    assert pairs("""
        0  ss.ss.ss  group=pp ranks=[0,1] peer=1 seq=1,2,3
        1  rr.rr...  group=pp ranks=[0,1] peer=0 seq=1,2
    """) == [({(0, 0), (1, 0)}, "seq"), ({(0, 1), (1, 1)}, "seq")]


def test_sends_and_receives_pair_by_their_two_ends_and_number():
    assert pairs("""
        0  ss..ss.....  group=pp ranks=[0,1,2] peer=1 seq=1,2
        1  .rr..rr....  group=pp ranks=[0,1,2] peer=0 seq=1,2
        1  ........ss.  group=pp ranks=[0,1,2] peer=2 seq=1
        2  .........rr  group=pp ranks=[0,1,2] peer=1 seq=1
    """) == [({(0, 0), (1, 0)}, "seq"), ({(0, 1), (1, 1)}, "seq"), ({(1, 2), (2, 0)}, "seq")]


def test_one_counter_over_all_peers_pairs_in_order():
    assert pairs("""
        0  ss.......  group=pp ranks=[0,1,2] peer=1 seq=1
        0  ...ss....  group=pp ranks=[0,1,2] peer=2 seq=2
        1  .rr......  group=pp ranks=[0,1,2] peer=0 seq=1
        2  ....rr...  group=pp ranks=[0,1,2] peer=0 seq=1
    """) == [({(0, 0), (1, 0)}, "seq"), ({(0, 1), (2, 0)}, "order")]


def test_peers_counted_within_the_group_are_ranks_of_the_job():
    found, _ = matched("""
        4  ss.  group=pp ranks=[4,8] peer=1 seq=1
        8  .rr  group=pp ranks=[4,8] peer=0 seq=1
    """)
    assert found["match"].tolist() == [0, 0]
    assert found["peer"].tolist() == [8, 4]


def test_a_call_that_only_some_files_name_is_one_call():
    found, _ = matched("""
        0  ....RRR..RRR  group=dp ranks=[0,1] seq=7,8
        1  RRR.RRR.....
        1  .........RRR  group=dp ranks=[0,1] seq=8
    """)
    assert found["how"].tolist() == ["ends", "seq", "none", "ends", "seq"]
    assert set(found.loc[found["match"].notna(), "group"]) == {"dp"}


def test_files_that_do_not_overlap_in_time_are_not_matched_by_order():
    assert pairs("""
        0  RRR..........
        1  .........RRR.
    """, ranks=[0, 1]) == []  # fmt: skip


def test_nothing_to_match_is_no_error():
    found, clocks = matched("0  RRR")
    assert found["match"].isna().all()
    assert clocks[0].offset_ns == 0
    empty = calls("0 ...")
    assert isinstance(match(empty, [0, 1], NO_HOSTS, frozenset())[0], pd.DataFrame)


@pytest.mark.parametrize("ahead", [-700, -3, 0, 5000, 10**9])
def test_waits_do_not_change_when_a_clock_is_shifted(ahead):
    drawing = """
        0  RRRRRR..RRR...RRRR...RRR..RRRRR  group=dp ranks=[0,1] seq=1,2,3,4,5
        1  ...RRR..RRR....RRR.....R..RRRRR  group=dp ranks=[0,1] seq=1,2,3,4,5 ahead=@
    """
    found, clocks = matched(drawing.replace("@", str(ahead)))
    starts = found.sort_values("rank").groupby("match")["start_ns"].apply(lambda one: one.iloc[1] - one.iloc[0])
    assert clocks[1].offset_ns == ahead * 1000
    assert starts.tolist() == [3000, 0, 1000, 2000, 0]
