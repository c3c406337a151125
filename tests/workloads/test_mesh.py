"""Meshes: the same as one process along any axes, and every call on the axis that it belongs to."""

from __future__ import annotations

import argparse
from collections import defaultdict

import pytest

from tests.workloads import traces
from tests.workloads.traces import named
from workloads import mesh
from workloads.errors import WrongUse

SIZES = ("--layers", "4", "--width", "32", "--sequence", "16", "--vocabulary", "16")
# The checkpoint is written before the step that is recorded, which has the training's calls only.
STEPS = ("--wait", "1", "--warmup", "1", "--active", "1", "--checkpoint-step", "1")
MESHES = {
    "dp×tp": ("--ranks", "4", "--dp", "2", "--tp", "2"),
    "dp×pp": ("--ranks", "4", "--dp", "2", "--tp", "1", "--pp", "2"),
    "dp×pp, zero bubble": ("--ranks", "4", "--dp", "2", "--tp", "1", "--pp", "2", "--schedule", "zbv"),
    "dp×tp×pp": ("--ranks", "8", "--dp", "2", "--tp", "2", "--pp", "2"),
}
OPERATIONS = {"tp": {"all_reduce"}, "dp": {"all_gather", "reduce_scatter"}, "pp": {"send", "recv"}}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """One process with the whole batch."""
    folder = tmp_path_factory.mktemp("whole")
    return traces.run(folder, "ddp", "--ranks", "1", "--batch", "16", *SIZES, *STEPS)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Each mesh once: two data-parallel ranks, each with four micro-batches of two samples."""
    given = ("--batch", "2", "--microbatches", "4", *SIZES, *STEPS)
    written = {}

    def once(name):
        if name not in written:
            written[name] = traces.run(tmp_path_factory.mktemp("mesh"), "mesh", *MESHES[name], *given)
        return written[name]

    return once


@pytest.mark.parametrize("name", MESHES)
def test_a_mesh_does_what_one_process_does(run, whole, name):
    traces.same(run(name), whole)


@pytest.mark.parametrize("name", MESHES)
def test_every_call_is_on_the_axis_that_its_operation_belongs_to(run, name):
    written = run(name)
    axes = {axis["name"]: axis["groups"] for axis in written.facts["layout"]["axes"] if axis["size"] > 1}
    for rank in range(written.facts["world_size"]):
        trace = written.trace(rank)
        members = {group["pg_name"]: group["ranks"] for group in trace["distributedInfo"]["pg_config"]}
        operations = defaultdict(set)
        for call, _ in traces.calls(trace["traceEvents"]):
            [axis] = [axis for axis, groups in axes.items() if members[call["group"]] in groups]
            operations[axis].add(call["op"])
        assert operations == {axis: OPERATIONS[axis] for axis in axes}


def test_the_axes_are_recorded_with_their_ranks(run):
    facts = run("dp×tp×pp").facts
    assert {axis["name"]: axis["groups"] for axis in facts["layout"]["axes"]} == {
        "pp": [[0, 4], [1, 5], [2, 6], [3, 7]],
        "dp": [[0, 2], [1, 3], [4, 6], [5, 7]],
        "tp": [[0, 1], [2, 3], [4, 5], [6, 7]],
    }
    assert facts["ranks"][5]["place"] == {"pp": 1, "dp": 0, "tp": 1}
    assert facts["batch"] == {"per_device": 2, "data_parallel": 2, "accumulation": 4, "effective": 16}
    assert [(stage["pp"], stage["layers"]) for stage in facts["stages"]] == [(0, [0, 1]), (1, [2, 3])]


def test_states_shrink_along_every_axis(run, whole):
    [alone] = whole.facts["ranks"]
    for name, parts in (("dp×tp", 4), ("dp×pp", 4), ("dp×tp×pp", 8)):
        for kind in ("parameter_bytes", "gradient_bytes", "optimizer_bytes"):
            shares = [rank[kind] / alone[kind] for rank in run(name).facts["ranks"]]
            assert max(shares) < 1.15 / parts  # norms, embedding and head are not split by all axes


def test_without_stages_micro_batches_are_accumulated(run):
    events = run("dp×tp").events(0)
    assert [event["name"] for event in named(events, "forward", "backward", "PP:")] == [
        f"{what} microbatch={number}" for number in range(4) for what in ("forward", "backward")
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"dp": 2}, "pp 1 × dp 2 × tp 2 is 4 ranks, but there are 6"),
        ({"dp": None, "tp": 4, "heads": 8}, "pp 1 × dp 1 × tp 4 is 4 ranks, but there are 6"),
        ({"tp": 3}, "--heads 4 does not divide by --tp 3"),
        ({"pp": 3, "dp": 1}, "--layers 4 does not divide by 3 stages"),
        ({"fault": ["stage_imbalance:0"]}, "fault stage_imbalance cannot happen with --pp 1: there is one stage"),
    ],
)
def test_degrees_that_do_not_fit_are_named(given, said):
    options = {"dp": None, "tp": 2, "pp": 1, "heads": 4, "layers": 4, "fault": [], **given}
    options |= {"schedule": "gpipe", "virtual_stages": None, "accumulation": 4}
    with pytest.raises(WrongUse, match=said):
        mesh.layout(argparse.Namespace(**options), 6).check(6)


def test_what_pp_and_tp_leave_is_data_parallel():
    options = argparse.Namespace(dp=None, tp=2, pp=1, heads=4, fault=[])
    assert mesh.layout(options, 6).axes == {"pp": 1, "dp": 3, "tp": 2}
