import pytest

from tracekit.errors import WrongUse
from tracekit.simulate.faults import KINDS, Fault, parse, product, total


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("slow_device:3:1.2", Fault("slow_device", 3, 1.2)),
        ("slow_device:3:1.2x", Fault("slow_device", 3, 1.2)),
        ("slow_device", Fault("slow_device", 7, 2.0)),
        ("late_start::80ms@2", Fault("late_start", 7, 80, 2)),
        ("throttle", Fault("throttle", 7, 2.0, 3)),
        ("no_overlap", Fault("no_overlap", None, 1.0)),
        ("clock_drift:1:20ppm", Fault("clock_drift", 1, 20)),
    ],
)
def test_spellings(text, fault):
    assert parse(text, ranks=8, steps=6) == fault


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("slow", "no fault 'slow'"),
        ("slow_device:8", "there are 8 ranks"),
        ("slow_device:0:0", "size above 0"),
        ("no_overlap:1", "none can be named"),
        ("lost_events:0:1", "a share is below 1"),
        ("stage_imbalance:0:1.5", "whole layers"),
    ],
)
def test_what_means_nothing_is_refused(text, sentence):
    with pytest.raises(WrongUse, match=sentence):
        parse(text, ranks=8, steps=6)


def test_the_workloads_kinds_are_all_there():
    from workloads.faults import KINDS as OF_WORKLOADS

    assert set(OF_WORKLOADS) <= set(KINDS)
    assert set(KINDS) - set(OF_WORKLOADS) == {"degraded_link", "lost_events", "clock_drift", "missing_ranks"}


def test_sizes_by_rank_and_step():
    faults = [Fault("slow_device", 1, 2.0), Fault("throttle", 1, 3.0, step=2), Fault("gc", None, 5.0)]
    assert [product(faults, ("slow_device", "throttle"), 1, step) for step in (0, 2)] == [2, 6]
    assert product(faults, ("slow_device", "throttle"), 0, 2) == 1
    assert (total(faults, "gc", 0, 0), total(faults, "gc", 4, 1), total(faults, "slow_host", 0, 0)) == (5, 5, 0)
