"""HolisticTraceAnalysis as a second opinion.

Chosen are the traces with whole microseconds: HTA rounds starts up and ends down to microseconds, which changes all
others. They are also without device annotations, which HTA counts as computation. HTA knows no steps of the device and
measures from the first piece of device work to the last, so the step annotations are taken out of a copy: then tracekit
has one step over that very span. Of HTA's numbers `compute_time` is computation, `kernel_time` the span, and
`non_compute_time` all other work while nothing computes, communication and copies together; HTA has no number for
communication alone, but its overlap is a share of it.
"""

import gzip
import logging

import pytest

from tracekit import Analysis, load

RUNS = ["dlrm_x4", "dlrm_x8", "resnet18_ddp2", "diff_control"]

pytestmark = pytest.mark.filterwarnings("ignore::Warning:hta")


@pytest.fixture(scope="module", params=RUNS)
def folder(request, real_traces, tmp_path_factory):
    """A copy of a run without step annotations."""
    copies = tmp_path_factory.mktemp(request.param)
    for file in (real_traces / request.param).glob("*.gz"):
        text = gzip.decompress(file.read_bytes()).replace(b'"ProfilerStep#', b'"Iteration ')
        (copies / file.name).write_bytes(gzip.compress(text, 1))
    return copies


@pytest.fixture(scope="module")
def oracle(folder):
    trace_analysis = pytest.importorskip("hta.trace_analysis", reason="the extra `hta` is not installed")
    logging.getLogger("hta").setLevel(logging.ERROR)
    return trace_analysis.TraceAnalysis(trace_dir=str(folder))


@pytest.fixture(scope="module")
def ours(folder, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRACEKIT_CACHE", str(tmp_path_factory.mktemp("cache")))
        analysis = Analysis(load(folder))
        rows = analysis["breakdown"].set_index("rank")
        assert set(analysis.run.notes["code"]) >= {"no-steps"}
        return rows, analysis["overlap"].set_index("rank")


def test_where_the_time_goes(oracle, ours):
    theirs = oracle.get_temporal_breakdown(visualize=False).set_index("rank").sort_index()
    rows, _ = ours
    assert rows.index.tolist() == theirs.index.tolist()
    assert (rows["step_ns"] == 1000 * theirs["kernel_time(us)"]).all()
    assert (rows["compute_ns"] == 1000 * theirs["compute_time(us)"]).all()
    assert (rows["idle_ns"] == 1000 * theirs["idle_time(us)"]).all()
    exposed_ns = rows["exposed_comm_ns"] + rows["exposed_memory_ns"]
    assert (exposed_ns == 1000 * theirs["non_compute_time(us)"]).all()


def test_how_much_communication_is_hidden(oracle, ours):
    theirs = oracle.get_comm_comp_overlap(visualize=False).set_index("rank").sort_index()
    _, rows = ours
    assert rows.index.tolist() == theirs.index.tolist()
    assert (100 * rows["overlap_frac"]).round(2).tolist() == pytest.approx(
        theirs["comp_comm_overlap_pctg"].tolist(), abs=0.011
    )


def test_how_long_communication_takes(oracle, ours):
    """The union of HTA's own communication kernels, which it uses inside but does not report."""
    from hta.utils.utils import is_comm_kernel, merge_kernel_intervals

    rows, _ = ours
    names = oracle.t.symbol_table.get_sym_table()
    for rank, events in oracle.t.traces.items():
        device = events[events["stream"].ne(-1)]
        comm = merge_kernel_intervals(device[[is_comm_kernel(names[name]) for name in device["name"]]].copy())
        assert rows.loc[rank, "comm_ns"] == 1000 * (comm["end"] - comm["ts"]).sum()
