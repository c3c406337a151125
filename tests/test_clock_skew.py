"""A file whose clock is wrong: its offset is found within the error bar, and no wait changes.

The job is made up: three ranks whose calls end together but for some microseconds. On a CPU trace of one host, whose
processes read one clock, an offset below a millisecond is held to be the ends' and not the clock's; such traces are in
`tests/workloads/test_across_ranks.py`.
"""

import numpy as np
import pytest

from tests.read.tiny import MAIN, NCCL, kernel, launch, span, write
from tracekit import Analysis, load
from tracekit.waiting import with_waits

RANKS, STEPS, CALLS, CALL_US, JITTER_US = 3, 5, 20, 60.0, 3.0
BASE_NS = 1_700_000_000_000_000_000
SHIFTS_NS = (5_000_000, -5_000_000, 137_000, -137_000, 60 * 10**9)


def job(folder, ahead_ns, numbered):
    """The files of all ranks, the last one's clock ahead; each rank computes until it arrives at the next call."""
    chance = np.random.default_rng(4)
    arrives = chance.uniform(20, 400, (RANKS, STEPS * CALLS))
    lasts = CALL_US * chance.uniform(0.5, 4, STEPS * CALLS)
    ends = np.cumsum(arrives.max(axis=0) + lasts)
    arrives = np.round(arrives + ends - lasts - arrives.max(axis=0), 3)
    over = np.round(ends + np.abs(chance.normal(0, JITTER_US, (RANKS, STEPS * CALLS))), 3)
    edges = [0.0, *ends[CALLS - 1 :: CALLS] + 20]
    steps = [
        span(f"ProfilerStep#{step}", edges[step], edges[step + 1], "user_annotation", MAIN) for step in range(STEPS)
    ]
    for rank in range(RANKS):
        each = zip(range(STEPS * CALLS), [0.0, *ends], arrives[rank], over[rank], strict=False)
        events = [event for call in each for event in events_of(*call, numbered)]
        info = {"backend": "nccl", "rank": rank, "world_size": RANKS}
        base_ns = BASE_NS + (ahead_ns if rank == RANKS - 1 else 0)
        write(folder, [*steps, *events], f"rank{rank}.json", distributedInfo=info, baseTimeNanoseconds=base_ns)
    return load(folder, cache=False)


def events_of(call, since, arrives, over, numbered):
    """Compute, and a call behind it, with their launches."""
    told = {"Process Group Name": "0", "Process Group Ranks": "[0, 1, 2]", "Group size": RANKS, "Seq": call}
    told |= {"dtype": "Float", "In msg nelems": 1000, "Out msg nelems": 1000}
    named = {"Collective name": "allreduce", **(told if numbered else {})}
    begins = since + 4 * JITTER_US
    yield from (launch(2 * call + 1, begins), kernel(begins, arrives, correlation=2 * call + 1))
    yield from (launch(2 * call + 2, begins + 2), kernel(arrives, over, NCCL, 20, correlation=2 * call + 2, **named))


@pytest.fixture(scope="module", params=[True, False], ids=["numbered", "unnumbered"])
def jobs(request, tmp_path_factory):
    """The same job with each shift; without numbers, only those shorter than a call's time."""
    return {
        shift_ns: job(tmp_path_factory.mktemp("job"), shift_ns, request.param)
        for shift_ns in (0, *SHIFTS_NS)
        if request.param or abs(shift_ns) < 10**6
    }


def test_the_offset_is_found_within_its_error_bar(jobs):
    for shift_ns, run in jobs.items():
        assert (run.ranks["clock_offset_ns"].iloc[:2] == 0).all()
        offset_ns, error_ns = run.ranks[["clock_offset_ns", "clock_error_ns"]].iloc[2]
        assert abs(offset_ns - shift_ns) <= error_ns
        assert error_ns <= 2 * JITTER_US * 1000
        assert run.calls["match"].notna().all()


def test_waits_do_not_change(jobs):
    right = waits(jobs[0])
    for run in jobs.values():
        apart_ns = (waits(run) - right).abs()
        assert apart_ns.max() <= run.ranks["clock_error_ns"].max()
        rows, truth = Analysis(run)["ranks"], Analysis(jobs[0])["ranks"]
        assert rows["wait_ns"].sum() == pytest.approx(truth["wait_ns"].sum(), rel=0.01)
        blame, blamed = (Analysis(one)["blame"].groupby("blamed_rank")["wait_ns"].sum() for one in (run, jobs[0]))
        assert blame.tolist() == pytest.approx(blamed.tolist(), rel=0.02)


def waits(run):
    return with_waits(run).calls.set_index(["rank", "start_ns"], append=True).droplevel(2)["wait_ns"].astype("int64")


def test_steps_are_moved_with_the_calls(jobs):
    ends = {shift_ns: run.steps.groupby("step")["end_ns"].agg(np.ptp).max() for shift_ns, run in jobs.items()}
    assert all(apart_ns <= 4 * JITTER_US * 1000 for apart_ns in ends.values())
