"""The small cases of public bug reports, whose right answers are known (`data/cases/CASES.md`)."""

import json
import warnings

import pytest

from tests.read.tiny import codes
from tracekit import Analysis, load
from tracekit.errors import NotMeasured

PARTS = ["compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns"]


@pytest.fixture(scope="module")
def expected(cases):
    return json.loads((cases / "expected.json").read_text())


@pytest.fixture
def read(cases):
    return lambda name: load(cases / name)


def only_row(run, measure="breakdown"):
    [row] = Analysis(run)[measure].to_dict("records")
    return row


def us(value_us):
    return value_us * 1000


def test_t1_rows_that_are_no_work(read, expected):
    want, row = expected["T1"], only_row(read("T1"))
    assert row["step_ns"] == us(want["step_us"])
    assert row["compute_ns"] == us(want["compute_us"])
    assert row["comm_ns"] == us(want["comm_us"])
    assert row["overlap_ns"] == us(want["overlap_us"])
    assert row["exposed_comm_ns"] == us(want["exposed_us"])
    assert row["compute_ns"] + row["exposed_comm_ns"] + row["exposed_memory_ns"] == us(want["busy_us"])
    assert row["idle_ns"] == us(want["idle_us"])
    overlap = only_row(read("T1"), "overlap")["overlap_frac"]
    assert overlap * 100 == pytest.approx(want["overlap_pct"], abs=0.0005)


def test_t1_annotations_and_synchronisation_are_kept_as_what_they_are(read):
    host = read("T1").rank(0).host
    assert host["kind"].value_counts().to_dict() == {
        "annotation": 1, "device_annotation": 2, "device_sync": 2, "overhead": 1, "other": 1,
    }  # fmt: skip


def test_t2_what_is_communication(read, expected):
    want, run = expected["T2"], read("T2")
    row = only_row(run)
    assert row["comm_ns"] == us(want["comm_us"])
    assert row["compute_ns"] == us(want["compute_us"])
    assert row["overlap_ns"] == us(want["overlap_us"])
    assert only_row(run, "overlap")["overlap_frac"] == want["overlap_pct"] / 100
    assert len(run.calls) == want["n_comm"]
    generic = run.calls[run.calls["start_ns"] == 1711964646000020000]
    assert generic["op"].tolist() == [want["generic_op"]]
    assert generic["group"].tolist() == ["fsdp"]


def test_t2b_no_communication_is_not_measured(read, expected):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        analysis = Analysis(read("T2b"))
        row = only_row(analysis.run)
        with pytest.raises(NotMeasured, match="no communication"):
            analysis["overlap"]
    assert (row["comm_ns"], row["compute_ns"]) == (0, us(expected["T2b"]["compute_us"]))


def test_t4_one_moment_in_three_spellings(read, expected):
    run = read("T4")
    assert run.ranks["rank"].tolist() == [0, 1, 2]
    assert run.calls["end_ns"].tolist() == [expected["T4"]["end_ns"]] * 3
    latest_ns = run.calls["start_ns"].max()
    waits = dict(zip(run.calls["rank"], latest_ns - run.calls["start_ns"], strict=True))
    assert waits == {int(rank): us(wait) for rank, wait in expected["T4"]["wait_us"].items()}


def test_t9_work_counts_for_the_step_that_launched_it(read, expected):
    want, run = expected["T9"], read("T9")
    rows = Analysis(run)["breakdown"].set_index("step")
    busy = rows["compute_ns"] + rows["exposed_comm_ns"] + rows["exposed_memory_ns"]
    assert busy.to_dict() == {int(step): us(value) for step, value in want["gpu_busy_us"].items()}
    kernels = run.rank(0).work.groupby("step").size().to_dict()
    assert kernels == {int(step): count for step, count in want["kernels"].items()}
    assert busy.sum() == us(want["total_gpu_busy_us"])
    assert len(rows) == want["n_steps"]


def test_t9b_without_steps_all_is_one(read, expected):
    want, run = expected["T9b"], read("T9b")
    [window] = run.steps[["start_ns", "end_ns"]].values.tolist()
    begin, end = want["window_us"]
    assert window == [1711964646000000000 + us(begin), 1711964646000000000 + us(end)]
    row = only_row(run)
    assert row["step_ns"] - row["idle_ns"] == us(want["gpu_busy_us"])
    assert codes(run) == {"no-steps": 1}


@pytest.mark.parametrize("case", ["T11_quote", "T11_cut", "T11_cut_gzip"])
def test_t11_broken_text_loses_one_event_at_most(read, expected, case):
    want, run = expected["T11"], read(case)
    row = only_row(run)
    assert row["compute_ns"] == us(want["gpu_busy_us"])
    assert len(run.rank(0).work) == want["kernels_recovered"]
    assert run.ranks["dropped"].sum() <= want["events_dropped_at_most"]


def test_t11_a_bare_quote_is_told_with_file_and_offset(read, cases):
    notes = read("T11_quote").notes
    [note] = notes[notes["code"].isin(["lost-event", "mended-event"])].to_dict("records")
    assert note["count"] == 1
    assert note["rank"] == 0
    assert "t11_quote_rank0.json" in note["message"]
    offset = int("".join(filter(str.isdigit, note["message"].split("at byte")[1])))
    broken = (cases / "T11_quote" / "t11_quote_rank0.json").read_bytes().splitlines(keepends=True)
    assert len(b"".join(broken[:2])) <= offset < len(b"".join(broken[:3]))


@pytest.mark.parametrize("case", ["T11_cut", "T11_cut_gzip"])
def test_t11_truncated_is_told(read, case):
    assert codes(read(case))["truncated"] == 1


def test_t11_other_ranks_go_on(cases, tmp_path):
    (tmp_path / "rank0.json").write_bytes((cases / "T11_cut" / "t11_cut_rank0.json").read_bytes())
    whole = (
        (cases / "T2b" / "t2b_rank0.json").read_text().replace('"rank": 0', '"rank": 1').replace(": 1\n }", ": 2\n }")
    )
    (tmp_path / "rank1.json").write_text(whole)
    run = load(tmp_path)
    assert run.ranks["rank"].tolist() == [0, 1]
    assert Analysis(run)["breakdown"].groupby("rank")["compute_ns"].sum().to_dict() == {0: 20_000, 1: 10_000}


def test_t11_the_largest_id_is_kept_exactly(read, expected):
    want, run = expected["T11"]["bigint"], read("T11_bigint")
    assert run.calls["comms_id"].tolist() == [want["comms_id"]]
    assert only_row(run)["comm_ns"] == us(want["comm_us"])


@pytest.mark.parametrize("case", ["T1", "T2", "T2b", "T4", "T5", "T7", "T8", "T9", "T9b", "T11_quote", "T11_bigint"])
def test_the_parts_of_each_step_sum_to_it(read, case):
    rows = Analysis(read(case))["breakdown"]
    assert len(rows)
    assert (rows[PARTS].sum(axis=1) == rows["step_ns"]).all()
