import json

import pytest

from tests.read import tiny
from tracekit.errors import Unreadable
from tracekit.read import text as reading

KERNEL = tiny.kernel(5, 8, name="k", correlation=4)
BARE = json.dumps(KERNEL)[1:-1]


def half(ph, at, name="k", lane=(0, 7), **args):
    return {"ph": ph, "cat": "kernel", "name": name, "pid": lane[0], "tid": lane[1], "ts": at, "args": args}


def spans(*events, **metadata):
    """Name, start and end of each span in a trace, in order of start."""
    return sorted(tiny.rows(tiny.raw(tiny.text(list(events), **metadata)).spans, "name", "start_ns", "end_ns"), key=str)


def problems(*events):
    found = tiny.raw(tiny.text(list(events)))
    return {code: count for code, count in found.problems.items() if count}


def first(content):
    """The first span of a text."""
    return next(tiny.raw(content).spans.itertuples())


def test_a_span():
    row = first(tiny.text([KERNEL]))
    assert (row.category, row.name, row.lane) == ("kernel", "k", "0/7")
    assert (row.start_ns, row.end_ns, row.correlation) == (5000, 8000, 4)


def test_all_events_are_counted_whatever_they_are():
    phases = "XBEiIsftMCcNODPbne"
    events = [{"ph": phase, "name": "x", "pid": 1, "tid": 1, "ts": 1, "dur": 1} for phase in phases]
    assert tiny.raw(tiny.text(events)).events == len(phases)


def test_only_spans_are_spans():
    others = [
        {"ph": phase, "name": phase, "cat": "kernel", "pid": 0, "tid": 7, "ts": 1, "dur": 9} for phase in "iIsftMCbne"
    ]
    assert spans(KERNEL, *others) == [("k", 5, 8)]


@pytest.mark.parametrize(
    "strange", [None, 1, "text", [], [KERNEL], {}, {"ph": 5}, {"ph": None}, {"ph": "unheard of"}, {"name": "no phase"}]
)
def test_events_of_a_strange_form_are_counted_and_left_out(strange):
    assert spans(KERNEL, strange, {**KERNEL, "name": "l"}) == [("k", 5, 8), ("l", 5, 8)]
    assert problems(KERNEL, strange, KERNEL) == {"strange-event": 1}
    assert tiny.raw(tiny.text([KERNEL, strange])).events == 2


@pytest.mark.parametrize("args", [None, "text", 5, 1.5, True, [], [{"correlation": 4}], {}, {"correlation": None}])
def test_args_that_say_nothing(args):
    rows = tiny.raw(tiny.text([{**KERNEL, "args": args}, KERNEL])).spans
    assert rows["correlation"].tolist() == [0, 4]
    assert rows["end_ns"].tolist() == [8000, 8000]


@pytest.mark.parametrize("field", ["cat", "name", "pid", "tid", "args"])
def test_an_absent_field(field):
    event = {key: value for key, value in KERNEL.items() if key != field}
    assert tiny.raw(tiny.text([event])).spans[["start_ns", "end_ns"]].values.tolist() == [[5000, 8000]]


@pytest.mark.parametrize("field", ["cat", "name", "pid", "tid"])
@pytest.mark.parametrize("value", [None, 5, 2.5, True, ["x"], {"x": [1]}, ""])
def test_a_field_of_another_type_in_one_event(field, value):
    rows = tiny.raw(tiny.text([KERNEL, {**KERNEL, field: value}, KERNEL])).spans
    assert len(rows) == 3
    column = {"cat": "category", "name": "name", "pid": "lane", "tid": "lane"}[field]
    told = rows[column].tolist()
    assert told[0] == told[2] != told[1]


def test_a_stream_is_one_lane_whether_its_number_is_text_or_not():
    rows = tiny.raw(tiny.text([KERNEL, {**KERNEL, "pid": "0", "tid": "7"}])).spans
    assert rows["lane"].tolist() == ["0/7", "0/7"]


