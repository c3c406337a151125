from dataclasses import replace

import pytest

from tests import lanes
from tracekit.analysis import Analysis
from tracekit.model import NOTES, Note, notes_table, table
from tracekit.report.account import NoteGroup, facts, not_measured, notes_by_code, rank_means

TWO_RANKS = """
    step 0000000000
    0/7  CC........
    0/20 ..NNNNNNNN
    1/7  CCCCCCC...
    1/20 .......NNN
"""
THREE_STEPS = """
    step 0000111122  incomplete=2
    0/7  CCC.C...C.
"""


def test_the_rank_that_the_others_wait_for_comes_first():
    means = rank_means(Analysis(lanes.run(TWO_RANKS)))
    assert means[["rank", "steps", "step_ns", "own_ns", "exposed_comm_ns"]].to_numpy().tolist() == [
        [1, 1, 10_000, 10_000, 3_000],
        [0, 1, 10_000, 5_000, 8_000],
    ]


def test_without_known_waits_own_time_is_what_is_not_exposed_communication():
    unmatched = TWO_RANKS.replace("NNN\n", "NNN  match=none\n")
    means = rank_means(Analysis(lanes.run(unmatched)))
    assert means[["rank", "own_ns"]].to_numpy().tolist() == [[1, 7_000], [0, 2_000]]


def test_a_rank_of_which_no_wait_is_known_has_no_own_time_and_comes_last():
    means = rank_means(Analysis(lanes.run(f"{TWO_RANKS}\n2/7 CCCCCCCCCC")))
    assert means["rank"].to_list() == [1, 0, 2]
    assert means["own_ns"].isna().to_list() == [False, False, True]


def test_means_leave_incomplete_steps_out():
    [row] = rank_means(Analysis(lanes.run(THREE_STEPS))).to_dict("records")
    assert (row["steps"], row["step_ns"], row["compute_ns"], row["idle_ns"]) == (2, 4_000, 2_000, 2_000)


def test_without_a_complete_step_there_is_no_mean():
    assert rank_means(Analysis(lanes.run("step 0000  incomplete=0\n0/7 CC.."))).empty


def test_windows_of_a_rank_are_rows_of_their_own():
    means = rank_means(Analysis(lanes.run("0.0/7 CC\n0.1/7 ..CCC")))
    assert means[["rank", "window", "compute_ns"]].to_numpy().tolist() == [[0, 1, 3000], [0, 0, 2000]]


def test_facts_count_what_was_read():
    read = facts(lanes.run(THREE_STEPS))
    assert (read.ranks, read.world_size, read.backends, read.devices) == ((0,), 1, ("nccl",), ("cuda:0",))
    assert (read.steps, read.complete_steps, read.windows, read.events) == (3, 2, 1, 3)


def test_a_step_is_complete_only_where_it_is_so_on_all_ranks():
    read = facts(lanes.run("0/step 0011  incomplete=1\n0/7 CCCC\n1/step 0011\n1/7 CCCC"))
    assert (read.steps, read.complete_steps) == (2, 1)


def test_what_no_file_tells_is_not_told():
    run = lanes.run("0/7 CC")
    unknown = run.ranks.assign(world_size=None, backend="", host="", device=None)
    read = facts(replace(run, ranks=unknown))
    assert (read.world_size, read.backends, read.hosts, read.devices) == (None, (), (), ())


def test_notes_of_one_code_stand_together_the_gravest_first():
    notes = [
        Note("guessed", "info", "g"),
        Note("broken-event", "warning", "first", rank=0, count=2),
        Note("broken-event", "warning", "second", rank=1, count=3),
        Note("lost", "error", "l", rank=1),
    ]
    assert notes_by_code(replace(lanes.run("0/7 CC"), notes=notes_table(notes))) == [
        NoteGroup("lost", "error", (1,), 1, 1, "l"),
        NoteGroup("broken-event", "warning", (0, 1), 2, 5, "first"),
        NoteGroup("guessed", "info", (), 1, 1, "g"),
    ]


def test_what_is_only_for_information_tells_its_rank_instead_of_its_file():
    run = lanes.run("0/7 CC")
    run = replace(run, ranks=run.ranks.assign(file="/somewhere/rank0.json"))
    notes = [
        Note("guessed", "info", "rank0.json: no group: assumed", rank=0),
        Note("broken", "warning", "rank0.json: byte 12", rank=0),
        Note("not-a-trace", "info", "run.json: no traceEvents"),
    ]
    groups = notes_by_code(replace(run, notes=notes_table(notes)))
    assert [group.message for group in groups] == [
        "rank0.json: byte 12",
        "no group: assumed",
        "run.json: no traceEvents",
    ]


def test_no_notes():
    assert notes_by_code(replace(lanes.run("0/7 CC"), notes=table(NOTES))) == []


@pytest.mark.parametrize("name", ["overlap", "memory"])
def test_reasons_why_not(name):
    assert "the run has no" in not_measured(Analysis(lanes.run("0/7 CC")))[name]
