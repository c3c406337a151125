"""The merged trace beside the rules of its format, and that these rules refuse what breaks them."""

import gzip
import json

import pytest

from tests import hostile
from tests.conftest import DATA
from tests.export.trace_format import faults, strictly
from tests.read.tiny import MAIN, NCCL, kernel, launch, op, span, step, write
from tracekit import Analysis, load
from tracekit.export.perfetto import write_perfetto
from tracekit.simulate import simulate
from tracekit.simulate.job import job_of

THREE_AXES = {
    "model": {"preset": "gpt2-small", "layers": 4},
    "layout": {"axes": "dp 3 x tp 2 x pp 2", "microbatches": 4},
    "steps": 2,
}


def merged(folder, file):
    write_perfetto(Analysis(load(folder, cache=False)), file)
    text = file.read_bytes()
    return strictly(gzip.decompress(text) if file.name.endswith(".gz") else text)


@pytest.mark.parametrize("name", ["ddp", "pipeline"])
def test_own_traces(name, tmp_path):
    assert faults(merged(DATA / name, tmp_path / "merged.json")) == []


def test_a_job_of_three_axes(tmp_path):
    simulate(job_of(THREE_AXES), tmp_path / "ranks")
    trace = merged(tmp_path / "ranks", tmp_path / "merged.json.gz")
    assert faults(trace) == []
    assert {event["pid"] for event in trace["traceEvents"] if event["ph"] == "X"} == set(range(2, 14))
    assert {event["ph"] for event in trace["traceEvents"]} == set("MXCbestf")


def test_hostile_names(tmp_path):
    names = (
        *hostile.NAMES,
        "",
        '"',
        "\\",
        "\\u0000",
        "\x00\x1f\x7f",
        "\u2028",
        "\U0001f600",
        "NaN",
        "]}",
        "\ud800",
        "a\nb",
    )
    spans = [step(0, 0, 900)]
    for nth, name in enumerate(names):
        at = 10 + 20 * nth
        spans += [
            launch(nth + 1, at, name=name), op(at + 2, at + 4, name=name), span(name, at + 4, at + 5, name, MAIN),
            kernel(at + 2, at + 9, name=name, stream=7, correlation=nth + 1),
            kernel(at + 9, at + 12, NCCL, name, **{"Collective name": name, "Process Group Name": name, "Seq": nth}),
            span(name, at, at + 1, "python_function", (name, name)),
        ]  # fmt: skip
    for rank in (0, 1):
        write(tmp_path / "ranks", spans, f"rank{rank}.json", distributedInfo={"rank": rank, "world_size": 2})
    assert faults(merged(tmp_path / "ranks", tmp_path / "merged.json")) == []


def test_several_windows_of_a_rank(tmp_path):
    """In the second window the same thread numbers are other lanes."""
    for window, lanes in enumerate(((7, 9), ("9", 7, 8))):
        at = 1000 * window
        work = [kernel(at + 10 * n, at + 10 * n + 5 + 8 * (n % 2), stream=lane) for n, lane in enumerate(lanes, 1)]
        write(tmp_path / "ranks", [step(4 * window, at, at + 90), *work], f"rank0_step{window}.json")
    run = load(tmp_path / "ranks", cache=False)
    assert run.ranks["window"].tolist() == [0, 1]
    assert faults(merged(tmp_path / "ranks", tmp_path / "merged.json")) == []
    same = ["rank", "step", "step_ns", "compute_ns", "idle_ns"]
    again = load(tmp_path / "merged.json", cache=False)
    assert Analysis(again)["breakdown"][same].equals(Analysis(run)["breakdown"][same])


# That the rules refuse what breaks them


def sliced(start, end, **more):
    return {"ph": "X", "name": "a", "cat": "kernel", "pid": 2, "tid": 7, "ts": start, "dur": end - start, **more}


def told(what, tid=None, **args):
    return {"ph": "M", "name": what, "pid": 2, "args": args} | ({} if tid is None else {"tid": tid})


def flow(phase, ts, number=1, **more):
    binding = {"bp": "e"} if phase == "f" else {}
    return {"ph": phase, "name": "call", "cat": "call", "id": number, "pid": 2, "tid": 7, "ts": ts, **binding, **more}


