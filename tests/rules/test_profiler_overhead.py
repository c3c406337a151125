import pytest

from tests.rules.drawn import LAUNCHING, LOADING, all_late, found, healthy, job, late, long
from tracekit.rules import profiler_overhead

CASE = "aVVVVVVVbcSSSSSS"


def test_the_device_waits_for_the_profiler():
    """From 5 to 8 us, in one of two steps of 16 us."""
    [finding] = found(profiler_overhead, job(late(CASE), late(LAUNCHING)))
    assert (finding.code, finding.severity, finding.cost_ns) == ("profiler-overhead", "info", None)
    assert (finding.ranks, finding.steps) == ((2,), (0,))
    assert finding.evidence == ("for 0.0015 ms a step on rank 2 the device waits for the profiler's own work",)


def test_on_all_ranks():
    [finding] = found(profiler_overhead, job(all_late(CASE), all_late(CASE)))
    assert (finding.ranks, finding.steps) == ((0, 1, 2), (0, 1))


@pytest.mark.parametrize(
    "drawing",
    [
        job(healthy(), healthy()),
        job(late(LAUNCHING), late(LOADING)),  # the host is late for reasons of its own
        job(late("aVVV....bcSSSSSS")),  # over before the device has nothing to do
        job(long(late(CASE)), long(late(CASE))),  # 3 us of 811
    ],
)
def test_silent(drawing):
    assert found(profiler_overhead, drawing) == []
