"""tracekit's numbers beside the truth of simulated jobs: two independent ways to one number.

A small part of the grid of `benchmarks/accuracy.py`, which tells more.
"""

import pytest

from benchmarks.accuracy import (
    BREAKDOWN,
    ENDS_US,
    LAYOUTS,
    allowed,
    described,
    differences,
    of_layout,
    of_skewed,
    of_steps,
    paired_calls,
    tried,
)
from tracekit import Analysis, load
from tracekit.simulate import simulate
from tracekit.simulate.job import job_of

LEFT_OUT = ("ddp, accumulation", "tp", "pp, gpipe", "pp, zero-bubble", "fsdp × pp")
SEEDS = {name: seed for seed, name in enumerate(name for name in LAYOUTS if name not in LEFT_OUT)}
"""Another one for each layout, so that calls are told in all three ways, and hosts wait in each step or never."""


@pytest.mark.parametrize("name", SEEDS)
def test_every_number_is_the_truth(name, tmp_path):
    analysis, truth = tried(described(LAYOUTS[name], SEEDS[name], steps=2), tmp_path)
    found = differences(analysis, truth)
    assert {what: one.largest for what, one in found.items() if one.largest > allowed(what)} == {}
    assert all(one.values for one in found.values())
    assert len(found) >= len(BREAKDOWN) + 1


@pytest.mark.parametrize("name", ["ddp", "dp × tp × pp"])
def test_with_skewed_clocks_and_ends_alike_all_is_exact(name, tmp_path):
    told = described(LAYOUTS[name], 1, skew=True, steps=2)
    told["noise"]["ends_us"] = 0
    found = of_skewed(*tried(told, tmp_path))
    assert {what for what, one in found.items() if one.largest} == set()


@pytest.mark.parametrize("name", ["fsdp", "pp, 1f1b"])
def test_with_skewed_clocks_waits_are_as_exact_as_members_end_together(name, tmp_path):
    found = of_skewed(*tried(described(LAYOUTS[name], 2, skew=True, steps=2), tmp_path))
    assert found["wait, ns off"].largest <= ENDS_US * 1000
    assert found["waits outside the bar"].largest <= 0.05 * found["waits outside the bar"].values
    assert all(found[f"breakdown {column}"].largest == 0 for column in BREAKDOWN)


def small(layout, *faults, **more):
    return job_of({"model": {"preset": "gpt2-small", "layers": 4}, "layout": layout, "faults": list(faults), **more})


def test_a_lost_rank_is_noted_and_its_waits_are_lower_bounds(tmp_path):
    done = simulate(small("dp 3", "slow_device:1:2", "missing_ranks:1"), tmp_path)
    analysis = Analysis(load(tmp_path, cache=False))
    [note] = analysis.run.notes.loc[analysis.run.notes["code"] == "missing-rank", "message"]
    assert note.startswith("no file of rank 1 (world size 3)")
    told = done.truth.calls[done.truth.calls["rank"] != 1]
    measured = analysis["waits"]["wait_ns"].sum()
    assert measured == 0 < told["wait_ns"].sum()  # ranks 0 and 2 are alike; all wait for 1
    steps = done.truth.steps[done.truth.steps["rank"] != 1].reset_index(drop=True)
    assert all(analysis["breakdown"][column].equals(steps[column]) for column in BREAKDOWN)


def test_lost_events_change_little_and_calls_still_find_their_peers(tmp_path):
    done = simulate(small("dp 2", "lost_events:1:0.05", noise={"compute": 0.05}), tmp_path)
    analysis = Analysis(load(tmp_path, cache=False))
    calls = analysis.run.calls
    matched = calls[calls["match"].notna()].groupby("match")["rank"].agg(list)
    assert matched.map(sorted).map(lambda ranks: ranks == [0, 1]).all()
    assert len(matched) >= 0.8 * len(done.truth.calls) / 2
    whole = of_steps(analysis, done.truth)
    assert whole["breakdown step_ns"].largest < 0.05 * done.truth.step_ns
    [finding] = [one for one in analysis.findings if one.code == "incomplete-data"]
    assert finding.ranks == (1,)
    assert "kernels were launched that the file does not hold" in finding.evidence[0]


def test_a_drifting_clock_is_told(tmp_path):
    simulate(small("tp 2", "clock_drift:1:50", steps=6), tmp_path)
    analysis = Analysis(load(tmp_path, cache=False))
    [drift] = analysis.run.ranks.loc[analysis.run.ranks["rank"] == 1, "clock_drift_ppb"]
    assert drift == pytest.approx(50_000, rel=0.1)


@pytest.mark.parametrize(
    "fault", ["slow_device:2:1.5", "data_loader:2:20", "gc:2:40", "slow_host:2:3", "late_start:2:20"]
)
def test_the_rank_that_others_wait_for_is_the_culprit(fault, tmp_path):
    done = simulate(small("dp 4", fault, steps=4), tmp_path)
    blame = Analysis(load(tmp_path, cache=False))["blame"]
    by_rank = blame.groupby("blamed_rank")["wait_ns"].sum()
    [injected] = done.truth.faults
    assert injected.ranks == (2,)
    assert by_rank.idxmax() == 2
    assert by_rank[2] > 0.9 * by_rank.sum()


@pytest.mark.parametrize(("layout", "pause_ms"), [("fsdp 2", 2), ("fsdp 2", 6), ("dp 2", 6), ("tp 2", 2), ("tp 2", 6)])
def test_a_pause_of_the_host_costs_what_the_job_without_it_is_shorter_by(layout, pause_ms, tmp_path):
    done = simulate(small(layout, f"late_start:1:{pause_ms}", steps=4), tmp_path)
    [injected] = done.truth.faults
    [finding] = [one for one in Analysis(load(tmp_path, cache=False)).findings if one.code == "slow-host"]
    assert finding.ranks == (1,)
    assert finding.cost_ns == pytest.approx(injected.cost_ns, rel=0.05)


def test_a_slow_link_inside_a_stage_is_no_imbalance_of_stages(tmp_path):
    """The transfers of stage 0's tensor group take so long that its forwards and backwards do, too."""
    simulate(small({"axes": "dp 2 x tp 2 x pp 2", "microbatches": 4}, "slow_link:1:0.5", steps=3), tmp_path)
    analysis = Analysis(load(tmp_path, cache=False))
    stages = analysis["stages"].groupby("stage")[["forward_each_ns", "backward_each_ns"]].mean().sum(axis=1)
    assert stages[0] > 1.5 * stages[1]
    codes = {one.code: one.ranks for one in analysis.findings}
    assert codes["slow-link"] == (1,)
    assert "stage-imbalance" not in codes


def test_calls_of_the_analysis_are_the_truths_calls_one_by_one(tmp_path):
    analysis, truth = tried(described({"axes": "dp 2 x pp 2", "microbatches": 4}, 0, steps=2), tmp_path)
    mine, theirs = paired_calls(analysis, truth)
    assert mine["peer"].fillna(-1).tolist() == theirs["peer"].fillna(-1).tolist()
    assert mine["step"].tolist() == theirs["step"].tolist()


def test_a_layout_without_names_is_told_by_what_groups_do(tmp_path):
    told = described({"axes": "dp 2 x tp 2 x pp 2", "microbatches": 4}, 0, steps=2)
    analysis, truth = tried({**told, "trace": {"named_groups": False}}, tmp_path)
    assert {what: one.largest for what, one in of_layout(analysis, truth).items()} == {"layout": 0}
