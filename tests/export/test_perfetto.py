import gc
import gzip
import json
import weakref
from dataclasses import dataclass, field, replace
from decimal import Decimal

import pytest

from tests import lanes
from tests.export.trace_format import arrows, faults, strictly
from tests.pipelines import pipeline
from tests.read.tiny import kernel, step, write
from tests.replay.drawn import TWO_RANKS
from tracekit import Analysis, load
from tracekit.errors import WrongUse
from tracekit.export.perfetto import write_perfetto

JOB = """
    step    000000000000111111
    0/main  a..b..............
    0/7     .CC....CCCC...CCC.  by=abb
    0/20    ...NNNN...........  by=b seq=1 bytes=8
    0/9     .....MM...........  bytes=4000
    1/main  a..b..............
    1/7     .CCCC..CC.....CCC.  by=abb
    1/20    .....NN...........  by=b seq=1 bytes=8
"""


@pytest.fixture
def written(tmp_path):
    """The file that a run makes, as JSON with exact decimals."""

    def write(run):
        write_perfetto(Analysis(run), tmp_path / "merged.json")
        return strictly((tmp_path / "merged.json").read_bytes())

    return write


@pytest.fixture
def job(tmp_path):
    (tmp_path / "ranks").mkdir()
    lanes.kineto(JOB, tmp_path / "ranks")
    return load(tmp_path / "ranks", cache=False)


def events(trace, phase):
    return [event for event in trace["traceEvents"] if event["ph"] == phase]


def names(trace, what, key="name"):
    return {event["pid"]: event["args"][key] for event in events(trace, "M") if event["name"] == what}


def same(run, again):
    """Steps, work of each kind and its length agree; so do calls."""
    columns = ["rank", "step", "start_ns", "end_ns"]
    assert again.steps[columns].values.tolist() == run.steps[columns].values.tolist()
    assert Analysis(again)["breakdown"].equals(Analysis(run)["breakdown"])
    told = ["rank", "step", "group", "op", "seq", "bytes", "start_ns", "end_ns", "peer"]
    assert again.calls[told].astype(str).values.tolist() == run.calls[told].astype(str).values.tolist()
    for rank in run.ranks["rank"]:
        assert len(again.rank(rank).work) == len(run.rank(rank).work)
        assert (
            again.rank(rank).host["kind"].value_counts().to_dict()
            == run.rank(rank).host["kind"].value_counts().to_dict()
        )


def test_it_keeps_to_the_format(written, job):
    assert faults(written(job)) == []


def test_tracekit_reads_the_same_run_back(written, job, tmp_path):
    written(job)
    again = load(tmp_path / "merged.json", cache=False)
    assert again.ranks["rank"].tolist() == [0, 1]
    same(job, again)


def test_each_rank_is_a_process_in_the_order_of_the_layout(written, tmp_path):
    drawing = "\n".join(
        f"{rank}:{stage} {'0...aa' if stage == 0 else '.0aa..'}" for rank, stage in enumerate((1, 0, 1, 0))
    )
    trace = written(pipeline(drawing, tmp_path))
    assert names(trace, "process_name") == {
        1: "job", 2: "rank 0 (pp 1)", 3: "rank 1 (pp 0)", 4: "rank 2 (pp 1)", 5: "rank 3 (pp 0)",
    }  # fmt: skip
    order = names(trace, "process_sort_index", "sort_index")
    assert sorted(order, key=order.get) == [1, 3, 5, 2, 4]


def test_lanes_are_threads_with_names(written, job):
    told = {(one["pid"], one["args"]["name"]) for one in events(written(job), "M") if one["name"] == "thread_name"}
    assert told >= {(2, "device 0 stream 7"), (2, "device 0 stream 20"), (3, "device 0 stream 7"), (2, "thread 1")}


def test_an_arrow_joins_the_members_of_a_call(written, job):
    [ends] = arrows(written(job)["traceEvents"]).values()
    first, last = ends
    assert (first["ph"], first["pid"], last["ph"], last["pid"]) == ("s", 2, "f", 3)
    assert last["ts"] - first["ts"] == pytest.approx(2, abs=0.01)


def test_an_arrow_goes_from_sender_to_receiver_who_waits_for_it(written, tmp_path):
    [ends] = arrows(written(pipeline("0>1 ...ss\n1<0 .rrrr", tmp_path))["traceEvents"]).values()
    assert [(end["ph"], end["pid"]) for end in ends] == [("s", 2), ("f", 3)]
    assert ends[1]["ts"] - ends[0]["ts"] == Decimal("0.001")


def test_counters_tell_who_waits(written, job):
    trace = written(job)
    base = min(one["ts"] for one in events(trace, "X"))
    told = {
        name: [
            (one["pid"], round(one["ts"] - base), one["args"]["waiting"])
            for one in events(trace, "C")
            if one["name"] == name
        ]
        for name in ("calls waiting", "ranks waiting for another")
    }
    assert told == {"calls waiting": [(2, 3, 1), (2, 5, 0)], "ranks waiting for another": [(1, 3, 1), (1, 5, 0)]}


