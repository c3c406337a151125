import msgspec
import pytest

from tracekit.read.format import ARGS, EXACT, EXACT_SPAN, FAST, OTHER_EVENTS, Begin, Instant, Span


def test_events_are_told_apart_by_their_phase():
    events, strange = FAST.decode(b'[{"ph":"X","ts":1},{"ph":"B"},{"ph":"i"},{"ph":"s"},{"ph":"M"},{"no":"phase"}]')
    assert [type(event) for event in events[:3]] == [Span, Begin, Instant]
    assert [type(event) in OTHER_EVENTS for event in events] == [False, True, True, False, False]
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


@pytest.mark.parametrize("silent", [b"null", b"1", b'"x"', b"[1]", b"{}", b"true", b'{"other": 1}'])
def test_args_that_say_nothing(silent):
    told = ARGS.decode([msgspec.Raw(silent), msgspec.Raw(b'{"correlation": 5}')])
    assert [one.correlation for one in told] == [0, 5]


@pytest.mark.parametrize("broken", [b"{]", b"", b'{"correlation": 6', b'{"a": "\\q", "correlation": 6}', b"[" * 5000])
def test_broken_args_are_healed_or_say_nothing(broken):
    told = ARGS.decode([msgspec.Raw(b'{"correlation": 4}'), msgspec.Raw(broken), msgspec.Raw(b'{"correlation": 5}')])
    healed = 6 if b"\\q" in broken else 0
    assert [one.correlation for one in told] == [4, healed, 5]
