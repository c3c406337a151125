"""Replays of real jobs. Published answers are those of the study (OSDI 2025), see each folder's `expected.json`."""

import json
from pathlib import Path

import pytest

from tests.conftest import REAL_TRACES
from tracekit.analysis import Analysis
from tracekit.read.load import load
from tracekit.replay.replay import TRUSTED_FRAC

TRACES = REAL_TRACES
OWN = Path(__file__).parent / "data"
PRODUCTION = ["production_st", "production_ar"]
REAL = [*PRODUCTION, "nanogpt_h100x8", "megatron_tp2", "dlrm_x8", "dlrm_x4", "resnet18_ddp2", "diff_control"]

JOBS = [*(TRACES / name for name in REAL), OWN / "ddp", OWN / "pipeline"]


def told(folder, answers={}):  # noqa: B006
    if folder not in answers:
        if not folder.is_dir():
            pytest.skip(f"no real traces at {folder}: set TRACEKIT_REAL_TRACES to their folder")
        answers[folder] = Analysis(load(folder, cache=False)).whatif
    return answers[folder]


@pytest.mark.parametrize("name", PRODUCTION)
def test_slowdown_is_the_published_one(name):
    answer = told(TRACES / name)
    expected = json.loads((TRACES / name / "expected.json").read_text())
    assert answer.slowdown == pytest.approx(expected["slowdown"], rel=0.03)
    assert answer.ideal_step_ns == pytest.approx(expected["ideal_step_s"] * 1e9, rel=0.03)


@pytest.mark.parametrize("name", PRODUCTION)
def test_stages_are_as_slow_as_published(name):
    answer = told(TRACES / name)
    expected = json.loads((TRACES / name / "expected.json").read_text())
    published = {int(stage): slowdown for stage, slowdown in expected["slowdown_by_stage"].items()}
    assert answer.by_stage["stage"].iloc[0] == max(published, key=published.get)
    for stage, slowdown in answer.by_stage[["stage", "slowdown"]].values.tolist():
        assert slowdown == pytest.approx(published[int(stage)], rel=0.03)


@pytest.mark.parametrize("name", PRODUCTION)
def test_classes_are_as_slow_as_published(name):
    answer = told(TRACES / name)
    published = json.loads((TRACES / name / "expected.json").read_text())["slowdown_by_optype"]
    ours = dict(answer.by_class[["class", "slowdown"]].values.tolist())
    for own, theirs in (
        ("forward", "forward-compute"), ("backward", "backward-compute"), ("other compute", "optimizer"),
        ("data reduce_scatter", "grads-reduce-scatter"), ("data all_gather", "params-all-gather"),
        ("embedding all_reduce", "embedding-grads-all-reduce"), ("pipeline forward", "forward-pp-comm"),
        ("pipeline backward", "backward-pp-comm"),
    ):  # fmt: skip
        assert ours[own] == pytest.approx(published[theirs], rel=0.015)


def test_one_worker_makes_the_one_job_slow_and_the_last_stage_the_other():
    one, other = (told(TRACES / name) for name in ("production_ar", "production_st"))
    assert one.slowest_workers == (0,)
    assert one.by_rank["rank"].iloc[0] == 0
    assert one.m_workers == pytest.approx(1.0017, abs=0.05)
    assert one.m_last_stage == pytest.approx(-0.0012, abs=0.05)
    assert other.m_workers == pytest.approx(0.0314, abs=0.05)
    assert other.m_last_stage == pytest.approx(1.2194, abs=0.05)


@pytest.mark.parametrize("folder", JOBS, ids=lambda at: at.name)
def test_the_replay_comes_out_as_measured(folder):
    """All within half of what is still trusted."""
    assert told(folder).replay_error_frac < TRUSTED_FRAC / 2


@pytest.mark.parametrize("folder", JOBS, ids=lambda at: at.name)
def test_the_path_is_as_long_as_the_steps(folder):
    answer = told(folder)
    path = answer.path.groupby("step")["length_ns"].sum()
    assert path.tolist() == pytest.approx(answer.steps["replayed_ns"].tolist(), rel=1e-6)


def test_the_late_rank_of_a_recommendation_model():
    assert told(TRACES / "dlrm_x4").by_rank["rank"].iloc[0] == 2


def test_the_slow_rank_of_our_own_job():
    """Rank 1 computes twice as long, as its run.json says."""
    fault = json.loads((OWN / "ddp" / "run.json").read_text())
    assert told(OWN / "ddp").by_rank["rank"].iloc[0] == 1, fault
