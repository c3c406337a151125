import json

import pytest

from tracekit.simulate.accounting import account, step_rows
from tracekit.simulate.costs import Costs
from tracekit.simulate.engine import carried_out
from tracekit.simulate.job import job_of
from tracekit.simulate.truth import truth_of, write_truth

MODEL = {"preset": "megatron-1.7b", "layers": 4, "hidden": 1024, "heads": 8, "vocabulary": 1000}


def truth(layout, *faults, **more):
    job = job_of({"model": MODEL, "layout": layout, "steps": 2, "faults": list(faults), **more})
    return truth_of(carried_out(Costs(job)))


def test_steps_tile_and_their_parts_sum():
    steps = truth({"axes": "dp 2 x tp 2", "microbatches": 2}, noise={"compute": 0.1}).steps
    parts = steps[["compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns"]].sum(axis=1)
    assert (parts == steps["step_ns"]).all()
    causes = steps[["host_late_ns", "stream_wait_ns", "launch_latency_ns"]].sum(axis=1)
    assert (causes == steps["idle_ns"]).all()
    assert (steps["own_ns"] + steps["wait_ns"] == steps["step_ns"]).all()
    for _, mine in steps.groupby("rank"):
        assert mine["end_ns"].tolist()[:-1] == mine["start_ns"].tolist()[1:]


def test_nobody_waits_where_all_do_the_same_and_all_wait_for_a_slow_one():
    assert truth("dp 4").calls["wait_ns"].eq(0).all()
    slow = truth("dp 4", "slow_device:2:1.5").calls
    assert slow.loc[slow["rank"] == 2, "wait_ns"].eq(0).all()
    assert slow.loc[slow["rank"] != 2].groupby("rank")["wait_ns"].sum().nunique() == 1
    assert slow.loc[slow["rank"] == 0, "wait_ns"].sum() > 0


def test_each_fault_with_its_culprit_cause_and_the_step_without_it():
    told = truth("dp 2", "slow_device:1:1.5", "data_loader:0:50", "clock_skew:1:5")
    slow, loader, skew = told.faults
    assert [(one.ranks, one.cause) for one in told.faults] == [
        ((1,), "device"),
        ((0,), "data loading"),
        ((1,), "clock"),
    ]
    assert slow.step_ns_without == truth("dp 2", "data_loader:0:50").step_ns
    assert loader.step_ns_without == truth("dp 2", "slow_device:1:1.5").step_ns
    assert (skew.cost_ns, skew.step_ns_without) == (0, told.step_ns)
    assert told.healthy_step_ns == truth("dp 2").step_ns < told.step_ns


def test_a_heavy_stage_is_the_doing_of_all_ranks_that_hold_it():
    told = truth({"axes": "dp 2 x pp 2", "microbatches": 4}, "stage_imbalance:3:1")
    assert told.faults[0].ranks == (2, 3)
    assert told.faults[0].cost_ns > 0
    assert truth("dp 2", "no_overlap").faults[0].ranks == ()


def test_unequal_samples_are_held_to_as_much_work_in_equal_ones():
    told = truth("dp 2", "length_imbalance::0.5")
    even = carried_out(Costs(told.job.without(*told.job.faults)))
    compute_ns = [step_rows(account(one))["compute_ns"].tolist() for one in even.ranks]
    for step in (0, 1):
        mine = told.steps.loc[told.steps["step"] == step, "compute_ns"].tolist()
        assert abs(mine[0] - mine[1]) > 0.01 * sum(mine)
        assert sum(mine) == pytest.approx(compute_ns[0][step] + compute_ns[1][step], rel=1e-4)
        assert compute_ns[0][step] == pytest.approx(compute_ns[1][step], rel=1e-4)
    assert told.faults[0].cost_ns > 0


def test_the_bubbles_parts_sum_to_it():
    told = truth({"pipeline": 2, "microbatches": 4}, noise={"compute": 0.1}).pipeline
    phases = told[["warmup_ns", "steady_ns", "cooldown_ns"]].sum(axis=1)
    assert (phases == told["bubble_ns"]).all()
    causes = told[["must_ns", "imbalance_ns", "jitter_ns", "transfer_ns"]].sum(axis=1)
    assert causes.groupby(told["step"]).first().tolist() == pytest.approx(
        told.groupby("step")["bubble_ns"].mean().tolist(), abs=2
    )


def test_truth_as_a_file(tmp_path):
    told = truth({"pipeline": 2, "microbatches": 4}, "missing_ranks:1")
    write_truth(told, tmp_path / "truth.json")
    read = json.loads((tmp_path / "truth.json").read_text())
    assert (read["schema"], read["step_ns"], read["job"]["faults"]) == (1, told.step_ns, ["missing_ranks:1:1"])
    assert read["theory"]["of_makespan"] == 1 / 5
    for name in ("ranks", "groups", "steps", "axes", "calls", "pipeline", "actions"):
        table = getattr(told, name)
        assert read[name]["columns"] == list(table.columns)
        assert len(read[name]["rows"]) == len(table)
    row = dict(zip(read["calls"]["columns"], read["calls"]["rows"][0], strict=True))
    assert row == {**told.calls.iloc[0].to_dict(), "peer": 1}
    assert [row[-1] for row in read["ranks"]["rows"]] == [True, False]
