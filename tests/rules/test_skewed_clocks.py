from dataclasses import replace

import pytest

from tests import lanes
from tests.rules.drawn import healthy, job
from tracekit import Analysis
from tracekit.rules import skewed_clocks


def with_clocks(offsets_ms, drifts=(None, None, None), error_ms=0.01):
    run = lanes.run(job(healthy(), healthy()))
    ranks = run.ranks.assign(
        clock_offset_ns=[None if ms is None else round(ms * 1e6) for ms in offsets_ms],
        clock_error_ns=round(error_ms * 1e6),
        clock_drift_ppb=drifts,
    ).astype(run.ranks.dtypes)
    return list(skewed_clocks.check(Analysis(replace(run, ranks=ranks))))


def test_clocks_that_are_milliseconds_apart():
    [finding] = with_clocks([0, 5, -2])
    assert (finding.code, finding.severity, finding.ranks, finding.cost_ns) == ("skewed-clocks", "info", (1, 2), None)
    assert finding.evidence == (
        "rank 1: 5 ms ahead, give or take 0.01 ms", "rank 2: 2 ms behind, give or take 0.01 ms",
    )  # fmt: skip


def test_a_clock_that_drifts():
    [finding] = with_clocks([0, 0, 0], [None, None, -50_000])
    assert finding.ranks == (2,)
    assert finding.evidence == ("rank 2: 0 ms ahead, give or take 0.01 ms; runs 50 ppm slow",)


def test_many_are_eight_lines():
    run = lanes.run(job(healthy(12)))
    run = replace(run, ranks=run.ranks.assign(clock_offset_ns=run.ranks["rank"] * 2_000_000))
    [finding] = skewed_clocks.check(Analysis(run))
    assert (len(finding.ranks), len(finding.evidence)) == (11, 9)
    assert finding.evidence[8] == "and 3 more"


@pytest.mark.parametrize(
    "offsets_ms", [[0, 0, 0], [0, 0.07, -0.07], [0, 1, -1], [0, None, None]]  # GPUs of one host; at the limit; unknown
)  # fmt: skip
def test_silent(offsets_ms):
    assert with_clocks(offsets_ms) == []
