import numpy as np
import pytest

from tracekit.simulate import training
from tracekit.simulate.accounting import bases
from tracekit.simulate.costs import Costs
from tracekit.simulate.engine import Stuck, carried_out
from tracekit.simulate.job import job_of
from tracekit.simulate.program import Call, Launch
from tracekit.simulate.truth import truth_of

MODEL = {"preset": "megatron-1.7b", "layers": 4, "hidden": 1024, "heads": 8, "vocabulary": 1000}
NOISE = {"compute": 0.1, "transfer": 0.1, "host": 0.1, "ends_us": 3}
GB = 10**9


def world(layout, **more):
    return carried_out(Costs(job_of({"model": MODEL, "layout": layout, "steps": 2, **more})))


def calls(told, rank):
    one = told.ranks[rank]
    for base, program in zip(bases(one.programs), one.programs, strict=False):
        for slot, work in enumerate(program.work):
            if isinstance(work, Call):
                at = base + slot
                yield work, int(one.starts[at]), int(one.begins[at]), int(one.ends[at])


def same(one, other):
    return all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for a, b in zip(one.ranks, other.ranks, strict=True)
        for name in ("host_starts", "launches", "starts", "begins", "ends")
    )


def test_a_collective_begins_with_its_last_member_and_moves_by_latency_and_bandwidth():
    told = world("dp 4", cluster={"inside": {"bandwidth": 100 * GB, "latency": 1e-5}}, faults=["slow_device:2:1.5"])
    members = [list(calls(told, rank)) for rank in range(4)]
    for same_call in zip(*members, strict=True):
        starts, begins, ends = ({one[field] for one in same_call} for field in (1, 2, 3))
        assert begins == {max(starts)}
        # In a ring: 6 messages of 10 us, and 6/4 of the bytes at 100 a nanosecond.
        assert ends == {max(starts) + 60_000 + round(same_call[0][0].bytes * 1.5 / 100)}
    assert any(len({one[1] for one in same_call}) > 1 for same_call in zip(*members, strict=True))


def test_work_starts_after_its_launch_its_lane_and_what_it_waits_for():
    told = world({"axes": "dp 2 x tp 2 x pp 2", "microbatches": 4}, noise=NOISE)
    for one in told.ranks:
        for base, program in zip(bases(one.programs), one.programs, strict=False):
            free: dict[int, int] = {}
            for slot, work in enumerate(program.work):
                at = base + slot
                assert one.starts[at] >= max(one.launches[at] + 4_000, free.get(work.lane, 0))
                assert all(one.starts[at] >= one.ends[base + after] for after in work.after if after >= 0)
                free[work.lane] = one.ends[at]


def test_a_seed_gives_the_same_again_and_another_does_not():
    layout = {"axes": "dp 2 x pp 2", "microbatches": 4}
    assert same(world(layout, noise=NOISE, seed=5), world(layout, noise=NOISE, seed=5))
    assert not same(world(layout, noise=NOISE, seed=5), world(layout, noise=NOISE, seed=6))


def test_a_fault_changes_nothing_but_what_it_does():
    plain, slow = world("dp 2", noise=NOISE), world("dp 2", noise=NOISE, faults=["slow_device:1:2"])
    lengths = [[one.ends - one.starts for one in told.ranks] for told in (plain, slow)]
    work = [isinstance(one, Launch) for program in plain.ranks[0].programs for one in program.work]
    assert np.array_equal(lengths[0][0][work], lengths[1][0][work])
    compute = [
        isinstance(one, Launch) and one.kernel.kind == "compute"
        for program in plain.ranks[1].programs
        for one in program.work
    ]
    np.testing.assert_allclose(lengths[1][1][compute], 2 * lengths[0][1][compute], atol=1)


def step_ns(*faults, layout="dp 2"):
    told = world(layout, faults=list(faults))
    return max(int(one.ends.max()) for one in told.ranks) / 2


def test_faults_cost_about_what_they_say():
    healthy = step_ns()
    assert step_ns("data_loader:1:50") - healthy == pytest.approx(50e6, rel=0.05)
    assert step_ns("slow_link:1:3") > healthy + 2e6  # the last call's delay has nothing to hide under
    assert step_ns("late_start:0:40") - healthy == pytest.approx(40e6, rel=0.2)
    assert step_ns("gc:0:50") - healthy == pytest.approx(25e6, rel=0.1)  # in every second step
    for fault in ("throttle", "slow_host", "length_imbalance", "no_overlap", "sync_points", "degraded_link"):
        assert (step_ns(fault) > healthy) != (fault == "length_imbalance"), fault
    assert step_ns("length_imbalance") < healthy


def test_a_degraded_link_moves_bytes_slower_with_the_same_latency():
    cluster = {"inside": {"bandwidth": 100 * GB, "latency": 1e-5}}
    told = world("dp 2", cluster=cluster, faults=["degraded_link:1:4"])
    for call, _, begin, end in calls(told, 0):
        assert end - begin == pytest.approx(20_000 + 4 * call.bytes / 100, abs=2)


FREE = {
    "inside": {"bandwidth": 1e15, "latency": 0}, "between": {"bandwidth": 1e15, "latency": 0}, "memory_bandwidth": 1e18,
}  # fmt: skip
"""With a memory that makes the optimizer free too: on ranks that end early it runs while others still go on."""


@pytest.mark.parametrize(("schedule", "virtual"), [("gpipe", 1), ("1f1b", 1), ("interleaved", 2)])
def test_stages_alike_and_transfers_free_leave_the_bubble_of_theory(schedule, virtual):
    layout = {"pipeline": 4, "microbatches": 8, "schedule": schedule, "stages_per_rank": virtual}
    model = {"preset": "megatron-1.7b", "layers": 8, "vocabulary": 1}
    told = truth_of(carried_out(Costs(job_of({"model": model, "layout": layout, "cluster": FREE, "steps": 1}))))
    share = told.pipeline["bubble_ns"].sum() / told.pipeline["window_ns"].sum()
    assert share == pytest.approx(told.theory["of_makespan"], abs=0.01)


def test_an_order_that_waits_for_itself_is_said_to(monkeypatch):
    def backwards_first(*sizes):
        first, *rest = right(*sizes)
        return [first[::-1], *rest]

    right = training.orders
    monkeypatch.setattr(training, "orders", backwards_first)
    with pytest.raises(Stuck, match="waits for a call that never comes"):
        world({"pipeline": 2, "microbatches": 2})
