import json

import pytest

from tests import lanes
from tests.replay.drawn import TWO_RANKS
from tracekit.cli import main


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    lanes.kineto(TWO_RANKS.replace("000000000000", "000"), folder)  # the host is done after 3 us
    return str(folder)


def test_the_screen(run, capsys):
    assert main(["whatif", run]) == 0
    out = capsys.readouterr().out
    assert "rank 1 worked like its peers" in out
    assert "--fix rank:1" in out
    assert "0.00 %" in out


def test_json(run, tmp_path, capsys):
    assert main(["whatif", run, "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == 1
    assert {"slowdown", "replay_error_frac", "ideal_step_ns", "by_rank", "by_stage", "by_class"} <= set(told)
    assert set(told["whatif"][0]) == {"what", "step_ns", "saved_ns", "saved_frac"}
    best = told["whatif"][0]
    assert (best["what"], best["saved_ns"]) == ("rank:1", 4000)
    file = tmp_path / "told.json"
    assert main(["whatif", run, "--json", str(file)]) == 0
    assert json.loads(file.read_text()) == told


def test_chosen_changes_and_all_of_them(run, capsys):
    assert main(["whatif", run, "--fix", "rank:1", "--ideal", "collectives", "--links", "2x", "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {one["what"] for one in told["whatif"]} == {
        "rank:1", "collectives", "links:2x", "rank:1 + collectives + links:2x",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--fix", "rank:9"], "the run has no rank 9; it has 0, 1"),
        (["--ideal", "luck"], "--ideal takes"),
        (["--links", "fast"], "--links takes"),
        (["--steps", "7"], "no step from 7 to 7"),
        (["--json", "nowhere/told.json"], "there is no folder"),
    ],
)
def test_wrong_use_is_one_line(run, capsys, options, why):
    assert main(["whatif", run, *options]) == 2
    told = capsys.readouterr()
    assert why in told.err
    assert len(told.err.splitlines()) == 1
    assert told.out == ""
