"""The gate's promises, on a small scale; `python -m benchmarks.gate` has the large one."""

import numpy as np
import pytest

from benchmarks.gate import LIMIT, rates
from tracekit import Analysis, load
from tracekit.gate.check import check
from tracekit.gate.summary import summary_of
from tracekit.simulate import simulate
from tracekit.simulate.job import job_of

MODEL = {"layers": 2, "hidden": 512, "heads": 8, "sequence": 512, "vocabulary": 8000}


@pytest.mark.parametrize("noise", [0.01, 0.03, 0.05])
def test_no_wolf_is_cried_and_twice_the_noise_is_found(noise):
    rng = np.random.default_rng(1)
    sample = (5, 5, 50)
    assert rates(rng, sample, noise, 0.0, 100).worse <= 0.01
    assert rates(rng, sample, noise, 0.9 * LIMIT, 50).worse <= 0.02
    assert rates(rng, sample, noise, 2 * noise, 50).worse >= 0.9


def simulated(folder, seed, *faults):
    noise = {"compute": 0.05, "transfer": 0.05, "host": 0.05}
    told = {"model": MODEL, "layout": "dp 2", "steps": 6, "seed": seed, "noise": noise, "faults": list(faults)}
    simulate(job_of(told), folder)
    return summary_of(Analysis(load(folder)), commit="simulated")


def test_simulated_traces(tmp_path):
    base, same = (simulated(tmp_path / str(seed), seed) for seed in (1, 2))
    slow = simulated(tmp_path / "slow", 3, "slow_device:1:1.5")
    assert check([base], [same]).exit_code == 0
    verdict = check([base], [slow])
    assert verdict.exit_code == 1
    assert (verdict.reasons[0].cause, verdict.reasons[0].ranks) == ("compute", (1,))
