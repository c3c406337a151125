import pytest

from tests import lanes
from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured
from tracekit.rules import memory_limit


def found(drawing):
    return list(memory_limit.check(Analysis(lanes.run(drawing))))


GIB = "unit=1073741824"
STEPS = "step 000111222"


def test_reserved_is_nearly_all():
    """77 of 80 GiB are 96 %; 8 GiB of the 77 hold tensors, 90 % do not."""
    [finding] = found(f"""
        {STEPS}
        0/memory 488488488  reserved=77 capacity=80 {GIB}
        1/memory 444444444  reserved=40 capacity=80 {GIB}
    """)
    assert (finding.code, finding.severity, finding.ranks, finding.cost_ns) == ("memory-limit", "info", (0,), None)
    assert finding.title == "the device of rank 0 is nearly full: up to 96% of the memory is reserved"
    assert finding.evidence == (
        "rank 0 reserves 77.0 GiB of 80.0 GiB, and tensors hold 8.0 GiB of that at the peak",
        "90% of what is reserved holds no tensor: fragmentation",
    )
    assert finding.advice == "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"


def test_tensors_that_hold_it_are_no_fragmentation():
    [finding] = found(f"{STEPS}\n0/memory 899899899 reserved=10 capacity=10 {GIB}")
    assert finding.evidence[1] == "10% of what is reserved holds no tensor"
    assert finding.advice.startswith("smaller micro-batches")


def test_the_fullest_of_several_is_told():
    [finding] = found(f"""
        {STEPS}
        0/memory 999999999  reserved=95 capacity=100 {GIB}
        1/memory 999999999  reserved=97 capacity=100 {GIB}
    """)
    assert finding.ranks == (0, 1)
    assert finding.title == "devices of ranks 0-1 are nearly full: up to 97% of the memory is reserved"
    assert finding.evidence[0].startswith("rank 1 reserves 97.0 GiB of 100.0 GiB")


@pytest.mark.parametrize("reserved", [50, 92])
def test_silent(reserved):
    assert found(f"{STEPS}\n0/memory 999999999 reserved={reserved} capacity=100") == []


def test_one_step_only():
    """Nine tenths are reserved in the first two steps and all of it in the last one."""
    drawing = """
        step 000111222
        0/memory 999999... reserved=90 capacity=100
        0/memory .......9. reserved=99 capacity=100
    """
    assert found(drawing) == []


def test_a_steps_peak_that_lasts():
    """Of four steps three are full."""
    [finding] = found("""
        step 000111222333
        0/memory 9........... reserved=50 capacity=100
        0/memory ....9...9.9. reserved=95 capacity=100
    """)
    assert finding.ranks == (0,)


def test_memory_of_the_host_is_not_the_devices():
    assert found("step 0011\n0/memory 9999 reserved=99 capacity=100 device=cpu") == []


def test_a_step_that_is_not_complete_does_not_count():
    assert found("step 0011 incomplete=01\n0/memory 9999 reserved=99 capacity=100") == []


def test_without_a_capacity_nothing_is_told():
    with pytest.raises(NotMeasured, match="how much memory"):
        found("step 0011\n0/memory 9999 reserved=99")


def test_without_memory_events_nothing_is_told():
    with pytest.raises(NotMeasured, match="profile_memory"):
        found("step 0011\n0/7 CCCC\n0/memory .... capacity=100")
