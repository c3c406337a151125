import pytest

from tests.rules.drawn import LAUNCHING, found, healthy, job, late, long
from tracekit.rules import warm_up


def steps(*lengths, **options):
    """Two ranks that compute all the time; each step so many microseconds long."""
    ruler = "".join(str(nth) * length for nth, length in enumerate(lengths))
    told = "".join(f" {name}={value}" for name, value in options.items())
    return f"step {ruler}{told}\n0/7 {'C' * len(ruler)}\n1/7 {'C' * len(ruler)}"


def test_the_first_step_takes_twice_as_long():
    [finding] = found(warm_up, steps(20, 10, 10, 10))
    assert (finding.code, finding.severity, finding.steps, finding.cost_ns) == ("warm-up", "info", (0,), None)
    assert finding.title == "step 0 takes 2.0 times as long as the others"
    assert finding.evidence == ("0.02 ms, the others 0.01 ms in the median",)
    assert finding.advice.startswith("leave it out with --steps 1-3")


@pytest.mark.parametrize(
    "drawing",
    [
        steps(10, 10, 10),
        steps(14, 10, 10),  # not that much longer
        steps(10, 20, 10, 10),  # another one
        steps(20, 10),  # two steps tell nothing
        steps(20, 10, 10, 10, incomplete=0),  # left out anyway
        job(late(LAUNCHING), healthy(), healthy()),
        job(*(long(healthy()) for _ in range(3))),
    ],
)
def test_silent(drawing):
    assert found(warm_up, drawing) == []
