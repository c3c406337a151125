import gzip
import io
import itertools
import json

import msgspec
import pytest

from tracekit.errors import Unreadable
from tracekit.read import limits
from tracekit.read import text as reading
from tracekit.read.text import TraceText, mended

METADATA = {"schemaVersion": 1, "distributedInfo": {"rank": 3, "pg_config": [{"ranks": [0, 1]}]}, "note": "},{"}
STACK = [{"file": "a.py", "line": 1}, {"file": "b.py", "line": 2}]
ODD_NAMES = [
    '},{"ph"',
    '}, {"name": "x"}]',
    '"traceEvents": [',
    "]}",
    "\\",
    '\\"',
    "é\u2028\U0001f600",
    "a\nb\t",
    "",
    "}]}",
]
EVENTS = [
    {"ph": "X", "name": "plain", "ts": 1.5, "dur": 2, "args": {}},
    {"ph": "X", "name": "nested", "args": {"stack": STACK, "deep": {"er": [[{}, {}], [{"a": 1}, {"b": [{}]}]]}}},
    *({"name": name, "ph": "X", "args": {name: name, "list": [name, {"ph": name}]}} for name in ODD_NAMES),
    {"ph": "i", "name": "no args"},
    {"ph": "X", "name": "last", "args": {"list of objects": [{"ph": "X"}, {"ph": "X"}]}},
]


def read(content):
    """The events of a text and the reader that read them."""
    trace = TraceText(io.BytesIO(content if isinstance(content, bytes) else content.encode()), msgspec.json.decode)
    return [event for batch in trace.batches() for event in batch], trace


def one_per_line(events):
    head = json.dumps(METADATA)[:-1] + ', "traceEvents": [\n'
    return head + ",\n".join(map(json.dumps, events)) + "\n]}"


def commas_first(events):
    return '{"traceEvents" : [ ' + "\n , ".join(map(json.dumps, events)) + " ] , " + json.dumps(METADATA)[1:]


def as_kineto_writes(events):
    lines = (json.dumps(event)[1:-1].replace(', "args"', ',\n    "args"') for event in events)
    return (
        json.dumps(METADATA)[:-1]
        + ',\n  "traceEvents": [\n'
        + ",\n".join(f"  {{\n    {x}\n  }}" for x in lines)
        + "\n  ]\n}\n"
    )


LAYOUTS = {
    "minified": lambda events: json.dumps({**METADATA, "traceEvents": events}, separators=(",", ":")),
    "not ASCII": lambda events: json.dumps({**METADATA, "traceEvents": events}, ensure_ascii=False),
    "one huge line": lambda events: json.dumps({**METADATA, "traceEvents": events}),
    "pretty": lambda events: json.dumps({**METADATA, "traceEvents": events}, indent=4),
    "line breaks only": lambda events: json.dumps({**METADATA, "traceEvents": events}, indent=0),
    "tabs": lambda events: json.dumps({**METADATA, "traceEvents": events}, indent="\t"),
    "carriage returns": lambda events: json.dumps({**METADATA, "traceEvents": events}, indent=1).replace("\n", "\r\n"),
    "byte order mark": lambda events: "\ufeff" + json.dumps({**METADATA, "traceEvents": events}, indent=1),
    "one event per line": one_per_line,
    "commas first": commas_first,
    "as Kineto writes": as_kineto_writes,
    "metadata behind": lambda events: json.dumps({"traceEvents": events, **METADATA}),
    "metadata on both sides": lambda events: json.dumps({"a": 1, "traceEvents": events, **METADATA}, indent=2) + "\n",
    "bare list": lambda events: json.dumps(events),
    "bare pretty list": lambda events: "\n " + json.dumps(events, indent=2) + "\n",
    "bare list with a mark": lambda events: "\ufeff" + json.dumps(events, separators=(",", ":")),
}
EVERY_LAYOUT = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)


@EVERY_LAYOUT
def test_any_layout_gives_the_same_events(layout):
    events, trace = read(layout(EVENTS))
    assert events == EVENTS
    assert (trace.lost, trace.mended, trace.truncated) == ([], [], False)


@EVERY_LAYOUT
def test_any_layout_gives_its_metadata(layout):
    _, trace = read(layout(EVENTS))
    known = {key: value for key, value in trace.metadata.items() if key in METADATA}
    assert known == ({} if "bare" in {name: x for x, name in LAYOUTS.items()}[layout] else METADATA)


