import json

import msgspec
import pytest

from tracekit.read.format import EXACT, EXACT_SPAN, FAST, OTHER_EVENTS, Args, Begin, Instant, Span


def test_events_are_told_apart_by_their_phase():
    events, strange = FAST.decode(b'[{"ph":"X","ts":1},{"ph":"B"},{"ph":"i"},{"ph":"s"},{"ph":"M"},{"no":"phase"}]')
    assert [type(event) for event in events[:3]] == [Span, Begin, Instant]
    assert [type(event) in OTHER_EVENTS for event in events] == [False, True, True, False, True]
    assert strange == 1


def test_exact_events_keep_their_times_as_text():
    [span], _ = EXACT.decode(b'[{"ph":"X","ts":1711964646000520.123,"dur":"7"}]')
    assert type(span) is EXACT_SPAN
    assert (bytes(span.ts), bytes(span.dur)) == (b"1711964646000520.123", b'"7"')
    [span], _ = EXACT.decode(b'[{"ph":"X"}]')
    assert bytes(span.ts) == b"null"


def test_text_that_is_no_list_of_events_is_refused():
    for text in (b"[{]", b"[", b'[{"ph":"X"}'):
        with pytest.raises(msgspec.DecodeError):
            FAST.decode(text)


@pytest.mark.parametrize("silent", ["null", "1", '"x"', "[1]", "true", "1.5"])
def test_args_of_any_type_are_read(silent):
    text = f'[{{"ph":"X","args":{silent}}},{{"ph":"i","args":{silent}}},{{"ph":"X","args":{{"correlation":5}}}}]'
    (odd, instant, span), strange = FAST.decode(text.encode())
    assert (type(odd.args), type(instant.args), strange) == (type(json.loads(silent)),) * 2 + (0,)
    assert span.args.correlation == 5


def test_args_that_say_nothing_of_interest():
    (bare, other), _ = FAST.decode(b'[{"ph":"X","args":{}},{"ph":"X","args":{"other":{"correlation":1}}}]')
    assert bare.args == other.args == Args()


def test_shapes_stay_text():
    [span], _ = FAST.decode(b'[{"ph":"X","args":{"Input Dims":[[2, 3],[]],"Input type":["float"]}}]')
    assert (bytes(span.args.dimensions), bytes(span.args.types)) == (b"[[2, 3],[]]", b'["float"]')