def half(phase, ts, **more):
    return {"ph": phase, "name": "a", "pid": 2, "tid": 7, "ts": ts, **more}


def counter(ts, **args):
    return {"ph": "C", "name": "waiting", "pid": 2, "ts": ts, "args": args}


NAMES = [told("process_name", name="rank 0"), told("thread_name", 7, name="stream 7")]
SLICES = [sliced(0, 10), sliced(2, 5), sliced(5, 10), sliced(12, 12.5)]
GOOD = [
    *NAMES, *SLICES, told("process_sort_index", sort_index=0), flow("s", 0), flow("t", 2), flow("f", 9.5),
    counter(0, waiting=1), counter(4, waiting=0), half("B", 20), half("B", 21), half("E", 22), half("E", 23),
    half("b", 1, cat="path", id="0x1"), half("e", 3, cat="path", id="0x1"),
]  # fmt: skip


def found(events, **more):
    return faults(strictly(json.dumps({"traceEvents": events, **more}).encode()))


def test_a_good_trace():
    assert found(GOOD, displayTimeUnit="ms", baseTimeNanoseconds=1_790_857_026_000_000_000, anything=[]) == []


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (sliced(-1, 3), "minimum"), (sliced(3, 2), "minimum"), (sliced(0, 1, ts="0"), "not of type 'number'"),
        (sliced(0, 1, name=None), "not of type 'string'"), (sliced(0, 1, pid=0), "minimum"),
        (sliced(0, 1, tid="7"), "not of type 'integer'"), (sliced(0, 1, args=[]), "not of type 'object'"),
        (sliced(0, 1, ph="Z"), "False schema"), ({"name": "a"}, "False schema"),
        ({**half("X", 0), "dur": 1}, "'cat' is a required"),
        (sliced(9, 11), "crosses another"), (sliced(0, 1, tid=8), "no name of process 2, thread 8"),
        (told("process_name", name="again"), "told twice"), (told("thread_name", name="none"), "'tid' is a required"),
        (told("process_labels"), "'labels' is a required"),
        (told("process_labels", labels=7), "not of type"), (told("thread_color", 7, name="red"), "False"),
        (told("process_name", 7, name="rank 0"), "False schema"),
        (flow("s", 0, 2), "not begun, led on and ended"), (flow("f", 1, 2), "not begun, led on and ended"),
        (flow("f", 9), "not begun, led on and ended"),
        (flow("t", 2, tid=8), "in no slice"), (flow("t", 3, bp="x"), "'e' was expected"),
        (half("B", 30), "never ends"), (half("E", 30), "ends nothing"), (half("b", 5, cat="path", id=3), "never ends"),
        (half("e", 5, cat="path", id=3), "ends nothing"), (half("b", 5, id=3), "required"),
        (counter(5, waiting="1"), "not of type 'number'"), (counter(5, waiting=True), "not of type 'number'"),
        (counter(5), "should be non-empty"), (counter(5, waiting=-1), "cannot be"),
        (counter(3, waiting=1), "cannot be"),
    ],
)  # fmt: skip
def test_one_wrong_event(wrong, fault):
    [told] = found([*GOOD, wrong])
    assert fault in told


def test_two_wrong_events():
    assert "in no slice" in found([*GOOD, flow("s", 11, 2), flow("f", 12, 2)])[0]
    assert "ends another" in found([*GOOD, half("B", 30), half("E", 31, name="b")])[0]


@pytest.mark.parametrize(
    "text",
    [
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b'{"a": 1, "a": 2}',
        b'{"a": "\xff"}',
        b'{"a": "\\ud800"}',
        b"[1,]",
        b"\xef\xbb\xbf{}",
    ],
)
def test_text_that_is_no_strict_json(text):
    with pytest.raises(ValueError, match=r"."):
        strictly(text)


@pytest.mark.parametrize("trace", [[], {}, {"traceEvents": {}}, {"traceEvents": [1]}])
def test_what_is_no_trace(trace):
    assert faults(trace)


def test_a_unit_that_is_none():
    assert found(GOOD, displayTimeUnit="us")