@EVERY_LAYOUT
def test_wherever_a_block_ends(layout, monkeypatch):
    content = layout(EVENTS)
    for size in [*range(1, 120), *range(120, len(content.encode()) + 2, 7)]:
        monkeypatch.setattr(reading, "BLOCK_BYTES", size)
        events, trace = read(content)
        assert events == EVENTS, size
        assert (trace.lost, trace.mended, trace.truncated) == ([], [], False), size


@pytest.mark.parametrize("layout", ["minified", "as Kineto writes", "bare list"])
def test_at_every_offset_of_a_small_file(layout, monkeypatch):
    few = [EVENTS[1], *EVENTS[2:5], EVENTS[-1]]
    content = LAYOUTS[layout](few)
    for size in range(1, len(content.encode()) + 2):
        monkeypatch.setattr(reading, "BLOCK_BYTES", size)
        assert read(content)[0] == few, size


def test_a_stream_that_gives_a_byte_at_a_time():
    class Dripping(io.BytesIO):
        def read(self, size=-1):
            return super().read(min(size, 1))

    trace = TraceText(Dripping(LAYOUTS["pretty"](EVENTS).encode()), msgspec.json.decode)
    assert [event for batch in trace.batches() for event in batch] == EVENTS


def test_a_large_text_comes_in_several_batches():
    many = [{"ph": "X", "name": f"event {n}", "args": {"n": n}} for n in range(20_000)]
    trace = TraceText(io.BytesIO(LAYOUTS["minified"](many).encode()), msgspec.json.decode)
    batches = list(trace.batches())
    assert len(batches) > 2
    assert [event for batch in batches for event in batch] == many


def test_metadata_may_hold_the_word_that_begins_the_events():
    metadata = {"nested": {"traceEvents": []}, "text": '"traceEvents": [', "traceEvents ": [1]}
    events, trace = read(json.dumps({**metadata, "traceEvents": EVENTS}))
    assert events == EVENTS
    assert {key: trace.metadata[key] for key in metadata} == metadata


def test_metadata_behind_the_events_may_be_longer_than_a_block(monkeypatch):
    monkeypatch.setattr(reading, "BLOCK_BYTES", 64)
    long = {"pg_config": [{"ranks": list(range(300))}] * 5, "distributedInfo": {"rank": 4}}
    events, trace = read(json.dumps({"traceEvents": EVENTS, **long}))
    assert events == EVENTS
    assert {key: trace.metadata[key] for key in long} == long


@pytest.mark.parametrize(
    "text", ["", " ", "{}", "[", '{"schema": 1}', "no json", "\x00\x01\x02", '{"traceEvents": {}}', '"traceEvents"']
)
def test_text_that_is_no_trace(text):
    if text == "[":
        assert read(text)[0] == []
        return
    with pytest.raises(Unreadable, match="no Kineto trace"):
        read(text)


# Broken text. Each illness makes broken text of an event's text; `{N}` in it is the event's number.

