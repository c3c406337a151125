"""Folders that hold no single job: a sentence each on the screen, and no wait, blame or bandwidth that was not."""

import json
import re
import shutil

import pytest

from tests import lanes
from tracekit import Analysis, load
from tracekit.cli import main
from tracekit.errors import AmbiguousRanks, NotMeasured

ACROSS = ("waits", "ranks", "blame", "collectives", "bandwidth")
BASE_NS = 1_700_000_000_000_000_000
DAY_NS, MS = 86_400 * 10**9, 10**6
JOB = """
    step   000000000000111111111111222222222222333333333333
    0/7    CCC.........CCC.........CCC.........CCC.........
    0/20   ...NNNNNNN.....NNNNNNN.....NNNNNNN.....NNNNNNN..  bytes=4000
    1/7    CCCCCC......CCCCCC......CCCCCC......CCCCCC......
    1/20   ......NNNN........NNNN........NNNN........NNNN..  bytes=4000
"""


@pytest.fixture
def folder(tmp_path):
    """Writes a drawing's files, each rank's clock ahead by so many nanoseconds."""

    def write(drawing, *ahead_ns, prefix="file_", numbered=False):
        where = tmp_path / "job"
        where.mkdir(exist_ok=True)
        for file in lanes.kineto(drawing, tmp_path):
            trace = json.loads(file.read_text())
            rank = trace["distributedInfo"]["rank"]
            if numbered:
                calls = [one for one in trace["traceEvents"] if "Collective name" in one["args"]]
                for number, call in enumerate(calls):
                    call["args"]["Seq"] = number
            trace["baseTimeNanoseconds"] = BASE_NS + (ahead_ns[rank] if rank < len(ahead_ns) else 0)
            file.unlink()
            (where / f"{prefix}{file.name}").write_text(json.dumps(trace))
        return where

    return write


def screen(folder, capsys):
    """The whole screen of `tracekit analyze`, its spaces made single."""
    assert main(["analyze", str(folder), "--no-cache"]) == 0
    return re.sub(r"\s+", " ", capsys.readouterr().out)


def nothing_across(analysis, why):
    for name in ACROSS:
        with pytest.raises(NotMeasured, match=why):
            analysis[name]


def notes(run):
    return dict(zip(run.notes["code"], run.notes["message"], strict=True))


def test_the_healthy_job_that_the_others_are_made_of(folder, capsys):
    where = folder(JOB)
    assert notes(load(where)) == {}
    assert Analysis(load(where))["ranks"].groupby("rank")["wait_ns"].sum().tolist() == [4 * 3000, 0]
    assert "waiting 1.50 µs a step, 12 % of it: 100 % for rank 1" in screen(where, capsys)


@pytest.mark.parametrize(("apart_ns", "told"), [(100 * MS, "100.0 ms"), (-3 * DAY_NS, "3.0 days")])
def test_a_rank_with_no_overlap_in_time(folder, capsys, apart_ns, told):
    where = folder(JOB, 0, apart_ns)
    run = load(where)
    order = "rank 0 | rank 1" if apart_ns > 0 else "rank 1 | rank 0"
    sentence = (
        f"by their files' clocks these were not profiled at the same time, but {told} apart: {order}. "
        "Is this one job? No wait between them is told"
    )
    assert notes(run)["no-overlap"] == sentence
    assert run.ranks["clock_offset_ns"].tolist() == [0, 0]
    assert set(run.calls["how"]) == {"none"}
    nothing_across(Analysis(run), "could be matched across its ranks")
    shown = screen(where, capsys)
    assert sentence in shown
    assert "waiting" not in shown
    assert "GB/s" not in shown
    assert len(Analysis(run)["breakdown"]) == 8  # each rank by itself is measured all the same


def test_numbers_join_a_rank_whose_clock_is_wrong_and_it_is_said_what_that_rests_on(folder, capsys):
    where = folder(JOB, 0, 100 * MS, numbered=True)
    run = load(where)
    assert run.ranks["clock_offset_ns"].tolist() == [0, 100 * MS]
    assert Analysis(run)["ranks"].groupby("rank")["wait_ns"].sum().tolist() == [4 * 3000, 0]
    assert "If not, their waits mean nothing: 4 calls were joined by their numbers" in screen(where, capsys)


def test_numbers_join_nothing_that_lies_days_apart(folder, capsys):
    where = folder(JOB, 0, 3 * DAY_NS, numbered=True)
    run = load(where)
    assert run.ranks["clock_offset_ns"].tolist() == [0, 0]
    nothing_across(Analysis(run), "could be matched across its ranks")
    assert "but 3.0 days apart: rank 0 | rank 1. Is this one job? No wait" in screen(where, capsys)


def test_clocks_that_count_from_the_machines_start_may_lie_days_apart(folder):
    where = folder(JOB, -BASE_NS + DAY_NS, -BASE_NS + 4 * DAY_NS, numbered=True)
    run = load(where)
    assert run.ranks["clock_offset_ns"].tolist() == [0, 3 * DAY_NS]
    assert "no-overlap" in notes(run)


