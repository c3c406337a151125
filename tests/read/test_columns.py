import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.read.columns import NO_ID, NO_RANK, Codes, count, ids, ranks, whole, wholes


def column(*parts):
    codes = Codes()
    return codes.column([codes.of(part) for part in parts]).tolist()


def test_codes_give_back_the_values_as_text():
    assert column(["a", "b", "a"], ["b", "c"]) == ["a", "b", "a", "b", "c"]
    assert column([7, 7, -1]) == ["7", "7", "-1"]
    assert column([None, "x"]) == ["", "x"]


def test_types_may_change_between_events():
    assert column(["a", 5, None, 2.5, True, ["l"], {"d": 1}, "a"])[:5] == ["a", "5", "", "2.5", "True"]
    categories = Codes()
    mixed = categories.column([categories.of([7, "7", 7.0])])
    assert set(mixed) == {"7"}  # one stream, whatever its number's type


def test_text_that_no_file_can_hold_is_made_fit():
    [text] = column(["\ud800"])
    text.encode()


def test_joined_columns():
    one, other = Codes(), Codes()
    firsts, seconds = one.of([0, 0, "0", 1]), other.of([7, "7", 7, None])
    assert Codes.joined(one, firsts, other, seconds).tolist() == ["0/7", "0/7", "0/7", "1/"]


@pytest.mark.parametrize(
    ("value", "told"),
    [(0, 0), ("7", 7), (2**53 - 1, 2**53 - 1), (2**53, None), (-1, None), (0.5, None), (None, None), (True, None)],
)
def test_counts(value, told):
    assert count(value) == told


@given(st.lists(st.none() | st.text() | st.integers(-(2**70), 2**70) | st.floats() | st.lists(st.integers())))
def test_any_value_has_a_code(values):
    codes = Codes()
    found = codes.of(values)
    assert len(codes.column([found])) == len(values)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (5, 5), ("5", 5), ("-5", -5), (5.0, 5), ("0x1f", 31), (2**63 - 1, 2**63 - 1), (-(2**63), -(2**63)),
        (str(2**63 - 1), 2**63 - 1), (2**63, None), (5.5, None), (True, None), (None, None), ("", None), ("x", None),
        ([5], None), ({}, None), (float("nan"), None), (float("inf"), None), ("9" * 50, None), (np.int64(3), 3),
    ],
)  # fmt: skip
def test_whole_numbers(value, number):
    assert whole(value) == number
    numbers, known = wholes([value, None])
    assert numbers.tolist() == [number or 0, 0]
    assert known.tolist() == [number is not None, False]


@pytest.mark.parametrize(("value", "number"), [(5, 5), ("5", 5), (5.0, 5), (2**63 - 1, 2**63 - 1)])
def test_whole_numbers_among_their_like(value, number):
    assert [column.tolist() for column in wholes([value, value])] == [[number, number], [True, True]]


@pytest.mark.parametrize("value", [5.5, True, "x", float("nan")])
def test_no_whole_numbers_among_their_like(value):
    assert [column.tolist() for column in wholes([value, value])] == [[0, 0], [False, False]]


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (0, NO_ID), (None, NO_ID), (-1, NO_ID), ("", NO_ID), (5, 5), ("5", 5), (" 5 ", 5),
        (2**64 - 1, 2**64 - 1), (2**63, 2**63),
        (str(2**64 - 1), 2**64 - 1), (2**53 + 1, 2**53 + 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("others", [[], [None], ["text"], [1], [2**64 - 1]])
def test_ids_are_exact(value, number, others):
    assert int(ids([value, *others])[0]) == number


@pytest.mark.parametrize("spelled", ["255", "0xff", "0XFF", " 0xFF ", "0x00000000000000ff", 255.0])
def test_one_id_however_it_is_spelled(spelled):
    assert ids([255, spelled, "text"]).tolist()[:2] == [255, 255]
    assert ids(["0x0", "0", 0.0]).tolist() == [NO_ID] * 3


@given(st.lists(st.integers(0, 2**64 - 1)))
def test_any_64_bits_are_kept(values):
    assert ids(values).tolist() == values
    assert ids(list(map(str, values))).tolist() == values


@pytest.mark.parametrize(
    ("one", "other"),
    [("launch-0000001", "launch-0000002"), ("a", "b"), ("x" * 40, "x" * 41), ("1a", "1b"), ("ab", "ba")],
)
def test_ids_of_text(one, other):
    same, again, different = ids([one, one, other]).tolist()
    assert same == again == ids([one]).tolist()[0]
    assert same != different
    assert min(same, different) >= 2**63  # no profiler counts so far


@pytest.mark.parametrize("odd", [[1], {"a": 1}, 1.5, -7, 2**64, True, ""])
def test_odd_ids_do_not_stop_the_others(odd):
    assert ids([3, odd, 4]).tolist()[::2] == [3, 4]


def test_ranks_that_events_claim():
    assert ranks([None, None]).tolist() == [NO_RANK, NO_RANK]
    assert ranks([3, "4", None, -1, "x", 2.0]).tolist() == [3, 4, NO_RANK, NO_RANK, NO_RANK, 2]
    assert ranks([]).tolist() == []