HEALTHY = (
    '{"ph": "X", "name": "event {N}", "pid": 0, "tid": 7, "ts": {N}, "dur": 1, "args": {"id": {N}, "x": [{"y": 1}]}}'
)
MENDED = {
    "unescaped backslash": HEALTHY.replace("event", r"C:\event"),
    "several backslashes": HEALTHY.replace("event", r"\C:\q\event"),
    "half an escape": HEALTHY.replace("event", r"\u12 event"),
    "half of a pair of escapes": HEALTHY.replace("event", r"ev\ud800ent"),
    "empty value": HEALTHY.replace('"dur": 1', '"dur": '),
    "empty last value": HEALTHY.replace('"x": [{"y": 1}]', '"x": '),
    "control byte": HEALTHY.replace("event", "ev\x01ent"),
    "null byte": HEALTHY.replace("event", "ev\x00ent"),
    "line break in a name": HEALTHY.replace("event", "ev\nent"),
    "tab in a name": HEALTHY.replace("event", "ev\tent"),
    "not UTF-8": HEALTHY.replace("event", "ev\udcff\udcfeent"),
    "half a character": HEALTHY.replace("event", "ev\udce2\udc82"),
    "not a number": HEALTHY.replace('"dur": 1', '"dur": NaN'),
    "infinite": HEALTHY.replace('"dur": 1', '"dur": -Infinity'),
    "Python's None": HEALTHY.replace('"dur": 1', '"dur": None'),
}
LOST = {
    "bare quotes": HEALTHY.replace("event", 'the "best" event'),
    "bare quotes and braces": HEALTHY.replace("event", '{"device": "cpu"}(12): event'),
    "bare quotes and brackets": HEALTHY.replace("event", '["a", "b"] event'),
    "one bare quote": HEALTHY.replace("event", 'ev"ent'),
    "quote at the end": HEALTHY.replace('"event {N}"', '"event {N}""'),
    "quote swallowed": HEALTHY.replace('"event {N}"', '"event {N}\\"'),
    "quote missing": HEALTHY.replace('"event {N}"', '"event {N}'),
    "brace missing": HEALTHY.removesuffix("}"),
    "brace too many": HEALTHY + "}",
    "bracket too many": HEALTHY + "]",
    "bracket in a number": HEALTHY.replace('"dur": 1', '"dur": 1]'),
    "colon missing": HEALTHY.replace('"dur":', '"dur"'),
    "comma missing": HEALTHY.replace('0, "tid"', '0 "tid"'),
    "cut in the middle": HEALTHY[: len(HEALTHY) // 2],
    "cut inside a name": HEALTHY[: HEALTHY.index("vent")],
    "garbage": "\x00\x01\udcff garbage",
}
ILL = {**MENDED, **LOST}
EVERY_ILLNESS = pytest.mark.parametrize("illness", ILL)
COUNT = 9


def healthy(number):
    return HEALTHY.replace("{N}", str(number))


def sick(illness, number):
    return ILL[illness].replace("{N}", str(number))


def trace_of(texts, separator=",\n"):
    """A trace of the events' texts, and where each of them begins."""
    head = '{"distributedInfo": {"rank": 5}, "traceEvents": [\n'
    content = (head + separator.join(texts) + '\n], "traceName": "x"}').encode("utf-8", "surrogateescape")
    sizes = [len((text + separator).encode("utf-8", "surrogateescape")) for text in texts]
    return content, list(itertools.accumulate([len(head), *sizes]))


def ids(events):
    return [event["args"]["id"] for event in events if isinstance(event, dict) and "id" in event.get("args", {})]


@EVERY_ILLNESS
@pytest.mark.parametrize("place", [0, 4, COUNT - 1], ids=["first", "middle", "last"])
@pytest.mark.parametrize("size", [40, 1 << 18])
def test_one_broken_event(illness, place, size, monkeypatch):
    monkeypatch.setattr(reading, "BLOCK_BYTES", size)
    content, begins = trace_of([sick(illness, n) if n == place else healthy(n) for n in range(COUNT)])
    events, trace = read(content)
    others = [n for n in range(COUNT) if n != place]
    assert [n for n in ids(events) if n != place] == others
    assert [event for event in events if event.get("args", {}).get("id") in others] == [
        json.loads(healthy(n)) for n in others
    ]
    told = trace.lost + trace.mended
    assert len(told) == 1
    assert begins[place] - 2 <= told[0] <= begins[place + 1]
    assert not trace.truncated
    assert trace.metadata["distributedInfo"] == {"rank": 5}


@pytest.mark.parametrize("illness", MENDED)
@pytest.mark.parametrize("place", [0, 4, COUNT - 1], ids=["first", "middle", "last"])
def test_known_illnesses_are_mended(illness, place):
    content, _ = trace_of([sick(illness, n) if n == place else healthy(n) for n in range(COUNT)])
    events, trace = read(content)
    assert ids(events) == list(range(COUNT))
    assert (len(trace.lost), len(trace.mended)) == (0, 1)


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(ILL, 2)))
def test_two_broken_events_far_apart(one, other):
    content, _ = trace_of([sick(one, 2) if n == 2 else sick(other, 6) if n == 6 else healthy(n) for n in range(COUNT)])
    events, trace = read(content)
    assert [n for n in ids(events) if n not in (2, 6)] == [0, 1, 3, 4, 5, 7, 8]
    assert len(trace.lost + trace.mended) == 2


@pytest.mark.parametrize(("one", "other"), list(itertools.product(ILL, repeat=2)))
def test_two_broken_events_side_by_side(one, other):
    content, _ = trace_of([sick(one, 4) if n == 4 else sick(other, 5) if n == 5 else healthy(n) for n in range(COUNT)])
    events, trace = read(content)
    assert [n for n in ids(events) if n not in (4, 5)] == [0, 1, 2, 3, 6, 7, 8]
    assert len(trace.lost + trace.mended) in (1, 2)


