import math
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.read import tiny
from tracekit.model import NO_TIME
from tracekit.read.times import InexactTimes, nanoseconds

ABSOLUTE_US = 1711964646000520


def raw(text):
    return msgspec.Raw(text.encode())


@pytest.mark.parametrize(
    ("value", "ns"),
    [
        (0, 0),
        (7, 7000),
        (-7, -7000),
        (0.001, 1),
        (0.0004, 0),
        (-1.5, -1500),
        (4212936056568.424, 4212936056568424),
        (8796093022207.999, 8796093022207999),
        (ABSOLUTE_US, 1711964646000520000),
        ("12", 12000),
        (" 12.345 ", 12345),
        ("1711964646000520.123", 1711964646000520123),
        ("1e3", 1000000),
        (raw("1711964646000520.123"), 1711964646000520123),
        (raw('"1711964646000520.123"'), 1711964646000520123),
        (raw("1.5e1"), 15000),
        (2**61 // 1000, 2**61 // 1000 * 1000),
    ],
)
def test_microseconds_to_nanoseconds(value, ns):
    assert nanoseconds([value]).tolist() == [ns]
    assert nanoseconds([value, "1"]).tolist() == [ns, 1000]  # also beside values of another type


@pytest.mark.parametrize(
    "nothing",
    [None, "", "soon", "nan", "inf", "0x12", [], {}, True, 2**64, -(2**70), "1e30", raw("null"), raw("[1]"), raw('""')],
)
def test_what_is_no_time(nothing):
    assert nanoseconds([nothing, 3]).tolist() == [NO_TIME, 3000]


@pytest.mark.parametrize("nothing", [math.nan, math.inf, -math.inf])
def test_floats_that_are_no_time(nothing):
    assert nanoseconds([nothing, 3.5]).tolist() == [NO_TIME, 3500]
    assert nanoseconds([nothing, "3.5"]).tolist() == [NO_TIME, 3500]


def test_none_at_all():
    assert nanoseconds([]).tolist() == []


@pytest.mark.parametrize("others", [[], [1], ["1"], [None]])
def test_a_float_that_has_lost_its_nanoseconds_is_refused(others):
    with pytest.raises(InexactTimes):
        nanoseconds([1711964646000520.123, *others])


@given(st.lists(st.integers(0, 2**43 * 1000 - 1000)))
def test_any_time_below_the_limit_is_exact_as_a_float(times_ns):
    assert nanoseconds([ns / 1000 for ns in times_ns]).tolist() == times_ns


@given(st.lists(st.integers(-(2**61), 2**61)))
def test_any_time_is_exact_as_text(times_ns):
    texts = [format(Decimal(ns) / 1000, "f") for ns in times_ns]
    assert nanoseconds(texts).tolist() == times_ns
    assert nanoseconds([raw(text) for text in texts]).tolist() == times_ns


# The same through the reader of files: start and end of one kernel.


def written(ts, dur, before="", behind=""):
    event = f'{{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": {ts}, "dur": {dur}}}'
    [row] = tiny.raw(f'{{{before} "traceEvents": [{event}]{behind}}}').spans.itertuples()
    return row.start_ns, row.end_ns


BASE = 1711964646000000000


@pytest.mark.parametrize(
    ("ts", "dur", "start_ns", "end_ns"),
    [
        ("5", "2", 5000, 7000),
        ("5.001", "0.002", 5001, 5003),
        ('"5.001"', '"2"', 5001, 7001),
        ("5", "2.5", 5000, 7500),
        ("1711964646000520.123", "0.877", 1711964646000520123, 1711964646000521000),
        ("1711964646000520.123", "1", 1711964646000520123, 1711964646000521123),
        ('"1711964646000520.123"', "1", 1711964646000520123, 1711964646000521123),
        ("1711964646000520", "1.5", 1711964646000520000, 1711964646000521500),
        ("1711964646000520123e-3", "1", 1711964646000520123, 1711964646000521123),
    ],
)
def test_times_in_a_file(ts, dur, start_ns, end_ns):
    assert written(ts, dur) == (start_ns, end_ns)


@pytest.mark.parametrize("unit", ["ms", "ns", "s"])
def test_the_unit_of_display_changes_nothing(unit):
    assert written(5, 2, before=f'"displayTimeUnit": "{unit}",') == (5000, 7000)


@pytest.mark.parametrize("base", [str(BASE), f'"{BASE}"'])
def test_the_base_time_stands_before_or_behind_the_events(base):
    key = f'"baseTimeNanoseconds": {base}'
    assert written(5.5, 2, before=f"{key},") == (BASE + 5500, BASE + 7500)
    assert written(5.5, 2, behind=f", {key}") == (BASE + 5500, BASE + 7500)


@pytest.mark.parametrize("base", ["null", "0", '""', "[]", "1e40", "NaN"])
def test_a_base_time_that_is_none(base):
    assert written(5, 2, before=f'"baseTimeNanoseconds": {base},') == (5000, 7000)


def test_exact_and_short_times_may_stand_in_one_file():
    events = [tiny.kernel(1, 2), tiny.kernel(3, 4)]
    text = tiny.text(events).replace('"ts": 3', '"ts": 1711964646000520.123')
    assert tiny.raw(text).spans["start_ns"].tolist() == [1000, 1711964646000520123]


def test_absolute_times_of_allocations_are_exact():
    args = {"Bytes": 1, "Total Allocated": 2, "Total Reserved": 3, "Device Type": 1, "Device Id": 0}
    instant = {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 0, "args": args}
    text = tiny.text([instant]).replace('"ts": 0', '"ts": 1711964646000520.123')
    assert tiny.raw(text).allocations["time_ns"].tolist() == [1711964646000520123]


def test_absolute_times_of_begins_and_ends_are_exact():
    halves = [{"ph": ph, "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": ph} for ph in "BE"]
    text = (
        tiny.text(halves)
        .replace('"ts": "B"', '"ts": 1711964646000520.123')
        .replace('"ts": "E"', '"ts": 1711964646000520.125')
    )
    assert tiny.raw(text).spans[["start_ns", "end_ns"]].values.tolist() == [[1711964646000520123, 1711964646000520125]]
