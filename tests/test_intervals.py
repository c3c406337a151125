"""Intervals against sets of cells: a span `[a, b)` is the set of the whole numbers from a to b - 1."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracekit import intervals
from tracekit.intervals import EMPTY, Spans

TIME = st.integers(-20, 20)
PAIRS = st.lists(st.tuples(TIME, TIME), max_size=8)
SETS = PAIRS.map(lambda pairs: union(pairs))
FAR = 1_700_000_000_123_456_789  # nanoseconds of today, which a float64 cannot hold


def union(pairs):
    return intervals.union([start for start, _ in pairs], [end for _, end in pairs])


def cells(spans):
    return {
        cell
        for start, end in zip(spans.starts.tolist(), spans.ends.tolist(), strict=True)
        for cell in range(start, end)
    }


def in_one_form(spans):
    """In order, without overlap, without empty or touching spans, in int64."""
    assert spans.starts.dtype == spans.ends.dtype == np.int64
    assert (spans.starts < spans.ends).all()
    assert (spans.ends[:-1] < spans.starts[1:]).all()
    return spans


@given(PAIRS)
def test_union(pairs):
    assert cells(in_one_form(union(pairs))) == {cell for start, end in pairs for cell in range(start, end)}


@given(st.lists(SETS, max_size=4))
def test_merge(sets):
    assert cells(in_one_form(intervals.merge(sets))) == set().union(*map(cells, sets))


@given(SETS)
def test_length(spans):
    assert intervals.length(spans) == len(cells(spans)) == sum(spans.ends - spans.starts)
    assert len(spans) == len(spans.starts)


@given(SETS, st.lists(st.tuples(TIME, TIME).map(sorted), max_size=8))
def test_length_within(spans, windows):
    starts, ends = [start for start, _ in windows], [end for _, end in windows]
    expected = [len(cells(spans) & set(range(start, end))) for start, end in windows]
    assert intervals.length_within(spans, starts, ends).tolist() == expected


@given(SETS, SETS)
def test_intersect(one, other):
    assert cells(in_one_form(intervals.intersect(one, other))) == cells(one) & cells(other)


@given(SETS, SETS)
def test_subtract(one, other):
    assert cells(in_one_form(intervals.subtract(one, other))) == cells(one) - cells(other)


@given(SETS, TIME, TIME)
def test_gaps(spans, start, end):
    assert cells(in_one_form(intervals.gaps(spans, start, end))) == set(range(start, end)) - cells(spans)


@given(st.dictionaries(st.sampled_from("abcd"), SETS), SETS)
def test_shares(sets, within):
    shares = intervals.shares(sets, within)
    assert list(shares) == sorted(sets)
    assert sum(shares.values()) == len(set().union(*map(cells, sets.values())) & cells(within))
    for name, share in shares.items():
        assert _alone(name, sets, within) <= share <= len(cells(sets[name]) & cells(within))


def _alone(name, sets, within):
    """How many cells only this set covers."""
    others = set().union(*(cells(spans) for other, spans in sets.items() if other != name))
    return len((cells(sets[name]) & cells(within)) - others)


def test_an_instant_that_several_cover_is_shared_equally_and_what_is_odd_goes_to_the_first_names():
    one, two, three = union([(0, 20)]), union([(0, 20)]), union([(0, 10)])
    # [0, 10): 4 + 3 + 3, [10, 20): 5 + 5
    assert intervals.shares({"b": two, "a": one, "c": three}, union([(0, 20)])) == {"a": 9, "b": 8, "c": 3}


@given(st.integers(1, 12), st.integers(1, 5))
def test_equal_shares_differ_by_one_nanosecond_at_most(length, sharers):
    shares = intervals.shares({str(name): union([(0, length)]) for name in range(sharers)}, union([(0, length)]))
    assert sum(shares.values()) == length
    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    assert max(shares.values()) - min(shares.values()) <= 1


@given(SETS, SETS)
def test_times_of_today_are_exact(one, other):
    def moved(spans):
        return Spans(spans.starts + FAR, spans.ends + FAR)

    assert cells(intervals.subtract(moved(one), moved(other))) == {cell + FAR for cell in cells(one) - cells(other)}
    assert cells(intervals.intersect(moved(one), moved(other))) == {cell + FAR for cell in cells(one) & cells(other)}
    within = intervals.length_within(moved(one), moved(other).starts, moved(other).ends)
    assert within.sum() == len(cells(one) & cells(other))


def test_nothing_is_changed_in_place():
    starts, ends = np.array([5, 0, 2]), np.array([9, 3, 4])
    one, other = intervals.union(starts, ends), union([(1, 6)])
    kept = [array.copy() for array in (starts, ends, one.starts, one.ends, other.starts, other.ends)]
    intervals.intersect(one, other), intervals.subtract(one, other), intervals.gaps(one, 0, 9)
    intervals.merge([one, other]), intervals.shares({"a": one}, other), intervals.length_within(one, starts, ends)
    now = (starts, ends, one.starts, one.ends, other.starts, other.ends)
    assert all((before == after).all() for before, after in zip(kept, now, strict=True))


def test_the_empty_set():
    assert intervals.merge([]) is EMPTY
    assert intervals.length(EMPTY) == len(EMPTY) == 0
    assert intervals.shares({}, union([(0, 5)])) == {}
    assert intervals.shares({"a": EMPTY}, union([(0, 5)])) == {"a": 0}
    assert intervals.length_within(EMPTY, [], []).tolist() == []
