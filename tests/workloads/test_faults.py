"""Each fault really happens: its effect is in the trace, measured by plain code on the JSON."""

from importlib import import_module
from pathlib import Path

import pytest

from tests.workloads import traces
from tests.workloads.traces import (
    EMULATED,
    EMULATED_STEP_MS,
    MS,
    SMALL,
    calls,
    collectives,
    end,
    named,
    products,
    steps,
    total,
)
from workloads import catalog, ddp, faults
from workloads.errors import WrongUse
from workloads.faults import Fault, parse


@pytest.fixture
def run(tmp_path):
    def run(device, *asked):
        options = [part for fault in asked for part in ("--fault", fault)]
        return traces.run(tmp_path, "ddp", "--ranks", "2", *device, *options)

    return run


def quickest_ms(events):
    """Of the many smallest products, which are alike: what a busy machine does to some of them does not show."""
    return min(event["dur"] for event in products(events)) / MS


def compute_ratios(written):
    """How many times as long rank 1 computes as rank 0, in each step."""
    by_rank = [[quickest_ms(step) for step in steps(written.events(rank))] for rank in (0, 1)]
    return [slow / fast for fast, slow in zip(*by_rank, strict=True)]


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    return traces.run(tmp_path_factory.mktemp("healthy"), "ddp", "--ranks", "2", *EMULATED, "--bucket-mb", "0.1")


def happened(written):
    [fault] = written.facts["faults"]
    return fault["happened"]


def added_ms(written):
    """What run.json says was added in each recorded step."""
    return [entry["ns"] / 1e6 for entry in happened(written) if entry["step"] >= 2]


def test_slow_device(run):
    written = run(EMULATED, "slow_device:1:2")
    assert compute_ratios(written) == pytest.approx([2.0] * 3, rel=0.15)
    assert added_ms(written) == pytest.approx([EMULATED_STEP_MS] * 3, rel=0.01)


def test_slow_device_on_a_real_cpu(run):
    # Clear of what ranks on busy cores do to each other, and each operation long enough for a sleep of its own.
    written = run(("--layers", "1", "--width", "256"), "slow_device:1:8")
    assert all(ratio > 2 for ratio in compute_ratios(written))
    assert len(happened(written)) == 5


def test_throttle_begins_in_the_middle(run):
    written = run(EMULATED, "throttle:1:2")
    assert compute_ratios(written) == pytest.approx([1.0, 2.0, 2.0], rel=0.15)
    assert [entry["step"] for entry in happened(written)] == [3, 4]


def test_a_fault_begins_in_the_step_it_is_given(run):
    assert compute_ratios(run(EMULATED, "slow_device:1:2@4")) == pytest.approx([1.0, 1.0, 2.0], rel=0.15)


def test_slow_host(run):
    written = run(EMULATED, "slow_host:1:100")
    healthy, stalled = ([host_ms(step) for step in steps(written.events(rank))] for rank in (0, 1))
    assert min(stalled) > 100 > min(healthy)
    assert all(added >= 100 for added in added_ms(written))


def host_ms(step):
    """Milliseconds of the forward in which nothing is computed."""
    [forward] = named(step, "forward")
    return (forward["dur"] - traces.overlap(forward, products(step))) / MS


def test_data_loader(run):
    written = run(EMULATED, "data_loader:1:100")
    healthy, slow = (
        [span["dur"] / MS for span in named(written.events(rank), "enumerate(DataLoader)")] for rank in (0, 1)
    )
    assert min(slow) > 100 > min(healthy)


def test_gc(run):
    written = run(EMULATED, "gc:1:40")
    assert not named(written.events(0), "Python GC")
    paused = [total(named(step, "Python GC")) / MS for step in steps(written.events(1))]
    assert paused[1] == 0
    assert all(pause > 10 for pause in (paused[0], paused[2]))
    assert added_ms(written) == pytest.approx([paused[0], paused[2]], rel=0.2)


def arrivals(written):
    """Of each collective, by group and number: the spans of rank 0 and rank 1."""
    by_rank = [{(c["group"], c["seq"]): span for c, span in collectives(written.events(rank))} for rank in (0, 1)]
    assert by_rank[0].keys() == by_rank[1].keys()
    return [(by_rank[0][key], by_rank[1][key]) for key in sorted(by_rank[0])]


@pytest.mark.parametrize("device", [SMALL, EMULATED], ids=["cpu", "emulated"])
def test_slow_link_delays_after_all_have_arrived(run, device):
    written = run(device, "slow_link:1:60")
    pairs = arrivals(written)
    assert len(pairs) >= 3
    for here, there in pairs:
        latest = max(here["ts"], there["ts"])
        assert end(here) - latest > 59 * MS
        assert end(there) - latest > 59 * MS
    assert sum(entry["times"] for entry in happened(written) if entry["step"] >= 2) == len(pairs)


def test_late_start(run):
    written = run(EMULATED, "late_start:1:150")
    for others, own in zip(*(steps(written.events(rank)) for rank in (0, 1)), strict=True):
        waited, late = (min((span for _, span in collectives(step)), key=start) for step in (others, own))
        before = max(end(product) for product in products(own) if end(product) < late["ts"])
        assert late["ts"] - before > 150 * MS
        assert end(waited) > late["ts"]
    assert all(added >= 150 for added in added_ms(written))


