import re
from pathlib import Path

import pytest
import yaml

from tracekit.errors import Unreadable, WrongUse
from tracekit.simulate.faults import Fault
from tracekit.simulate.job import job_of, layout_of, read_job

WHOLE = """
model: {preset: gpt2-small, layers: 4}
layout: {axes: dp 2 x pp 4, microbatches: 8, schedule: gpipe}
cluster: {preset: a100-80gb, gpus_per_node: 4, inside: {bandwidth: 2.0e+11, latency: 1.0e-6}}
steps: 5
seed: 7
noise: {compute: 0.02}
host: {sync_each_step: false}
trace: {calls_told_by: seq}
faults: [slow_device:3:1.2, throttle]
"""


def test_a_job_is_read_as_it_is_written(tmp_path):
    (tmp_path / "job.yaml").write_text(WHOLE)
    job = read_job(tmp_path / "job.yaml")
    assert (job.model.layers, job.model.hidden, job.steps, job.seed) == (4, 768, 5, 7)
    assert (job.layout.data, job.layout.pipeline, job.layout.schedule, job.layout.microbatches) == (2, 4, "gpipe", 8)
    assert (job.cluster.gpus_per_node, job.cluster.flops, job.cluster.inside.bandwidth) == (4, 312e12, 2e11)
    assert (job.noise.compute, job.noise.transfer, job.host.sync_each_step) == (0.02, 0, False)
    assert job.faults == (Fault("slow_device", 3, 1.2), Fault("throttle", 7, 2.0, 2))


def test_axes_in_short():
    assert layout_of("dp 2 x tp 4 × pp 8") == {"data": 2, "tensor": 4, "pipeline": 8}
    assert layout_of("fsdp=8") == {"data": 8, "zero_stage": 3}


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({"modell": "gpt2-small"}, "the job has no key 'modell'; there are model, layout"),
        ({"layout": {"dp": 2}}, "layout has no key 'dp'; there are data, tensor"),
        ({"noise": {"compute": "much"}}, "noise: Expected `float`, got `str`"),
        ({"noise": {"compute": 2}}, "noise compute cannot be 2"),
        ({"precision": "fp4"}, "no precision is named 'fp4'"),
        ({"model": "gpt5"}, "no model is named 'gpt5'"),
        ({"cluster": {"gpus": 1}, "layout": "dp 2"}, "2 ranks, the cluster 1 GPUs"),
        ({"cluster": {"inside": {"speed": 3}}}, "cluster.inside has no key 'speed'"),
        ({"cluster": {"efficiency": "fast"}}, r"cluster: Expected `float`, got `str` - at `\$.efficiency`"),
        ({"steps": 0}, "at least 1 step"),
        ({"steps": "3"}, "steps: Expected `int`, got `str`"),
        ({"faults": ["slow:1"]}, "no fault 'slow:1'"),
        ({"faults": ["slow_device:4"], "layout": "dp 2"}, "on rank 4, but there are 2 ranks"),
        ({"faults": ["stage_imbalance:1"], "layout": "dp 2"}, "only a pipeline has stages"),
        ({"faults": ["gc:0@5"], "layout": "dp 2"}, "begins after the last of 3 steps"),
        ({"layout": "dp two"}, "no layout 'dp two'"),
        ({"layout": "dp 2 x dp 4"}, "one axis twice"),
        ({"layout": "tp 5"}, "24 heads do not divide by"),
        ({"layout": {"context": 2}}, "context and expert parallelism are not simulated"),
        ({"layout": [2]}, "layout must have keys and values"),
        ([1], "the job must have keys and values"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(told, sentence):
    with pytest.raises(WrongUse, match=sentence):
        job_of(told)


def test_what_is_no_yaml_is_unreadable(tmp_path):
    (tmp_path / "job.yaml").write_text("model: [")
    with pytest.raises(Unreadable, match=r"job\.yaml is not YAML"):
        read_job(tmp_path / "job.yaml")
    with pytest.raises(Unreadable, match="No such file"):
        read_job(tmp_path / "none.yaml")


def test_the_readmes_job_is_one():
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    [block] = re.findall(r"```yaml\n(model: .*?)```", text, flags=re.DOTALL)
    job = job_of(yaml.safe_load(block))
    assert (job.layout.schedule, job.steps, len(job.faults)) == ("zbv", 5, 2)
