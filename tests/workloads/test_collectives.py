"""The sweep: right results, right arithmetic, and bytes that are those of theory."""

import json
import re

import pytest

from tests.workloads import traces
from tests.workloads.traces import calls, named, steps
from workloads import launch
from workloads.collectives import IDENTITIES, OPERATIONS, fit, report, sweep

QUICK = ("--min-bytes", "1K", "--max-bytes", "64K", "--size-factor", "8", "--iterations", "2", "--active", "1")
SIZES = {2: [1024, 8192, 65536], 3: [1020, 8184, 65532]}
COUNTED = ("all_reduce_by_ring", "sendrecv")


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory):
    return traces.run(tmp_path_factory.mktemp("two"), "collectives", "--ranks", "2", *QUICK)


@pytest.fixture(scope="module")
def three_ranks(tmp_path_factory):
    return traces.run(tmp_path_factory.mktemp("three"), "collectives", "--ranks", "3", *QUICK)


@pytest.fixture(params=[2, 3])
def written(request, two_ranks, three_ranks):
    return {2: two_ranks, 3: three_ranks}[request.param]


def measured(written):
    return json.loads((written.folder / "collectives.json").read_text())


def tables(written):
    found = measured(written)
    return {**found["operations"], **found["identities"]}


def test_every_operation_is_right_at_every_size(written):
    sizes = SIZES[written.facts["world_size"]]
    assert set(tables(written)) == {operation.name for operation in (*OPERATIONS, *IDENTITIES)}
    for table in tables(written).values():
        assert [(row["size_bytes"], row["count"], row["wrong"]) for row in table["rows"]] == [
            (size, size // 4, 0) for size in sizes
        ]


def test_bandwidths_are_size_by_time_and_times_the_factor(written):
    for table in tables(written).values():
        for row in table["rows"]:
            assert row["time_ns"] > 0
            assert row["algbw_gbs"] == pytest.approx(row["size_bytes"] / row["time_ns"], rel=1e-6)
            assert row["busbw_gbs"] == pytest.approx(row["algbw_gbs"] * table["busbw_factor"])


@pytest.mark.parametrize(
    ("name", "of_two", "of_four", "of_eight"),
    [
        ("all_reduce", 1.0, 1.5, 1.75),
        ("reduce_scatter", 0.5, 0.75, 0.875),
        ("all_gather", 0.5, 0.75, 0.875),
        ("all_to_all", 0.5, 0.75, 0.875),
        ("broadcast", 1.0, 1.0, 1.0),
        ("reduce", 1.0, 1.0, 1.0),
        ("sendrecv", 1.0, 1.0, 1.0),
        ("all_reduce_in_two", 1.0, 1.5, 1.75),
        ("all_reduce_by_ring", 1.0, 1.5, 1.75),
    ],
)
def test_the_factors_of_bus_bandwidth(name, of_two, of_four, of_eight):
    [operation] = [operation for operation in (*OPERATIONS, *IDENTITIES) if operation.name == name]
    assert [operation.busbw_factor(ranks) for ranks in (2, 4, 8)] == [of_two, of_four, of_eight]


def test_the_ring_sends_what_theory_says(written):
    """On three ranks 2·S·2/3, counted by the workload and, apart from that, in the trace."""
    ranks = written.facts["world_size"]
    rows = tables(written)["all_reduce_by_ring"]["rows"]
    theory = {2: [1024, 8192, 65536], 3: [1360, 10912, 87376]}[ranks]
    assert [row["sent_bytes"] for row in rows] == theory
    for rank in range(ranks):
        events = written.events(rank)
        for span, sent_bytes in zip(named(events, "collectives all_reduce_by_ring"), theory, strict=True):
            sent = [call["bytes"] for call in inside(span, events) if call["op"] == "send"]
            assert (sum(sent), len(sent)) == (sent_bytes, 2 * (ranks - 1))


def inside(span, events):
    return [call for call, issued in calls(events) if span["ts"] <= issued["ts"] < traces.end(span)]


ISSUED = {
    "sendrecv": ["send", "recv"],
    "all_reduce_in_two": ["reduce_scatter", "all_gather"],
}


def test_every_call_is_annotated_with_its_size(written):
    ranks = written.facts["world_size"]
    for rank in range(ranks):
        [events] = steps(written.events(rank))
        for operation in (*OPERATIONS, *IDENTITIES[:1]):
            spans = named(events, f"collectives {operation.name} ")
            found = [[(call["op"], call["bytes"]) for call in inside(span, events)] for span in spans]
            expected = ISSUED.get(operation.name, [operation.name])
            assert found == [[(op, size) for op in expected] for size in SIZES[ranks]]


def test_members_count_their_calls_alike(three_ranks):
    def counted(rank):
        return [(call["op"], call["seq"]) for call, _ in calls(steps(three_ranks.events(rank))[0]) if "src" not in call]

    assert counted(0) == counted(1) == counted(2)


def test_the_file_says_what_was_measured_on_what(three_ranks):
    found = measured(three_ranks)
    assert {key: value for key, value in found.items() if key not in ("operations", "identities")} == {
        "schema": 1,
        "ranks": 3,
        "ranks_per_host": 3,
        "device": "cpu",
        "backend": "gloo",
        "dtype": "float32",
        "iterations": 2,
    }
    for table in tables(three_ranks).values():
        assert set(table["fit"]) == {"latency_ns", "bandwidth_gbs", "busbw_gbs", "error_frac"}


def test_the_record_claims_no_model(two_ranks):
    assert (two_ranks.facts["model"], two_ranks.facts["samples_per_step"]) == (None, 0)
    assert two_ranks.facts["layout"]["axes"] == [{"name": "world", "size": 2, "groups": [[0, 1]]}]


def test_a_fit_finds_latency_and_bandwidth():
    sizes = [1000, 10_000, 100_000, 1_000_000]
    found = fit(sizes, [5_000 + size / 2 for size in sizes])
    assert (found.latency_ns, found.bandwidth_gbs) == pytest.approx((5_000, 2.0))
    assert found.error_frac == pytest.approx(0, abs=1e-9)


def test_noise_in_large_arrays_does_not_move_the_latency():
    sizes = [1000, 10_000, 100_000, 1_000_000]
    times = [5_500, 10_000, 55_000, 700_000]
    found = fit(sizes, times)
    assert found.latency_ns == pytest.approx(5_000, rel=0.2)
    assert 0.05 < found.error_frac < 0.2


def test_a_fit_is_never_negative():
    falling = fit([1000, 2000, 4000], [300, 200, 100])
    assert (falling.bandwidth_gbs, falling.latency_ns > 0) == (None, True)
    steep = fit([1000, 2000, 4000], [100, 1000, 4000])
    assert steep.latency_ns == 0
    assert steep.bandwidth_gbs > 0


def test_one_size_tells_no_two_numbers():
    assert fit([1000], [5.0]) is None


def test_sizes_are_whole_elements_for_every_rank():
    assert sweep(1024, 4096, 2, ranks=3) == [1020, 2040, 4092]
    assert sweep(1, 100, 10, ranks=4) == [16, 96]
    assert sweep(1000, 1000, 2, ranks=2) == [1000]


def table_of(text, name):
    section = text.split(f"# {name}\n", 1)[1].split("#\n", 1)[0]
    return [line.split() for line in section.splitlines() if not line.startswith("#")]


def test_the_table_reads_as_that_of_nccl_tests(three_ranks):
    found = measured(three_ranks)
    row = {"size_bytes": 3_000_000, "count": 750_000, "time_ns": 1_500_000, "algbw_gbs": 2.0, "wrong": 0}
    found["operations"]["all_reduce"]["rows"] = [row | {"busbw_gbs": 8 / 3}]
    text = report(found)
    assert table_of(text, "all_reduce") == [
        ["3000000", "750000", "float", "sum", "-1", "1500.00", "2.000", "2.667", "0"]
    ]
    assert [line[:5] for line in table_of(text, "broadcast")] == [
        [str(size), str(size // 4), "float", "none", "0"] for size in SIZES[3]
    ]
    assert len(re.findall(r"^# fit: ", text, re.MULTILINE)) == len(OPERATIONS) + len(IDENTITIES)
    assert "# of 65532 bytes each rank sent 87376, which is 2 S (n-1)/n" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--ranks", "1"), "a collective takes --ranks 2 or more"),
        (("--min-bytes", "4K", "--max-bytes", "1K"), "--min-bytes 4096 is above --max-bytes 1024"),
        (("--max-bytes", "4T"), "'4T' is not a size, such as 512, 64K or 4M"),
        (("--wait", "0"), "the first step is timed"),
        (("--checkpoint-step", "2"), "there is no model to save"),
        (("--fault", "slow_device"), "the sweep computes nothing"),
    ],
)
def test_what_cannot_be_swept_is_refused(tmp_path, capsys, arguments, said):
    assert launch.main(["collectives", "--out", str(tmp_path), *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_slow_link_is_in_the_latency(tmp_path):
    slow = traces.run(tmp_path, "collectives", "--ranks", "2", "--fault", "slow_link:0:5", *QUICK)
    assert all(table["rows"][0]["time_ns"] > 5e6 for table in tables(slow).values())
