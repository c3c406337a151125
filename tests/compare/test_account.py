import pytest

from tests import lanes
from tracekit.analysis import Analysis
from tracekit.compare.account import KINDS, account_of
from tracekit.errors import NotMeasured

DRAWING = """
    step       000000000011111111112222  incomplete=2
    0/main     a......b...c.....d......
    0/7        .CCC....CC..CCC...CC....  by=abcd name=gemm
    0/20       ...NNN....N...NNNN......  bytes=800
    0/9        .......M................
    1/7        .CC.....CC..CC....CCC...  name=gemm
    1/20       ...NNN....N...NNNN......  bytes=800
"""


def account(drawing=DRAWING):
    return account_of(Analysis(lanes.run(drawing)))


def test_the_parts_add_up_to_the_step():
    one = account()
    assert one.step_ns == 10_000
    assert sum(part.ns for part in one.parts) == pytest.approx(10_000, abs=1e-6)


def test_the_parts_of_a_kind_add_up_to_the_breakdowns():
    one, analysis = account(), Analysis(lanes.run(DRAWING))
    means = analysis["breakdown"].query("step < 2").groupby("rank").mean().mean()
    for kind, column in KINDS.items():
        assert sum(part.ns for part in one.parts if part.kind == kind) == pytest.approx(means[column], abs=1e-6)


def test_kernels_and_calls():
    one = account()
    gemm = next(part for part in one.parts if part.name == "gemm")
    # 3+2 and 3+2 us on rank 0, 2+2 and 2+2 us (the last is cut at the step's end) on rank 1: 4.5 a step; two calls
    assert (gemm.calls, gemm.total_ns, gemm.each_ns) == (2.0, 4500.0, 2250.0)
    assert gemm.nth_ns == (2500.0, 2000.0)
    call = next(part for part in one.parts if part.kind == "comm")
    assert (call.name, call.shape) == ("all_reduce default", "800 B")


def test_ranks():
    one = account()
    assert [(rank.rank, rank.step_ns, rank.compute_ns, rank.kernel_calls) for rank in one.ranks] == [
        (0, 10_000, 5000, 2.0), (1, 10_000, 4000, 2.0),
    ]  # fmt: skip


def test_idle_is_told_by_cause_on_devices_only():
    device = account("""
        0/main a...b...
        0/7    CC....CC  by=ab
    """)
    causes = {part.name: part.ns for part in device.parts if part.kind == "idle"}
    assert causes == {"host late": 2000.0, "launch latency": 2000.0}
    cpu = account("0/main CC..CC")
    assert [(part.kind, part.name, part.ns) for part in cpu.parts if part.kind == "idle"] == [
        ("idle", "not told why", 2000.0)
    ]
    assert cpu.gaps == ()


def test_several_windows_add_up():
    one = account("""
        0.0/7 CC..C.
        0.1/7 CCC.
    """)
    assert sum(part.ns for part in one.parts) == pytest.approx(one.step_ns)
    assert one.step_ns == pytest.approx((5000 + 3000) / 2)  # steps are from the first work to the last


def test_no_steps_no_account():
    with pytest.raises(NotMeasured):
        account("0/main OO")