RERUN = """
    step   000000000000111111111111222222222222333333333333
    0/20   NNN.......................NNN.NNN............NNN  bytes=4000
    1/20   NNN......NNN......NNN.......................NNN.  bytes=4000
"""


def test_two_runs_of_one_script_share_numbers_but_not_calls(folder, capsys):
    # After the clocks are put right the first and last calls would fit; those between end before others begin.
    where = folder(RERUN, 0, 60 * 10**9, numbered=True)
    run = load(where)
    assert set(run.notes["code"]) == {"several-jobs", "no-overlap", "unmatched-calls"}
    assert run.ranks["clock_offset_ns"].tolist() == [0, 0]
    nothing_across(Analysis(run), "could be matched across its ranks")
    shown = screen(where, capsys)
    assert "the calls of rank 1 look like other ranks' calls, but some are over before the others begin" in shown


def test_two_jobs_at_once_that_do_other_things(folder, capsys):
    other = JOB.replace("bytes=4000", "op=all_gather bytes=1000")
    where = folder(other, prefix="other_")
    folder(JOB, prefix="a_")
    for file in ("a_rank1_window0.json", "other_rank0_window0.json"):
        (where / file).unlink()
    nothing_across(Analysis(load(where)), "could be matched across its ranks")
    shown = screen(where, capsys)
    assert "no call ties these clocks together, each file's times are taken as they are: rank 0 | rank 1" in shown
    assert "8 of 8 calls lack a counterpart on a member at hand" in shown
    assert "4 all_reduce of rank 0" in shown
    assert "4 all_gather of rank 1" in shown


def test_all_ranks_of_two_jobs_at_once_are_refused(folder, capsys):
    where = folder(JOB, prefix="a_")
    folder(JOB, 3000, 3000, prefix="b_")
    with pytest.raises(AmbiguousRanks, match="rank 0 at the same time: give the files of one job only"):
        load(where)
    assert main(["analyze", str(where)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_all_ranks_of_two_jobs_one_after_the_other_are_windows_each_by_itself(folder, capsys):
    where = folder(JOB, prefix="a_")
    folder(JOB, DAY_NS, DAY_NS, prefix="b_")
    assert "2 windows of time, each looked at by itself. If these are several jobs, give each a" in screen(
        where, capsys
    )
    run = load(where)
    assert run.calls.groupby("match")["window"].nunique().eq(1).all()


def test_unequal_call_counts_leave_the_odd_ones_out(folder, capsys):
    where = folder(JOB.replace("......NNNN........NNNN..", "......NNNN.............."))
    run = load(where)
    assert run.calls["match"].nunique() == 2
    lone = run.calls[run.calls["match"].isna()]
    assert lone[["rank", "step", "how"]].values.tolist() == [[0, 1, "none"], [0, 3, "none"]]
    waits = Analysis(run)["waits"].set_index(["rank", "step"])
    assert waits.loc[0, "wait_ns"].tolist() == [3000, 0, 3000, 0]
    assert waits.loc[0, "unmatched"].tolist() == [0, 1, 0, 1]
    assert Analysis(run)["blame"]["wait_ns"].tolist() == [6000]
    assert Analysis(run)["collectives"][["calls", "unmatched", "bytes"]].values.tolist() == [[2, 2, 8000]]
    sentence = "2 of 6 calls lack a counterpart on a member at hand, so no wait is told: 2 all_reduce of rank 0"
    assert notes(run)["unmatched-calls"] == sentence
    assert sentence in screen(where, capsys)


def test_a_world_of_one(folder, capsys):
    where = folder("\n".join(line for line in JOB.splitlines() if "1/" not in line))
    run = load(where)
    assert notes(run) == {}
    nothing_across(Analysis(run), "no second rank")
    shown = screen(where, capsys)
    assert "the run has no second rank: who waits for whom takes the traces of two ranks at least" in shown
    assert "waiting" not in shown


MIXES = {
    "years": ([("nanogpt_h100x8", r"rank[01]-"), ("dlrm_x8", r"worker[23]_")], "ranks 2-3 | ranks 0-1"),
    "another size": ([("production_st", r"rank[02]\."), ("production_ar", r"rank[48]\.")], None),
}


@pytest.mark.parametrize("mix", MIXES)
def test_real_files_of_two_jobs(real_traces, tmp_path, capsys, mix):
    parts, apart = MIXES[mix]
    for name, wanted in parts:
        for file in (real_traces / name).iterdir():
            if re.search(wanted, file.name):
                shutil.copy(file, tmp_path / file.name)
    run = load(tmp_path)
    of_job = run.ranks.set_index("rank")["device"] if apart else run.ranks.set_index("rank")["world_size"]
    assert of_job.nunique() == 2
    joined = run.calls[run.calls["match"].notna()]
    assert joined["rank"].map(of_job).groupby(joined["match"]).nunique().eq(1).all()
    blame = Analysis(run)["blame"]
    assert (blame["rank"].map(of_job) == blame["blamed_rank"].map(of_job)).all()
    if apart:
        assert f"days apart: {apart}. Is this one job? No wait between them is told" in notes(run)["no-overlap"]
    else:
        assert "the files tell different world sizes: 8, 64" in screen(tmp_path, capsys)