def start(span):
    return span["ts"]


def test_length_imbalance(run):
    written = run(EMULATED, "length_imbalance")
    rows = [[products(step)[0]["args"]["Input Dims"][0][0] for step in steps(written.events(r))] for r in (0, 1)]
    lengths = [traces.EMULATED_ROWS - count for counts in rows for count in counts]
    assert len(set(lengths)) > 2
    shortened = {(entry["rank"], entry["step"]): entry["tokens"] for entry in happened(written)}
    assert lengths == [shortened[rank, step] for rank in (0, 1) for step in (2, 3, 4)]


def test_no_overlap(run, healthy):
    for step in steps(run(EMULATED, "no_overlap").events(0)):
        [(_, span)] = collectives(step)
        assert span["ts"] > end(products(step)[-1])
    for step in steps(healthy.events(0)):
        assert min(span["ts"] for _, span in collectives(step)) < products(step)[-1]["ts"]


def test_clock_skew_shifts_the_written_times(run):
    written = run(SMALL, "clock_skew:1:60000")
    shift_s = [written.trace(rank)["baseTimeNanoseconds"] / 1e9 for rank in (0, 1)]
    starts = [named(written.events(rank), "ProfilerStep")[0]["ts"] / 1e6 for rank in (0, 1)]
    assert shift_s[1] + starts[1] - shift_s[0] - starts[0] == pytest.approx(60, abs=5)


def test_two_faults_at_once(run):
    written = run(EMULATED, "slow_device:1:2", "late_start:0:50")
    assert compute_ratios(written) == pytest.approx([2.0] * 3, rel=0.15)
    assert [(fault["kind"], fault["rank"], fault["size"]) for fault in written.facts["faults"]] == [
        ("slow_device", 1, 2.0),
        ("late_start", 0, 50.0),
    ]
    assert all(fault["happened"] for fault in written.facts["faults"])


def test_a_healthy_run_has_none_of_it(healthy):
    assert compute_ratios(healthy) == pytest.approx([1.0] * 3, rel=0.15)
    assert not named(healthy.events(0), "Python GC")
    assert len(calls(healthy.events(0))) == len(collectives(healthy.events(0)))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("slow_device", Fault("slow_device", 3, 2.0)),
        ("slow_device:1", Fault("slow_device", 1, 2.0)),
        ("slow_device:1:1.5x", Fault("slow_device", 1, 1.5)),
        ("late_start::80ms", Fault("late_start", 3, 80.0)),
        ("throttle", Fault("throttle", 3, 2.0, step=7)),
        ("throttle:0:3@2", Fault("throttle", 0, 3.0, step=2)),
        ("no_overlap", Fault("no_overlap", None, 1.0)),
    ],
)
def test_spelling(text, fault):
    assert parse(text, ranks=4, middle=7) == fault


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("slow", "no fault 'slow'; it is KIND"),
        ("slow_device:1:fast", "no fault 'slow_device:1:fast'"),
        ("slow_device:1:1.2.3", "no fault 'slow_device:1:1.2.3'"),
        ("slow_device:4", "is on rank 4, but there are 4 ranks"),
        ("no_overlap:1", "befalls all ranks"),
        ("slow_device:1:0", "a size above 0"),
    ],
)
def test_what_is_no_fault_is_refused(text, said):
    with pytest.raises(WrongUse, match=said):
        parse(text, ranks=4, middle=7)


@pytest.mark.parametrize(
    ("kind", "device", "said"),
    [
        ("sync_points", "cpu", "no queue to wait for"),
        ("sync_points", "emulated", "no queue to wait for"),
        ("stage_imbalance", "cpu", "only a pipeline has stages"),
        ("slow_device", "accelerator", "cannot slow its accelerator's clock"),
        ("slow_link", "accelerator", "a transfer is one kernel"),
    ],
)
def test_what_cannot_happen_is_refused_with_a_sentence(kind, device, said):
    with pytest.raises(WrongUse, match=said):
        faults.check(parse(kind, 2, 0), device, ddp, "ddp", 2)


@pytest.mark.parametrize("kind", sorted(faults.BETWEEN_RANKS))
def test_one_rank_alone_has_no_faults_between_ranks(kind):
    with pytest.raises(WrongUse, match="two ranks"):
        faults.check(parse(kind, 1, 0), "cpu", ddp, "ddp", 1)


def test_the_readme_has_the_table_of_all_workloads():
    """Where this fails, paste what `python -m workloads faults` prints."""
    readme = Path(faults.__file__).with_name("README.md").read_text()
    table = faults.markdown({name: import_module(f"workloads.{name}") for name in catalog.workloads()})
    assert f"<!-- what `python -m workloads faults` prints -->\n\n{table}\n\n<!-- end -->" in readme


def test_the_table_has_every_cell():
    table = faults.table(ddp)
    assert set(table) == set(faults.KINDS)
    assert table["slow_host"] == {"cpu": "yes", "emulated": "yes", "accelerator": "yes"}
    assert table["sync_points"]["cpu"] != "yes"