def test_a_call_tells_its_wait(written, job):
    [early, late] = [one["args"] for one in events(written(job), "X") if "match" in one["args"]]
    assert (early["wait_ns"], early["transfer_ns"]) == (2000, 2000)
    assert (late["wait_ns"], late["transfer_ns"]) == (0, 2000)


def test_spans_that_cross_stand_on_threads_of_their_own(written, tmp_path):
    (tmp_path / "ranks").mkdir()
    spans = [step(0, 0, 100), kernel(10, 40), kernel(20, 30), kernel(30, 60), kernel(35, 70), kernel(60, 70)]
    write(tmp_path / "ranks", spans, "rank0.json")
    trace = written(load(tmp_path / "ranks", cache=False))
    assert faults(trace) == []
    threads = {one["tid"]: one["args"]["name"] for one in events(trace, "M") if one["name"] == "thread_name"}
    first = min(one["ts"] for one in events(trace, "X") if one["cat"] == "kernel") - 10
    told = [
        (threads[one["tid"]], round(one["ts"] - first), one["dur"])
        for one in events(trace, "X") if one["cat"] == "kernel"
    ]  # fmt: skip
    assert told == [
        ("device 0 stream 7", 10, 30), ("device 0 stream 7", 20, 10), ("device 0 stream 7 (2)", 30, 30),
        ("device 0 stream 7 (3)", 35, 35), ("device 0 stream 7", 60, 10),
    ]  # fmt: skip


def test_an_arrow_against_the_order_of_ranks_begins_before_it_ends(written, tmp_path):
    [ends] = arrows(written(pipeline("0<1 .rrrr\n1>0 ...ss", tmp_path))["traceEvents"]).values()
    assert [(end["ph"], end["pid"]) for end in ends] == [("s", 3), ("f", 2)]
    assert ends[0]["ts"] < ends[1]["ts"]


def test_packed(job, tmp_path):
    count = write_perfetto(Analysis(job), tmp_path / "merged.json.gz")
    trace = json.loads(gzip.decompress((tmp_path / "merged.json.gz").read_bytes()))
    assert len(trace["traceEvents"]) == count
    assert sorted(file.name for file in tmp_path.iterdir()) == ["merged.json.gz", "ranks"]


def test_nothing_is_left_where_it_fails(job, tmp_path):
    def fail(done, total, name):
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        write_perfetto(Analysis(job), tmp_path / "merged.json", progress=fail)
    assert [file.name for file in tmp_path.iterdir()] == ["ranks"]


def test_another_ending_is_refused(job, tmp_path):
    with pytest.raises(WrongUse, match=r"\.json or a \.json\.gz"):
        write_perfetto(Analysis(job), tmp_path / "merged.pftrace")


@dataclass(frozen=True)
class Watched:
    """A source that tells whose tables are held when one is opened."""

    rank: int
    source: object
    held: list = field(compare=False)
    seen: list = field(compare=False)

    def open(self, name):
        rows = self.source.open(name).copy()
        gc.collect()
        self.seen.append({rank for rank, table in self.held if table() is not None} | {self.rank})
        self.held.append((self.rank, weakref.ref(rows)))
        return rows


def test_no_more_than_one_ranks_tables_are_held(tmp_path):
    run, held, seen = lanes.run(JOB), [], []
    sources = {key: Watched(key[0], source, held, seen) for key, source in run.sources.items()}
    write_perfetto(Analysis(replace(run, sources=sources)), tmp_path / "merged.json")
    assert {0} in seen
    assert {1} in seen
    assert {0, 1} not in seen


@pytest.mark.parametrize("case", ["T4", "T5", "T8"])
def test_cases_are_read_back(written, cases, tmp_path, case):
    run = load(cases / case, cache=False)
    assert faults(written(run)) == []
    again = load(tmp_path / "merged.json", cache=False)
    assert again.steps[["rank", "start_ns", "end_ns"]].equals(run.steps[["rank", "start_ns", "end_ns"]])
    assert Analysis(again)["breakdown"].equals(Analysis(run)["breakdown"])


@pytest.mark.parametrize("name", ["production_st", "megatron_tp2"])
def test_real_traces_are_read_back(written, real_traces, tmp_path, name):
    run = load(real_traces / name, cache=False)
    trace = written(run)
    assert faults(trace) == []
    assert len(arrows(trace["traceEvents"])) == run.calls["match"].nunique()
    same(run, load(tmp_path / "merged.json", cache=False))


def test_the_critical_path_is_a_track_of_the_job(tmp_path):
    """Rank 1 is late: its launch takes 1 us to work, it computes until 9 us, and the transfer ends the step."""
    file = tmp_path / "merged.json"
    write_perfetto(Analysis(lanes.run(TWO_RANKS)), file)
    events = [event for event in json.loads(file.read_text())["traceEvents"] if event.get("cat") == "critical path"]
    assert [(event["ph"], event["name"]) for event in events] == [
        ("b", "rank 1: host"), ("e", "rank 1: host"),
        ("b", "rank 1: other compute"), ("e", "rank 1: other compute"),
        ("b", "rank 0: data all_reduce"), ("e", "rank 0: data all_reduce"),
    ]  # fmt: skip
    begin = events[0]["ts"]
    assert [event["ts"] - begin for event in events] == [0, 1, 1, 9, 9, 11]