@EVERY_ILLNESS
def test_all_events_are_broken(illness):
    content, _ = trace_of([sick(illness, n) for n in range(50)])
    events, trace = read(content)
    assert len(ids(events)) == (50 if illness in (*MENDED, "brace too many", "bracket too many") else 0)
    assert len(trace.lost + trace.mended) == (1 if illness == "garbage" else 50)


@pytest.mark.parametrize("layout", ["one event per line", "minified", "pretty", "metadata behind", "bare list"])
@pytest.mark.parametrize("wrong", [b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\x00", b"\xff", b"x", b"1", b""])
def test_any_one_wrong_byte_loses_one_event_at_most(layout, wrong):
    if (layout, wrong) == ("bare list", b"["):
        return  # the list's own end then closes the list that the bracket opens: an event that is a list
    events = [json.loads(healthy(n)) for n in range(5)]
    content = LAYOUTS[layout](events).encode()
    some = 1 if layout == "one event per line" else 5
    for at in range(content.index(b'"ph"') - 1, content.rindex(b"}", 0, content.rindex(b"]")), some):
        got, _ = read(content[:at] + wrong + content[at + 1 :])
        same = [event for event in got if event in events]
        assert len(same) >= 4, (at, content[max(at - 20, 0) : at + 20])
        assert len(got) <= 6


@EVERY_ILLNESS
def test_every_third_event_is_broken(illness):
    content, _ = trace_of([sick(illness, n) if n % 3 == 1 else healthy(n) for n in range(60)])
    events, trace = read(content)
    assert [n for n in ids(events) if n % 3 != 1] == [n for n in range(60) if n % 3 != 1]
    assert len(trace.lost + trace.mended) == 20


@EVERY_ILLNESS
@pytest.mark.parametrize("separator", [",", ",\r\n", "\n, "])
def test_a_broken_event_in_another_layout(illness, separator):
    content, _ = trace_of([sick(illness, n) if n == 4 else healthy(n) for n in range(COUNT)], separator)
    events, trace = read(content)
    assert [n for n in ids(events) if n != 4] == [0, 1, 2, 3, 5, 6, 7, 8]
    assert len(trace.lost + trace.mended) == 1


@pytest.mark.parametrize("illness", ["bare quotes and braces", "unescaped backslash", "brace missing"])
def test_a_broken_event_in_a_pretty_file(illness):
    lines = {n: json.dumps(json.loads(healthy(n)), indent=1) for n in range(COUNT)}
    broken = {
        "bare quotes and braces": lines[4].replace("event", '{"device": "cpu"} event'),
        "unescaped backslash": lines[4].replace("event", r"C:\event"),
        "brace missing": lines[4].removesuffix("}"),
    }[illness]
    content, _ = trace_of([broken if n == 4 else lines[n] for n in range(COUNT)])
    events, trace = read(content)
    assert [n for n in ids(events) if n != 4] == [0, 1, 2, 3, 5, 6, 7, 8]
    assert len(trace.lost + trace.mended) == 1


@pytest.mark.parametrize("separator", ["\n", ",,", ", ,\n", "", ","])
def test_commas_between_events(separator):
    content, _ = trace_of([healthy(0), healthy(1)])
    content = content.replace(b"},\n{", b"}" + separator.encode() + b"{")
    assert ids(read(content)[0]) == [0, 1]


@pytest.mark.parametrize("size", [40, 1 << 18])
def test_cut_at_every_byte(size, monkeypatch):
    monkeypatch.setattr(reading, "BLOCK_BYTES", size)
    content, begins = trace_of([healthy(n) for n in range(5)])
    close = content.rindex(b"]")
    for cut in range(begins[0], close + 1):
        whole = sum(1 for n in range(5) if begins[n] + len(healthy(n)) <= cut)
        events, trace = read(content[:cut])
        assert ids(events) == list(range(whole)), cut
        assert trace.truncated, cut
        assert trace.metadata["distributedInfo"] == {"rank": 5}, cut


def test_a_comma_behind_the_last_event():
    for text in (healthy(0) + ",]", healthy(0) + " ,\n ] ", healthy(0) + ",", healthy(0) + ",\n"):
        assert ids(read("[" + text)[0]) == [0]
    events, trace = read('{"traceEvents": [' + healthy(0) + ',\n], "distributedInfo": {"rank": 5}}')
    assert (ids(events), trace.metadata["distributedInfo"], trace.truncated) == ([0], {"rank": 5}, False)


def test_cut_behind_the_events_is_no_loss_of_events():
    content, _ = trace_of([healthy(n) for n in range(5)])
    for cut in range(content.rindex(b"]") + 1, len(content) + 1):
        events, trace = read(content[:cut])
        assert ids(events) == [0, 1, 2, 3, 4]
        assert trace.lost == []


def test_cut_and_broken():
    content, begins = trace_of([sick("bare quotes and braces", n) if n == 1 else healthy(n) for n in range(5)])
    events, trace = read(content[: begins[3] + 30])
    assert ids(events) == [0, 2]
    assert trace.truncated


def test_broken_metadata_before_the_events_still_tells_the_rank():
    content = '{"bad": "a"b", "distributedInfo": {"rank": 5}, "traceEvents": [' + healthy(0) + "]}"
    events, trace = read(content)
    assert ids(events) == [0]
    assert trace.metadata["distributedInfo"] == {"rank": 5}


def test_broken_metadata_behind_the_events_still_tells_the_rank():
    content = (
        '{"traceEvents": [' + healthy(0) + '], "bad": "a"b", "distributedInfo": {"rank": 5}, "baseTimeNanoseconds": 7}'
    )
    events, trace = read(content)
    assert ids(events) == [0]
    assert trace.metadata["distributedInfo"] == {"rank": 5}
    assert trace.metadata["baseTimeNanoseconds"] == 7


@pytest.mark.parametrize("broken", ["", '"bad": "a"b", '])
def test_metadata_is_text_that_can_be_written(broken):
    """Half of a pair of escapes is no character; a name with it is kept beside the parsed ranks."""
    _, trace = read("{" + broken + r'"host_name": "\ud800x", "traceEvents": [' + healthy(0) + "]}")
    assert trace.metadata["host_name"] == "\ufffdx"


def test_a_stream_that_fails_half_way_is_a_cut():
    content, _ = trace_of([healthy(n) for n in range(5000)])
    packed = gzip.compress(content, 1)
    trace = TraceText(gzip.GzipFile(fileobj=io.BytesIO(packed[: len(packed) // 2])), msgspec.json.decode)
    got = ids([event for batch in trace.batches() for event in batch])
    assert got == list(range(len(got)))
    assert len(got) > 100
    assert trace.truncated


def test_a_stream_that_may_not_be_read_is_no_cut():
    class Forbidden(io.BytesIO):
        def read(self, size=-1):
            raise PermissionError

    with pytest.raises(PermissionError):
        list(TraceText(Forbidden(), msgspec.json.decode).batches())


def test_an_event_without_end_is_given_up(monkeypatch):
    monkeypatch.setattr(reading, "BLOCK_BYTES", 200)
    monkeypatch.setattr(limits, "EVENT_BYTES", 2000)
    endless = '{"ph": "X", "name": "' + "x" * 5000
    content, _ = trace_of([healthy(0), endless, healthy(2)])
    events, trace = read(content)
    assert ids(events)[0] == 0
    assert len(trace.lost) >= 1


def test_deep_nesting_is_no_crash():
    content, _ = trace_of([healthy(0), '{"args": ' + "[" * 100_000 + "]" * 100_000 + "}", healthy(2)])
    assert {0, 2} <= set(ids(read(content)[0]))


@pytest.mark.parametrize(
    ("ill", "well"),
    [
        (rb'{"a": "\d"}', {"a": "\\d"}),
        (rb'{"a": "\\d\n\u00e9"}', {"a": "\\d\né"}),
        (rb'{"a": "\u00g"}', {"a": "\\u00g"}),
        (rb'{"a": "\ud83d\ude00"}', {"a": "\U0001f600"}),
        (rb'{"a": "\uD800x\udc00\ud83d"}', {"a": "\ufffdx\ufffd\ufffd"}),
        (rb'{"a": "\\ud800"}', {"a": "\\ud800"}),
        (b'{"a": , "b": }', {"a": None, "b": None}),
        (b'{"a": NaN, "b": [-Infinity, 1]}', {"a": None, "b": [None, 1]}),
        (b'{"a": "\x00\x1f"}', {"a": "  "}),
        (b'{"a": "\xff"}', {"a": "\ufffd"}),
    ],
)
def test_mended(ill, well):
    assert json.loads(mended(ill)) == well
