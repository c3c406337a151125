import json
from pathlib import Path

import pytest

from tracekit.errors import Unreadable, WrongUse
from tracekit.plan.described import described_run, model_of, run_file
from tracekit.plan.layout import Layout
from tracekit.plan.transformer import preset

DATA = Path(__file__).parent.parent / "data"


def test_a_model_by_name_or_by_numbers():
    assert model_of("llama-7b") == preset("llama-7b")
    told = "layers=32,hidden=4096,heads=32,sequence=2048,vocabulary=32000,feed-forward=11008,gated,no-tied,"
    assert model_of(told + "no-biases,no-positions,no-dropout") == preset("llama-7b")


@pytest.mark.parametrize(
    ("text", "said"),
    [("layers=2", "lacks hidden, heads, sequence, vocabulary"), ("layers=2,depth=3", "no 'depth'"),
     ("layers=two,hidden=8", "whole number"), ("gated=1,layers=2", "without a value")],
)  # fmt: skip
def test_models_that_are_none(text, said):
    with pytest.raises(WrongUse, match=said):
        model_of(text)


def test_data_parallel_run():
    run = described_run(DATA / "ddp" / "run.json")
    assert run.model.parameters == 271_744  # as the run counted its own
    assert run.layout == Layout(data=2, micro_batch=8, fused_attention=True, split_vocabulary=False)
    assert (run.cluster.flops, run.cluster.gpus) == (2e9, 2)
    # 16 bytes for each parameter in 32 bits with Adam, and a step count for each of its arrays.
    assert run.state_bytes == pytest.approx(16 * 271_744, rel=1e-4)


def test_pipeline_run():
    run = described_run(DATA / "pipeline" / "run.json")
    assert run.layout == Layout(pipeline=2, micro_batch=8, microbatches=4, fused_attention=True, split_vocabulary=False)
    assert run.model.parameters == 408_064


def changed(tmp_path, **layout):
    facts = json.loads((DATA / "ddp" / "run.json").read_text())
    facts["layout"] |= layout
    path = tmp_path / "run.json"
    path.write_text(json.dumps(facts))
    return path


@pytest.mark.parametrize(
    ("sharding", "stage"),
    [("optimizer states (ZeRO-1)", 1), ("gradients and optimizer states (ZeRO-2)", 2), ("all states (ZeRO-3)", 3),
     ("all states over dp", 3), (None, 0)],
)  # fmt: skip
def test_sharding_in_a_workloads_words(tmp_path, sharding, stage):
    assert described_run(changed(tmp_path, sharding=sharding)).layout.zero_stage == stage


def test_a_mesh(tmp_path):
    axes = [{"name": name, "size": 2} for name in ("pp", "dp", "tp")]
    layout = described_run(changed(tmp_path, axes=axes, schedule="interleaved", virtual_stages=2)).layout
    assert (layout.pipeline, layout.data, layout.tensor, layout.stages_per_rank) == (2, 2, 2, 2)


def test_experts_lie_along_data(tmp_path):
    run = described_run(changed(tmp_path, axes=[{"name": "ep", "size": 2}], experts=4, top_k=2))
    assert (run.layout.data, run.layout.expert) == (2, 2)
    assert (run.model.experts, run.model.experts_per_token) == (4, 2)


def test_where_the_file_lies(tmp_path):
    assert run_file(DATA / "ddp") == run_file(DATA / "ddp" / "rank0.json.gz") == DATA / "ddp" / "run.json"
    assert run_file(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"model": 3, "batch": {}}'])
def test_other_files_are_none(tmp_path, text):
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(Unreadable, match="not a run"):
        described_run(path)


@pytest.mark.parametrize(
    ("command", "each"), [("ddp --accumulation 2", True), ("ddp --accumulation 2 --no-sync", False)]
)
def test_ddp_reduces_after_each_micro_batch_unless_told(tmp_path, command, each):
    path = changed(tmp_path)
    facts = json.loads(path.read_text())
    facts["batch"]["accumulation"], facts["command"] = 2, command
    path.write_text(json.dumps(facts))
    assert described_run(path).layout.reduce_each is each