@pytest.mark.parametrize("correlation", [1, 2**31, 2**53 + 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("spelled", [json.dumps, '"{}"'.format])
def test_ids_are_exact(correlation, spelled):
    text = tiny.text([KERNEL]).replace('"correlation": 4', f'"correlation": {spelled(correlation)}')
    assert int(first(text).correlation) == correlation


def test_ids_of_text_join_what_has_the_same():
    events = [tiny.kernel(5, 8, correlation=name) for name in ("launch-000001", "launch-000002", "launch-000001")]
    one, other, same = tiny.raw(tiny.text(events)).spans["correlation"]
    assert one == same != other


def test_of_a_key_that_occurs_twice_the_last_counts():
    text = f'{{"traceEvents": [{{{BARE}, "name": "later", "ts": 6, "args": {{"correlation": 1, "correlation": 2}}}}]}}'
    row = first(text)
    assert (row.name, row.start_ns, row.correlation) == ("later", 6000, 2)


def test_the_phase_may_occur_twice_and_stand_anywhere():
    body = json.dumps({key: value for key, value in KERNEL.items() if key != "ph"})[1:-1]
    for text in (f'{{"ph": "X", {body}}}', f'{{{body}, "ph": "X"}}', f'{{"ph": "X", {body}, "ph": "X"}}'):
        assert first(f"[{text}]").end_ns == 8000


def test_unknown_keys_and_nested_arguments_are_passed_over():
    events = [
        {**KERNEL, "args": {"stack": [{"a": [{}]}], "correlation": 4, "x": {"correlation": 5}}, "sf": 7, "id": "0x1"}
    ]
    assert first(tiny.text(events)).correlation == 4


# Begins and ends


def test_a_begin_and_its_end_are_a_span():
    assert spans(half("B", 5), half("E", 8)) == [("k", 5, 8)]
    row = first(tiny.text([half("B", 5, correlation=9), half("E", 8)]))
    assert (row.category, row.lane, row.correlation) == ("kernel", "0/7", 9)


def test_begins_and_ends_nest():
    events = [half("B", 1, "outer"), half("B", 2, "inner"), half("E", 4, "inner"), half("E", 9, "outer")]
    assert spans(*events) == [("inner", 2, 4), ("outer", 1, 9)]


def test_begins_and_ends_side_by_side():
    events = [half("B", 1, "one"), half("E", 4, "one"), half("B", 4, "two"), half("E", 9, "two")]
    assert spans(*events) == [("one", 1, 4), ("two", 4, 9)]


def test_a_begin_and_its_end_at_the_same_time():
    events = [half("B", 1, "outer"), half("B", 4, "empty"), half("E", 4, "empty"), half("E", 9, "outer")]
    assert spans(*events) == [("empty", 4, 4), ("outer", 1, 9)]


def test_begins_and_ends_of_other_lanes_do_not_mix():
    events = [half("B", 1, "one"), half("B", 2, "two", (0, 8)), half("E", 4, "one"), half("E", 9, "two", (0, 8))]
    assert spans(*events) == [("one", 1, 4), ("two", 2, 9)]


def test_an_end_need_not_repeat_the_name_and_may_spell_its_lane_as_text():
    assert spans(half("B", 5), {"ph": "E", "pid": "0", "tid": "7", "ts": 8}) == [("k", 5, 8)]


def test_begins_and_ends_need_not_be_in_order():
    assert spans(half("E", 8), half("B", 5), KERNEL) == [("k", 5, 8), ("k", 5, 8)]


@pytest.mark.parametrize("alone", [[half("B", 5)], [half("E", 5)], [half("E", 5), half("B", 7)]])
def test_halves_without_the_other_are_counted(alone):
    assert spans(KERNEL, *alone) == [("k", 5, 8)]
    assert problems(KERNEL, *alone) == {"half-span": len(alone)}


@pytest.mark.parametrize("time", [None, "soon", 1e30, -1e30])
def test_halves_without_a_time_make_no_span(time):
    for pair in ([half("B", time), half("E", 8)], [half("B", 8), half("E", time)]):
        assert spans(KERNEL, *pair) == [("k", 5, 8)]
        assert sum(problems(KERNEL, *pair).values()) >= 1


# Times that cannot be


@pytest.mark.parametrize(
    ("ts", "dur"),
    [
        (0, 0), ("0", "0"), (0.0, 0.0), (5, -1), (5, None), (5, "soon"), (None, 5), ("", 5), (5, 1e30), (1e30, 5),
        (-0.0, 0), (5, [1]), ({}, 1), (2**70, 1), (5, 2**70),
    ],
)  # fmt: skip
def test_times_that_cannot_be_are_counted_and_left_out(ts, dur):
    event = {**KERNEL, "ts": ts, "dur": dur}
    for base_ns in (0, 1711964646000000000):
        found = tiny.raw(tiny.text([KERNEL, event], baseTimeNanoseconds=base_ns))
        assert found.spans["end_ns"].tolist() == [base_ns + 8000]
        assert found.problems["impossible-time"] == 1


@pytest.mark.parametrize(("ts", "dur"), [(5, 0), (0, 5), (-5, 2), ("5", "0")])
def test_odd_times_that_can_be_stay(ts, dur):
    found = tiny.raw(tiny.text([{**KERNEL, "ts": ts, "dur": dur}]))
    assert found.spans[["start_ns", "end_ns"]].values.tolist() == [[int(ts) * 1000, (int(ts) + int(dur)) * 1000]]
    assert not found.problems["impossible-time"]


def test_a_missing_duration_is_not_nought():
    event = {key: value for key, value in KERNEL.items() if key != "dur"}
    assert problems(event) == {"impossible-time": 1}


# What some rows tell besides


def test_what_copies_tell():
    events = [
        tiny.span("Memcpy HtoD", 1, 2, "gpu_memcpy", bytes=4096, correlation=1),
        tiny.span("Memcpy", 2, 3, "Memcpy", size=8, direction="DtoH"),
        tiny.span("Memset", 3, 4, "gpu_memset", **{"bytes": "16"}),
        tiny.span("Memset", 4, 5, "gpu_memset"),
        tiny.kernel(5, 6, bytes=99),
    ]
    copies = tiny.raw(tiny.text(events)).copies
    assert copies.index.tolist() == [0, 1, 2, 3]
    assert copies["bytes"].tolist()[:3] == [4096, 8, 16]
    assert copies["bytes"].isna().tolist() == [False, False, False, True]
    assert copies["direction"].tolist()[1] == "DtoH"


@pytest.mark.parametrize("size", [-1, 2**53, 10**30, 0.5, "much"])
def test_a_copys_size_that_cannot_be_is_not_told(size):
    [told] = tiny.raw(tiny.text([tiny.span("Memcpy HtoD", 1, 2, "gpu_memcpy", bytes=size)])).copies["bytes"]
    assert told is None


@pytest.mark.parametrize(
    ("told", "shape"),
    [
        ({"grid": [132, 8, 1], "block": [256, 1, 1]}, "grid 132x8 block 256"),
        ({"grid": [1, 1, 1], "block": [32, 1, 2]}, "grid 1 block 32x1x2"),
        ({"grid": [7], "block": [1]}, "grid 7 block 1"),
        ({"grid": [132, 8, 1]}, None),
        ({"grid": "132", "block": [1]}, None),
        ({"grid": [-1, 1, 1], "block": [1, 1, 1]}, None),
        ({"grid": [[1]], "block": {"x": 1}}, None),
        ({"grid": None, "block": None}, None),
        ({}, None),
    ],
)
def test_the_shape_of_a_kernel(told, shape):
    events = [tiny.kernel(1, 2, **told), tiny.span("aten::mm", 1, 2, "cpu_op", grid=[9], block=[9])]
    for indent in (None, 1):
        shapes = tiny.raw(json.dumps({"traceEvents": events}, indent=indent).encode()).spans["shape"]
        assert [None if one != one else one for one in shapes.tolist()] == [shape, None]


def test_what_collectives_tell():
    told = {
        "Collective name": "allreduce", "In msg nelems": 6, "Out msg nelems": 7, "Group size": 8, "dtype": "Float",
        "Process Group Name": "1", "Process Group Description": "dp", "Process Group Ranks": "[0, 1]", "Seq": 9,
        "Src Rank": 2, "Dst Rank": 3, "Comms Id": 2**64 - 1,
    }  # fmt: skip
    events = [KERNEL, tiny.kernel(6, 7, **told), tiny.op(1, 2, "record_param_comms", **told), tiny.op(1, 2, **told)]
    rows = tiny.raw(tiny.text(events)).collectives
    assert rows.index.tolist() == [1, 2]
    fields = [
        *("collective", "elements_in", "elements_out", "group_size", "dtype", "group", "group_description"),
        *("group_ranks", "sequence", "source", "destination", "call_id"),
    ]
    assert rows[fields].values.tolist() == [list(told.values())] * 2


def allocation(at, **told):
    args = {"Device Type": 1, "Device Id": 0, "Bytes": 8, "Total Allocated": 16, "Total Reserved": 32, **told}
    return {
        "ph": "i",
        "s": "t",
        "cat": "cpu_instant_event",
        "name": "[memory]",
        "pid": 1,
        "tid": 1,
        "ts": at,
        "args": args,
    }


def test_allocations():
    rows = tiny.raw(
        tiny.text([allocation(4), allocation(2, Bytes=-8, **{"Device Type": 0})], baseTimeNanoseconds=7)
    ).allocations
    assert rows[["time_ns", "device", "bytes", "allocated_bytes", "reserved_bytes"]].values.tolist() == [
        [4007, "device 0", 8, 16, 32], [2007, "cpu", -8, 16, 32],
    ]  # fmt: skip


@pytest.mark.parametrize("told", [
    {"Bytes": None}, {"Total Allocated": "much"}, {"Total Reserved": 1.5}, {"Total Allocated": -1},
    {"Total Reserved": 2**53}, {"Bytes": -(2**60)},
])  # fmt: skip
def test_allocations_that_do_not_tell_their_sizes(told):
    assert tiny.raw(tiny.text([allocation(4), allocation(5, **told)])).allocations["time_ns"].tolist() == [4000]


def test_instants_that_are_no_allocations():
    other = {**allocation(3), "name": "Record Window End"}
    assert (
        len(tiny.raw(tiny.text([other, {**allocation(3), "args": None}, {**allocation(3), "ts": None}])).allocations)
        == 0
    )


def test_events_that_say_whose_they_are():
    events = [{**KERNEL, "args": {"rank": rank}} for rank in (3, "4", None, -1, [1])]
    assert tiny.raw(tiny.text(events)).spans["rank"].tolist() == [3, 4, -1, -1, -1]


# The whole file


@pytest.mark.parametrize("text", ["[]", '{"traceEvents": []}', '{"traceEvents": [ ]}'])
def test_a_trace_without_events(text):
    found = tiny.raw(text)
    assert (found.events, len(found.spans), len(found.collectives), len(found.allocations)) == (0, 0, 0, 0)


def test_a_text_that_is_no_trace():
    with pytest.raises(Unreadable):
        tiny.raw('{"schema": 1}')


@pytest.mark.parametrize(
    ("ill", "name"),
    [
        (rb'"name": "C:\k"', "C:\\k"),
        (b'"name": "k\x00"', "k "),
        (b'"name": "k\xff"', "k\ufffd"),
    ],
)
def test_a_broken_name_is_mended(ill, name):
    text = tiny.text([KERNEL]).encode().replace(b'"name": "k"', ill)
    found = tiny.raw(text)
    assert found.spans["name"].tolist() == [name]
    assert found.spans["correlation"].tolist() == [4]
    assert len(found.mended_at) == 1


@pytest.mark.parametrize(
    "ill", [rb'"a": "C:\k"', b'"a": "k\x00"', b'"a": "k\xff"', b'"a": ', b'"a": NaN', b'"a": "\xe2\x82"']
)
@pytest.mark.parametrize("where", [b"%s, %s", b"%s,%s"])
def test_broken_arguments_keep_what_else_they_say(ill, where):
    healthy = b'"correlation": 4'
    for told in (where % (ill, healthy), where % (healthy, ill)):
        found = tiny.raw(tiny.text([KERNEL, KERNEL]).encode().replace(healthy, told, 1))
        assert found.spans["correlation"].tolist() == [4, 4]
        assert found.spans["end_ns"].tolist() == [8000, 8000]
        assert found.lost_at == []


def test_the_tables_do_not_depend_on_where_blocks_end(monkeypatch):
    events = [tiny.kernel(n, n + 1, name=f"k{n % 3}", correlation=n, bytes=n) for n in range(1, 12)]
    events += [
        half("B", 20),
        half("E", 21),
        allocation(5),
        {"ph": "unheard of"},
        tiny.op(1, 2, "record_param_comms", **{"Collective name": "x"}),
    ]
    text = tiny.text(events)
    monkeypatch.setattr(reading, "BLOCK_BYTES", 1 << 20)
    want = tiny.raw(text)
    for size in [1, 2, 3, 5, 8, 13, 21, *range(34, len(text) + 2, 89)]:
        monkeypatch.setattr(reading, "BLOCK_BYTES", size)
        got = tiny.raw(text)
        for table in ("spans", "collectives", "copies", "allocations"):
            assert getattr(got, table).astype(str).equals(getattr(want, table).astype(str)), (table, size)
        assert (got.events, got.problems) == (want.events, want.problems)
