import json
from dataclasses import replace

import pandas as pd
import pytest

from tests import lanes
from tests.gate.made import account
from tracekit.analysis import Analysis
from tracekit.gate.facts import differing, facts_of, likeness, other_job
from tracekit.read.load import load


def facts(drawing):
    return facts_of(Analysis(lanes.run(drawing)))


def test_what_a_trace_tells():
    told = facts("""
        0/7       CCC
        0/memory  1.2
        1/7       CCC
    """)
    assert told["world size"] == "2"
    assert (told["device"], told["backend"]) == ("cuda", "nccl")
    assert (told["profile memory"], told["profile stacks"]) == ("yes", "no")


def test_a_world_size_that_no_file_tells_is_how_many_ranks_there_are():
    run = lanes.run("0/7 CCC\n1/7 CCC")
    untold = replace(run, ranks=run.ranks.assign(world_size=pd.array([None, None], "Int64")))
    assert facts_of(Analysis(untold))["world size"] == "2"


def test_python_stacks_are_a_setting_of_the_profiler():
    assert facts("0/7 CCC\n0/main PPP")["profile stacks"] == "yes"


def told_by(folder, **changes):
    """Facts of traces with a run.json beside them."""
    lanes.kineto("step 000011\n0/7 CC..CC", folder)
    described = {
        "workload": "ddp", "device": "emulated", "samples_per_step": 8, "model": {"layers": 2, "width": 64},
        "versions": {"torch": "2.9"}, "profiler": {"wait": 0, "warmup": 2, "active": 8},
        "layout": {"axes": [{"name": "dp", "size": 2}], "microbatches": 4}, **changes,
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(described))
    return facts_of(Analysis(load(folder)))


def test_what_a_run_file_tells(tmp_path):
    told = told_by(tmp_path)
    wanted = {"model layers": "2", "versions torch": "2.9", "profiler warmup": "2", "layout": "dp 2", "batch": "8"}
    assert wanted.items() <= told.items()
    assert "profiler active" not in told  # more steps are a better sample, not another job


@pytest.mark.parametrize(
    "text", ["", "[]", '{"model": "gpt", "layout": 5, "versions": null}', '{"layout": {"axes": [1]}}']
)
def test_a_strange_run_file_is_no_matter(tmp_path, text):
    lanes.kineto("0/7 CC", tmp_path)
    (tmp_path / "run.json").write_text(text)
    assert "world size" in facts_of(Analysis(load(tmp_path)))


def test_what_a_commit_may_change_is_no_difference():
    base = {"world size": "2", "micro-batches": "8", "only here": "1"}
    assert differing(base, {**base, "micro-batches": "2"}) == []
    assert [one.allow for one in differing(base, {"world size": "4"})] == ["world size"]


def test_how_alike_two_jobs_are():
    one, other = account(1e6, {"gemm": 0.6, "attention": 0.4}), account(2e6, {"gemm": 0.5, "conv": 0.5})
    assert likeness(one, one) == pytest.approx(1)
    assert likeness(one, other) == pytest.approx(0.5)
    assert other_job(one, other) == []
    [differs] = other_job(one, account(1e6, {"conv": 1.0}))
    assert (differs.allow, differs.base) == ("job", "mostly gemm")
