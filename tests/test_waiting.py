from dataclasses import replace

import pandas as pd
import pytest

from tests import lanes
from tracekit import intervals
from tracekit.waiting import exposed_wait, waits_in_steps, with_waits


def calls(run, *columns):
    table = with_waits(run).calls[list(columns)].astype(object)
    return table.where(table.notna(), None).values.tolist()


def test_wait_and_transfer_are_the_duration():
    drawing = "0/20 NNNNNN\n1/20 ...NNN\n2/20 .NNNNN"
    assert calls(lanes.run(drawing), "wait_ns", "transfer_ns", "last_rank") == [
        [3000, 3000, 1],
        [0, 3000, 1],
        [2000, 3000, 1],
    ]


def test_of_several_that_come_last_at_once_the_lowest_is_named():
    assert calls(lanes.run("0/20 NNN\n1/20 .NN\n2/20 .NN"), "last_rank") == [[1], [1], [1]]


def test_a_call_that_was_over_before_the_last_one_came_is_all_wait():
    assert calls(lanes.run("0/20 NN...\n1/20 ...NN"), "wait_ns", "transfer_ns") == [[2000, 0], [0, 2000]]


@pytest.mark.parametrize("op", ["broadcast", "reduce", "gather", "scatter", "unknown"])
def test_without_a_known_root_only_the_last_is_told(op):
    drawing = f"0/20 NNN op={op}\n1/20 .NN op={op}"
    assert calls(lanes.run(drawing), "wait_ns", "transfer_ns") == [[None, None], [0, 2000]]


def test_calls_without_a_counterpart_and_handles_have_neither():
    unmatched = lanes.run("0/20 NN.NN\n1/20 NN...")
    assert calls(unmatched, "wait_ns", "resolvable")[1] == [None, None]
    handles = lanes.run("0/gloo NNN op=send peer=1\n1/gloo .NN op=recv peer=0")
    assert handles.calls["match"].notna().all()
    assert calls(handles, "wait_ns") == [[None], [None]]


def test_a_choice_of_steps_that_leaves_a_member_out_leaves_no_wait():
    run = lanes.run("0/20 NNN\n1/20 .NN")
    assert calls(replace(run, calls=run.calls.iloc[:1]), "wait_ns") == [[None]]


@pytest.mark.parametrize(
    ("errors", "resolvable"),
    [([0, 0], True), ([2000, 1000], True), ([2000, 1001], False), ([None, 0], False), ([None, None], False)],
)
def test_a_wait_is_held_against_the_error_of_both_clocks(errors, resolvable):
    run = lanes.run("0/20 NNNNN\n1/20 ...NN")
    run.ranks["clock_error_ns"] = pd.array(errors, "Int64")
    assert calls(run, "wait_ns", "resolvable")[0] == [3000, resolvable]


def test_the_run_that_was_asked_is_not_changed():
    run = lanes.run("0/20 NNN\n1/20 .NN")
    with_waits(run)
    assert "wait_ns" not in run.calls


def test_waits_are_computed_once_for_a_run_and_not_for_another_of_its_tables():
    run = lanes.run("0/20 NNN\n1/20 .NN")
    assert with_waits(run) is with_waits(run)
    assert with_waits(replace(run, calls=run.calls.iloc[:1])).calls["wait_ns"].isna().all()


def test_exposed_wait_is_a_set_of_time():
    run = with_waits(
        lanes.run("""
        0/20 NNNNN...  group=dp
        0/21 ..NNNNN.  group=tp
        0/7  ..C.....
        1/20 ....N...  group=dp
        1/21 .....NN.  group=tp
    """)
    )
    waits = exposed_wait(run.rank(0))
    assert (waits.starts.tolist(), waits.ends.tolist()) == ([0, 3000], [2000, 5000])
    assert intervals.length(exposed_wait(run.rank(1))) == 0


def test_waits_are_cut_at_the_borders_of_steps():
    run = with_waits(
        lanes.run("""
        step .0011.22
        0/20 NNNNNNNN
        0/7  ..CC....
        1/20 .......N
    """)
    )
    assert waits_in_steps(run.rank(0))[["step", "wait_ns", "exposed_wait_ns"]].values.tolist() == [
        [0, 2000, 1000],
        [1, 2000, 1000],
        [2, 1000, 1000],
    ]
