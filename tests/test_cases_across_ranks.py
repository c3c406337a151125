"""The small cases on ranks together, whose right answers are known (`data/cases/CASES.md`)."""

import json
import shutil

import pytest

from tracekit import Analysis, load
from tracekit.errors import NotMeasured
from tracekit.waiting import with_waits

US = 1000


@pytest.fixture(scope="module")
def expected(cases):
    return json.loads((cases / "expected.json").read_text())


@pytest.fixture
def read(cases):
    return lambda name: load(cases / name)


def waits_us(run, *operations):
    """Microseconds that each rank waits in calls of these operations (or in all)."""
    calls = with_waits(run).calls
    chosen = calls[calls["op"].isin(operations)] if operations else calls
    sums = chosen.groupby("rank")["wait_ns"].sum() // US
    return {str(rank): int(wait) for rank, wait in sums.items()}


def test_t4_three_base_times_are_one_clock(read, expected):
    want, run = expected["T4"], read("T4")
    assert run.calls["end_ns"].tolist() == [want["end_ns"]] * 3
    assert run.ranks["clock_offset_ns"].tolist() == [0, 0, 0]
    assert waits_us(run) == want["wait_us"]
    assert set(with_waits(run).calls["last_rank"]) == {want["last_arrival_rank"]}
    assert set(Analysis(run)["blame"]["blamed_rank"]) == {want["last_arrival_rank"]}
    assert run.calls["start_ns"].max() - run.calls["start_ns"].min() == want["arrival_skew_us"] * US


def test_t5_the_clock_that_is_ahead_is_put_right(read, expected):
    want, run = expected["T5"], read("T5")
    offset_us = want["offset_us_rank1_minus_rank0"]
    assert run.ranks["clock_offset_ns"].tolist() == [0, offset_us * US]
    [note] = run.notes.loc[run.notes["code"] == "clock-offset", "message"]
    assert f"{offset_us:.1f} us ahead of rank 0's" in note
    assert waits_us(run) == want["wait_us"]
    last = with_waits(run).calls.drop_duplicates("match")["last_rank"].value_counts().to_dict()
    assert {str(rank): count for rank, count in last.items()} == want["last_arrivals"]
    blame = Analysis(run)["blame"].groupby("blamed_rank")["wait_ns"].sum()
    assert blame.idxmax() == want["main_straggler"]
    assert blame.to_dict() == {0: want["wait_us"]["1"] * US, 1: want["wait_us"]["0"] * US}


def without_seq(folder, to):
    for file in folder.glob("*.json"):
        trace = json.loads(file.read_text())
        for event in trace["traceEvents"]:
            event.get("args", {}).pop("Seq", None)
        (to / file.name).write_text(json.dumps(trace))
    return to


@pytest.mark.parametrize("numbered", [True, False])
def test_t7_what_is_matched_and_who_waits(cases, expected, tmp_path, numbered):
    want = expected["T7"]
    run = load(cases / "T7" if numbered else without_seq(cases / "T7", tmp_path))
    collectives = run.calls[run.calls["op"] == "all_reduce"]
    assert {str(rank): n for rank, n in collectives.groupby("rank").size().items()} == want["n_collective_calls"]
    assert waits_us(run, "all_reduce") == want["wait_us_collectives"]
    assert waits_us(run, "send", "recv") == want["wait_us_p2p"]
    lone = run.calls[run.calls["match"].isna()]
    assert lone[["rank", "op"]].values.tolist() == [[0, "all_reduce"]]
    assert lone["start_ns"].iloc[0] == run.calls["start_ns"].min()
    table = Analysis(run)["collectives"].set_index("op")
    assert table["calls"].to_dict() == {"all_reduce": 2, "send": 1}
    assert table["unmatched"].to_dict() == {"all_reduce": 1, "send": 0}
    assert set(Analysis(run)["blame"]["blamed_rank"]) == {1}
    if numbered:
        matched = run.calls.dropna(subset="match").drop_duplicates("match")
        told = [[op, seq] for op, seq in matched[["op", "seq"]].values]
        assert told == [["all_reduce", 42], ["all_reduce", 43], ["send", 42]]
        assert lone["seq"].tolist() == [41]


def test_t8_a_receive_whose_sender_is_not_told_is_not_guessed(read):
    run = read("T8")
    assert run.calls["match"].isna().all()
    with pytest.raises(NotMeasured, match="could be matched across its ranks"):
        Analysis(run)["waits"]


def test_the_ranks_of_two_jobs_in_one_folder_share_no_call(cases, tmp_path):
    shutil.copy(next((cases / "T4").glob("*0.json")), tmp_path / "a_rank0.json")
    other = json.loads(next((cases / "T7").glob("*1.json")).read_text())
    (tmp_path / "b_rank1.json").write_text(json.dumps({**other, "baseTimeNanoseconds": 10**18}))
    run = load(tmp_path)
    assert run.ranks["rank"].tolist() == [0, 1]
    with pytest.raises(NotMeasured, match="could be matched"):
        Analysis(run)["waits"]


def test_a_world_of_one_is_a_sentence(cases):
    [file] = list((cases / "T4").glob("*0.json"))
    for name in ("waits", "ranks", "blame", "collectives", "bandwidth"):
        with pytest.raises(NotMeasured, match="no second rank"):
            Analysis(load(file))[name]
