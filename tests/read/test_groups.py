import pytest

from tests.read.drawn_calls import calls
from tracekit.read.groups import Group, find_groups, members_of


def groups(drawing, ranks):
    return set(find_groups(calls(drawing), ranks).values())


@pytest.mark.parametrize(
    ("text", "size", "members"),
    [
        ("[0, 1, 2, 3]", 4, (0, 1, 2, 3)),
        ("[0, 16, 32, 48]", None, (0, 16, 32, 48)),
        ("[0, 1, 2, ..., 299]", 300, None),  # cut
        ("[0, 1, 2", 3, None),
        ("[0, 1]", 4, None),
        ("[]", None, None),
        (None, 4, None),
    ],
)
def test_members_are_told_by_a_whole_list_only(text, size, members):
    assert members_of(text, size) == members


def test_one_name_for_two_groups_gets_the_members_behind_it():
    assert groups("0 R group=dp ranks=[0,2]\n1 R group=dp ranks=[1,3]\n2 R group=dp ranks=[0,2]", [0, 1, 2, 3]) == {
        Group("dp 0, 2", (0, 2), frozenset({0, 2})),
        Group("dp 1, 3", (1, 3), frozenset({1, 3})),
    }


def test_two_names_for_one_group_are_one():
    [group] = groups("0 R group=a ranks=[0,1]\n1 R group=b ranks=[0,1]", [0, 1])
    assert group.members == (0, 1)


def test_groups_of_the_same_members_are_told_apart_by_order_where_names_do_not_agree():
    found = find_groups(
        calls("0 R group=a ranks=[0,1]\n0 .R group=b ranks=[0,1]\n1 R group=x ranks=[0,1]\n1 .R group=y ranks=[0,1]"),
        [0, 1],
    )
    assert found[0, "a", "[0,1]"] == found[1, "x", "[0,1]"]
    assert found[0, "b", "[0,1]"] == found[1, "y", "[0,1]"]
    assert found[0, "a", "[0,1]"] != found[0, "b", "[0,1]"]


def test_only_files_at_hand_count():
    [group] = groups("0 R group=tp ranks=[0,1,2,3]", [0, 4])
    assert (group.members, group.at_hand) == ((0, 1, 2, 3), frozenset({0}))


def test_without_any_group_all_ranks_are_assumed():
    [group] = groups("0 R\n1 R", [0, 1, 2])
    assert (group.name, group.members, group.at_hand) == ("all", None, frozenset({0, 1, 2}))


def test_a_group_of_one_is_alone():
    [group] = groups("3 R group=self size=1", [0, 3])
    assert group.alone
