import pytest

from tracekit.errors import NotMeasured, WrongUse
from tracekit.gate.budgets import chosen, gated, parsed
from tracekit.gate.metrics import Series

TIME = Series("ns", "down", (1.0,))
SHARE = Series("frac", "down", (0.2,))
OVERLAP = Series("frac", "up", (0.5,))
SPEED = Series("GB/s", "up", (100.0,))
METRICS = {
    "breakdown.step_ns": TIME, "breakdown.exposed_comm_ns": TIME, "exposed.exposed_ns[data]": TIME,
    "exposed.exposed_ns[tensor]": TIME, "pipeline.bubble_frac": SHARE, "overlap.overlap_frac": OVERLAP,
    "bandwidth.busbw_gbs[dp,all_reduce,inside a host,16777216]": SPEED,
    "bandwidth.busbw_gbs[tp,all_gather,unknown,0]": SPEED,
    "host.sync_ns": TIME, "idle.idle_ns": TIME, "breakdown.idle_ns": TIME,
}  # fmt: skip


def limits(*asked, base=200.0):
    found = gated(chosen(asked), asked, METRICS)
    return {name: budget.limit(base, METRICS[name]) for name, budget in found.items()}


@pytest.mark.parametrize(
    ("text", "metric", "limit"),
    [
        ("step:5%", "breakdown.step_ns", 10.0),
        ("step: 5 %", "breakdown.step_ns", 10.0),
        ("exposed_comm:0.5ms", "breakdown.exposed_comm_ns", 0.5e6),
        ("exposed_comm[data]:3us", "exposed.exposed_ns[data]", 3e3),
        ("bubble:+0.02", "pipeline.bubble_frac", 0.02),
        ("overlap:-5%", "overlap.overlap_frac", 10.0),
        ("busbw[all_reduce]:-20GB/s", "bandwidth.busbw_gbs[dp,all_reduce,inside a host,16777216]", 20.0),
        ("host.sync_ns:1s", "host.sync_ns", 1e9),
        ("sync_ns:10%", "host.sync_ns", 20.0),
    ],
)
def test_what_a_budget_means(text, metric, limit):
    assert limits(text)[metric] == pytest.approx(limit)


def test_both_limits_must_be_passed():
    assert limits("step:5%,3ns")["breakdown.step_ns"] == 10.0  # 5 % of 200 ns is more
    assert limits("step:5%,50ns")["breakdown.step_ns"] == 50.0


def test_a_name_without_a_key_means_all_keys():
    assert len([name for name in limits("busbw:-10%") if name.startswith("bandwidth")]) == 2


def test_defaults_gate_what_is_there_and_can_be_taken_away():
    assert set(limits()) == {
        "breakdown.step_ns",
        "pipeline.bubble_frac",
        "overlap.overlap_frac",
    }  # memory: not measured
    assert "breakdown.step_ns" not in limits("step:off")
    assert limits("step:off", "step:5%")["breakdown.step_ns"] == 10.0  # the last of a name counts


@pytest.mark.parametrize(
    "text",
    [
        "step",
        "step:",
        "step:five",
        "step:5%,6%",
        "step:1ms,2ms",
        "step:5 parsecs",
        "overlap:-5%,+1",
        "findings:5",
        "5%",
        "",
    ],
)
def test_what_means_nothing(text):
    with pytest.raises(WrongUse, match="budget"):
        parsed(text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("step:5MiB", "its unit must be % or one of s, ms"),
        ("overlap:+5%", "better when higher"),
        ("step:-5%", "better when lower"),
        ("sped:5%", "no metric 'sped'"),
        ("exposed_comm[pipeline]:5%", r"no such key; there are exposed.exposed_ns\[data\]"),
        ("idle_ns:5%", "may mean breakdown.idle_ns, idle.idle_ns"),
        ("host.launches:5%", "no metric"),  # its measure does not say which way is better
    ],
)
def test_what_cannot_be_gated(text, sentence):
    with pytest.raises(WrongUse, match=sentence):
        limits(text)


def test_a_budget_for_what_nobody_measured_is_no_pass():
    with pytest.raises(NotMeasured, match="neither run has what memory is measured from"):
        limits("memory:5%")
