"""A run of a workload on the emulated device beside the simulation of the same job, which reads its run.json only.

Whatever else runs on the machine takes time away, and never gives any: the least disturbed of a few runs counts.
"""

import pytest

from tests.workloads import traces
from tracekit import Analysis, load
from tracekit.plan.described import described_run
from tracekit.simulate import Job, simulate

TRIES, OFF = 3, 0.15
SIZES = (
    *("--layers", "4", "--width", "64", "--sequence", "32", "--vocabulary", "16", "--batch", "4"),
    *("--device", "emulated", "--emulated-flops", "5.2e7", "--wait", "0", "--warmup", "0", "--active", "1"),
)  # products take 20 ms or more
RUNS = {
    "1f1b": ("pipeline", "--ranks", "4", "--microbatches", "8", "--schedule", "1f1b"),
    "gpipe": ("pipeline", "--ranks", "4", "--microbatches", "4", "--schedule", "gpipe"),
    "ddp": ("ddp", "--ranks", "2"),
}


@pytest.mark.parametrize("name", RUNS)
def test_step_and_bubble_are_as_simulated(tmp_path, name):
    for _ in range(TRIES):
        traces.run(tmp_path, *RUNS[name], *SIZES)
        found = beside(tmp_path)
        if all(measured == pytest.approx(simulated, rel=OFF) for measured, simulated in found.values()):
            break
    assert {what: pair[0] for what, pair in found.items()} == pytest.approx(
        {what: pair[1] for what, pair in found.items()}, rel=OFF
    )
    assert ("bubble" in found) == (name != "ddp")


def beside(folder):
    """The step in nanoseconds and the bubble's share of the makespan: measured, simulated."""
    told = described_run(folder / "run.json")
    job = Job(told.model, told.layout, told.cluster, told.precision, steps=1)
    truth, analysis = simulate(job).truth, Analysis(load(folder, cache=False))
    found = {"step": (analysis["breakdown"]["step_ns"].mean(), truth.step_ns)}
    if told.layout.pipeline > 1:
        found["bubble"] = (share(analysis["pipeline"]), share(truth.pipeline))
    return found


def share(rows):
    return rows["bubble_ns"].sum() / rows["window_ns"].sum()
