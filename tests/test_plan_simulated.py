"""A plan's layout, simulated: what happens in time takes as long as the plan's arithmetic says."""

import pytest

from tracekit.plan.step import predict
from tracekit.simulate import simulate
from tracekit.simulate.job import job_of

LARGE = {"model": {"preset": "megatron-18.4b", "layers": 16}, "cluster": "a100-80gb"}
LLAMA = {"model": {"preset": "llama2-70b", "layers": 16}}
PIPELINE = {"pipeline": 4, "microbatches": 16}
JOBS = [
    {"layout": "dp 1"},
    {"layout": "dp 8"},
    {"layout": {"data": 8, "zero_stage": 1, "microbatches": 4}},
    {"layout": {"data": 8, "zero_stage": 2}},
    {"layout": "fsdp 8"},
    {"layout": {"axes": "fsdp 8", "microbatches": 4}},
    {"layout": "tp 8"},
    {"layout": "dp 4 x tp 2"},
    {"layout": {**PIPELINE, "schedule": "gpipe"}},
    {"layout": {**PIPELINE, "schedule": "1f1b"}},
    {"layout": {**PIPELINE, "schedule": "interleaved", "stages_per_rank": 2}},
    {"layout": {**PIPELINE, "schedule": "zero-bubble"}},
    {"layout": {**PIPELINE, "schedule": "interleaved-zero-bubble", "stages_per_rank": 2}},
    {"layout": {**PIPELINE, "schedule": "zbv", "stages_per_rank": 2}},
    {"layout": {**PIPELINE, "schedule": "dualpipev", "stages_per_rank": 2}},
    {**LARGE, "layout": {"axes": "tp 8 x pp 2", "microbatches": 8, "checkpointing": "full", "sequence_parallel": True}},
    {**LARGE, "layout": {"axes": "tp 4 x pp 2", "microbatches": 8, "schedule": "interleaved", "stages_per_rank": 2}},
    {"model": "llama2-13b", "layout": {"axes": "fsdp 8 x tp 2", "microbatches": 2, "sequence_parallel": True}},
    {**LLAMA, "layout": {"axes": "dp 2 x tp 8 x pp 2", "microbatches": 8, "zero_stage": 1}},
]  # fmt: skip


@pytest.mark.parametrize("told", JOBS, ids=[str(job["layout"]) for job in JOBS])
def test_a_plan_and_its_simulation_agree_on_the_step(told):
    job = job_of({**told, "steps": 1})
    planned_ns = predict(job.model, job.layout, job.cluster).seconds * 1e9
    assert simulate(job).truth.step_ns == pytest.approx(planned_ns, rel=0.05)
