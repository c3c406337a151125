"""HTA makes of a run what it makes of the run's files.

HTA 0.5's call stacks and critical path fail with pandas 3 on frames of its own reading; to have them from there, too,
these frames become `Frame`s like ours. `PATHS` is what HTA makes of the files themselves with pandas 2.3.3.

Not compared: the bandwidth of copies, which HTA takes from an argument of the events and tracekit from their length; on
traces of a CPU what HTA itself fails at or has nothing of (breakdowns, queues, launches, sequences, critical path).
"""

import gzip
import json
import logging
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest

pytest.importorskip("hta", reason="the extra `hta` is not installed")

from hta.trace_analysis import TraceAnalysis
from hta.trace_diff import TraceDiff

from tests import lanes
from tests.conftest import DATA
from tests.export.test_perfetto import Watched
from tests.read.tiny import kernel, step, write
from tests.test_clock_skew import job
from tracekit import Analysis, load
from tracekit.errors import TracekitError, WrongUse
from tracekit.export.hta import to_hta, write_hta
from tracekit.export.hta_trace import Frame
from tracekit.plan import hardware
from tracekit.plan.layout import Layout
from tracekit.plan.transformer import Transformer
from tracekit.simulate import Job, simulate

pytestmark = [
    pytest.mark.filterwarnings("ignore::Warning:hta"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]
MODEL = Transformer(layers=4, hidden=2048, heads=16, sequence=2048, vocabulary=32_000)
DRAWN = """
    step    000000111111222222
    0/main  a..b..c...........
    0/7     .CC...CC..CC......  by=abc
    0/20    ....NNN...........  by=a
    0/9     .......M..........  bytes=4000 by=c
"""


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level(logging.CRITICAL, "hta")


def read_by_hta(run, folder):
    """HTA's own reading of the files of the run's ranks."""
    files = {
        rank: str(folder / Path(file).name) for rank, file in zip(run.ranks["rank"], run.ranks["file"], strict=True)
    }
    theirs = TraceAnalysis(trace_files=files)
    theirs.t.traces = {rank: Frame(frame) for rank, frame in theirs.t.traces.items()}
    return theirs


def pair(folder):
    run = load(folder, cache=False)
    return to_hta(run), read_by_hta(run, folder)


@pytest.fixture(scope="module", params=["data", "pipeline"])
def simulated(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    split = Layout(data=2) if request.param == "data" else Layout(pipeline=2, microbatches=4)
    simulate(Job(MODEL, split, hardware.preset("h100-80gb", 2), steps=3), folder)
    return request.param, *pair(folder)


@pytest.fixture(scope="module", params=["resnet18_ddp2", "megatron_tp2", "dlrm_x4"])
def real(request, real_traces):
    return request.param, *pair(real_traces / request.param)


def same(ours, theirs, **how):
    pd.testing.assert_frame_equal(ours, theirs, check_dtype=False, check_like=True, **how)
    assert len(ours)


COMPARED = ("ts", "name", "cat", "pid", "tid", "dur", "stream", "correlation", "bytes", "iteration", "linked")


def frames(analysis):
    """Each rank's events in one order from the first one's start, with names instead of HTA's numbers of them."""
    for _, frame in sorted(analysis.t.traces.items()):
        told = frame.copy()
        analysis.t.symbol_table.decode_df(told, create_new_columns=False)
        linked = told["name"].reindex(told["index_correlation"]).to_numpy()
        told = told.assign(ts=told["ts"] - told["ts"].min(), linked=pd.Series(linked, told.index))
        told.loc[told["index_correlation"] <= 0, "linked"] = ""
        yield told[[*COMPARED]].sort_values([*COMPARED]).reset_index(drop=True)


def alike(ours, theirs, drop=()):
    assert sorted(ours.t.traces) == sorted(theirs.t.traces)
    for mine, other in zip(frames(ours), frames(theirs), strict=True):
        same(mine.drop(columns=[*drop]), other.drop(columns=[*drop]))


def breakdowns(ours, theirs):
    for ask in ("get_temporal_breakdown", "get_comm_comp_overlap"):
        same(getattr(ours, ask)(visualize=False), getattr(theirs, ask)(visualize=False))
    kernels = [one.get_gpu_kernel_breakdown(visualize=False) for one in (ours, theirs)]
    for mine, other in zip(*kernels, strict=True):
        same(*(rows.sort_values(rows.columns.tolist(), ignore_index=True) for rows in (mine, other)))


def launches(ours, theirs):
    for rank in ours.t.traces:
        told = [one.get_cuda_kernel_launch_stats(ranks=[rank], visualize=False)[rank] for one in (ours, theirs)]
        same(*(rows.sort_values("correlation", ignore_index=True) for rows in told))


def sequences(ours, theirs, folder):
    ask = {"operator_name": "aten::", "output_dir": str(folder), "min_pattern_len": 1, "visualize": False}
    same(*(one.get_frequent_cuda_kernel_sequences(**ask) for one in (ours, theirs)))


def critical_path(analysis, rank=0):
    """Whether there is one; nodes and edges of the graph, length in us and nodes of the path."""
    graph, found = analysis.critical_path_analysis(rank=rank, annotation="ProfilerStep", instance_id=0)
    path = graph.critical_path_nodes
    length = sum(graph.edges[edge]["object"].weight for edge in pairwise(path))
    return found, len(graph.nodes), len(graph.edges), length, len(path)


def difference(ours, theirs):
    same(*(TraceDiff.compare_traces(one.t, one.t).sort_index() for one in (ours, theirs)))


def test_simulated_traces(simulated, tmp_path):
    kind, ours, theirs = simulated
    alike(ours, theirs)
    breakdowns(ours, theirs)
    launches(ours, theirs)
    sequences(ours, theirs, tmp_path)
    assert critical_path(ours) == critical_path(theirs)
    if (
        kind == "data"
    ):  # a launch and a kernel at one microsecond have no order, and the pipeline's ranks have some such
        same(ours.get_queue_length_summary(ranks=[0, 1]), theirs.get_queue_length_summary(ranks=[0, 1]))
        idle = [one.get_idle_time_breakdown(ranks=[0, 1], visualize=False)[0] for one in (ours, theirs)]
        same(*idle)
    difference(ours, theirs)


PATHS = {
    "resnet18_ddp2": (True, 1980, 1979, 36913, 1838),
    "megatron_tp2": (True, 4888, 4884, 52870, 975),
    "dlrm_x4": (True, 1386, 1381, 1049466, 415),
}


def test_real_traces(real, tmp_path):
    name, ours, theirs = real
    alike(ours, theirs, drop=["iteration"] if name == "megatron_tp2" else [])  # HTA counts the device's steps, too
    breakdowns(ours, theirs)
    launches(ours, theirs)
    same(ours.get_queue_length_summary(ranks=[0, 1]), theirs.get_queue_length_summary(ranks=[0, 1]))
    idle = [one.get_idle_time_breakdown(ranks=[0, 1], visualize=False)[0] for one in (ours, theirs)]
    same(*idle)
    if name != "megatron_tp2":  # has spans of -1 us, which HTA's call stacks do not bear
        sequences(ours, theirs, tmp_path)
    assert critical_path(ours) == critical_path(theirs) == PATHS[name]
    difference(ours, theirs)


def test_traces_of_a_cpu():
    ours, theirs = pair(DATA / "ddp")
    alike(ours, theirs, drop=["cat"])  # an operator that communicates is an annotation to tracekit
    difference(ours, theirs)
    same(ours.get_comm_comp_overlap(visualize=False), theirs.get_comm_comp_overlap(visualize=False))


@pytest.fixture
def drawn(tmp_path):
    """The traces of a drawing, in a folder, and the run that they are."""

    def draw(drawing):
        (tmp_path / "ranks").mkdir()
        lanes.kineto(drawing, tmp_path / "ranks")
        return load(tmp_path / "ranks", cache=False)

    return draw


def test_queues_of_a_drawing(drawn):
    """On stream 7 a launch and its kernel's start follow one another twice: the queue is 1 and 0."""
    ours = to_hta(drawn("step 00000000\n0/main a..b....\n0/7 .CC..CC. by=ab"))
    [series] = ours.get_queue_length_time_series(ranks=[0]).values()
    assert series[["ts", "stream", "queue_length"]].values.tolist() == [[0, 7, 1], [1, 7, 0], [3, 7, 1], [5, 7, 0]]


def test_starts_are_rounded_up_and_ends_down(tmp_path):
    """In ns from the first start: 200 to 3900 is 1 to 3 us; 4300 to 4700 ends before it starts."""
    spans = [step(0, 0, 10), kernel(0.2, 3.9), kernel(4.3, 4.7)]
    write(tmp_path, spans, "rank0.json")
    frame = to_hta(load(tmp_path, cache=False)).t.traces[0]
    device = frame[frame["stream"] >= 0].sort_values("ts")
    first = frame["ts"].min()
    assert (device["ts"] - first).tolist() == [1, 5]
    assert device["dur"].tolist() == [2, -1]


def test_the_last_of_several_steps_is_left_out_unless_asked_for(drawn):
    run = drawn(DRAWN)
    steps = [set(to_hta(run, include_last_profiler_step=last).t.traces[0]["iteration"]) for last in (False, True)]
    assert (2 in steps[0], 2 in steps[1]) == (False, True)


def test_ranks_stand_on_the_runs_clock_and_round_on_their_own(tmp_path):
    """Rank 2's clock is 137 us ahead; the last call ends on all ranks at once, but for 3 us or so."""
    run = job(tmp_path, 137_000, True)
    assert run.ranks["clock_offset_ns"].mod(1000).any()
    ours = to_hta(run, include_last_profiler_step=True)
    ends = [(frame["ts"] + frame["dur"])[frame["stream"] >= 0].max() for frame in ours.t.traces.values()]
    assert max(ends) - min(ends) < 20
    alike(to_hta(run), read_by_hta(run, tmp_path))


def test_hta_reads_what_is_written(drawn, tmp_path):
    run = drawn(DRAWN + "\n    1/main  a.................\n    1/7     ..CC..............  by=a")
    counts = write_hta(run, tmp_path / "out")
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["rank0.json.gz", "rank1.json.gz"]
    theirs, ours = TraceAnalysis(trace_dir=str(tmp_path / "out")), to_hta(run)
    alike(ours, theirs)
    assert [frame["index"].tolist() for frame in ours.t.traces.values()] == [
        theirs.t.traces[rank]["index"].tolist() for rank in ours.t.traces
    ]
    assert ours.t.min_ts == theirs.t.min_ts
    assert ours.t.meta_data == theirs.t.meta_data
    for rank, count in counts.items():
        text = gzip.decompress((tmp_path / "out" / f"rank{rank}.json.gz").read_bytes())
        assert len(json.loads(text)["traceEvents"]) == count


@pytest.mark.parametrize("name", ["ddp", "pipeline"])
def test_tracekit_reads_what_is_written(name, tmp_path):
    run = load(DATA / name, cache=False)
    write_hta(run, tmp_path / "out")
    again = load(tmp_path / "out", cache=False)
    columns = ["rank", "step", "start_ns", "end_ns"]
    assert (again.steps[columns] - run.steps[columns]).abs().max().max() < 1000
    key = ["rank", "op", "seq", "bytes"]
    assert again.calls[key].astype(str).values.tolist() == run.calls[key].astype(str).values.tolist()
    assert Analysis(again)["breakdown"]["comm_ns"].tolist() == Analysis(run)["breakdown"]["comm_ns"].tolist()


def test_findings_are_drawn_into_the_events_they_are_of(drawn):
    ours = to_hta(drawn(DRAWN))
    raw = ours.t.get_raw_trace_for_one_rank(0)["traceEvents"]
    names = ours.t.symbol_table.get_sym_table()
    frame = ours.t.traces[0]
    assert [raw[index]["name"] for index in frame["index"]] == [names[name] for name in frame["name"]]


def test_no_more_than_one_ranks_tables_are_held(tmp_path):
    run, held, seen = lanes.run(DRAWN + "\n    1/7     ..CC.............."), [], []
    sources = {key: Watched(key[0], source, held, seen) for key, source in run.sources.items()}
    write_hta(replace(run, sources=sources), tmp_path / "out")
    assert {0} in seen
    assert {1} in seen
    assert {0, 1} not in seen


def test_a_folder_with_files_is_refused(drawn, tmp_path):
    run = drawn(DRAWN)
    with pytest.raises(WrongUse, match="a new or an empty one"):
        write_hta(run, tmp_path / "ranks")


def test_a_window_that_nobody_has(drawn):
    with pytest.raises(WrongUse, match="no window 3; it has windows 0"):
        to_hta(drawn(DRAWN), window=3)


def test_without_hta_a_sentence_says_what_to_install(drawn, monkeypatch):
    monkeypatch.delitem(sys.modules, "tracekit.export.hta_trace")
    monkeypatch.setitem(sys.modules, "hta.trace_analysis", None)
    with pytest.raises(TracekitError, match=r"HolisticTraceAnalysis is missing: pip install 'tracekit-torch\[hta\]'"):
        to_hta(drawn(DRAWN))
