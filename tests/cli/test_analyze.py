import json

import pytest

from tests import lanes
from tests.rules.drawn import job, slow
from tracekit import cli
from tracekit.cli.analyze import chosen_steps, fails
from tracekit.errors import WrongUse
from tracekit.model import Finding

TWO_STEPS = """
    step 0000000000111111
    0/7  CCCCCC....CCCC..
    0/20 ....NNNN........
    1/7  CCCCCCCC..CCCC..
    1/20 ........NN......
"""


@pytest.fixture
def folder(tmp_path):
    lanes.kineto(TWO_STEPS, tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def analyze(*argv):
    return cli.main(["analyze", *map(str, argv)])


def test_the_screen_goes_to_stdout_and_nothing_to_stderr(folder, capsys):
    assert analyze(folder, "--no-cache") == 0
    out, err = capsys.readouterr()
    assert "ranks 0-1 of 2" in out
    assert "Ranks, µs a step, mean over 2 complete steps" in out
    assert err == ""


def test_a_pipe_is_80_columns_without_colour(folder, capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert analyze(folder, "--no-cache") == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 80


def test_json_on_stdout_is_all_that_is_there(folder, capsys):
    assert analyze(folder, "--no-cache", "--json", "-") == 0
    parts = json.loads(capsys.readouterr().out)
    assert (parts["schema"], parts["run"]["ranks"]) == (1, [0, 1])
    exposed = [(row["rank"], row["step"], row["exposed_comm_ns"]) for row in parts["measures"]["breakdown"]["rows"]]
    assert exposed == [(0, 0, 2000), (0, 1, 0), (1, 0, 2000), (1, 1, 0)]
    assert "calls" not in parts


def test_json_in_a_file_beside_the_screen(folder, capsys, tmp_path_factory):
    file = tmp_path_factory.mktemp("out") / "account.json"
    assert analyze(folder, "--no-cache", "--json", file, "--calls") == 0
    assert "Ranks, µs a step" in capsys.readouterr().out
    assert [call["op"] for call in json.loads(file.read_text())["calls"]] == ["all_reduce", "all_reduce"]


def test_only_the_chosen_steps(folder, capsys):
    assert analyze(folder, "--no-cache", "--steps", "1", "--json", "-") == 0
    parts = json.loads(capsys.readouterr().out)
    assert {row["step"] for row in parts["steps"]} == {1}


def test_several_paths_are_one_run(folder, capsys):
    assert analyze(*sorted(folder.iterdir()), "--no-cache", "--json", "-") == 0
    assert json.loads(capsys.readouterr().out)["run"]["ranks"] == [0, 1]


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--steps", "7-9"], "it has steps 0-1"),
        (["--steps", "three"], "as in 3 or 3-10"),
        (["--steps", "3-1"], "ends before it begins"),
        (["--calls"], "needs --json"),
        (["--json", "/no/such/folder/file.json"], "there is no folder /no/such/folder"),
        (["--json", "/"], "this is a folder"),
    ],
)
def test_wrong_use_is_one_line_and_exit_2(folder, capsys, argv, says):
    assert analyze(folder, "--no-cache", *argv) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert says in err


def test_an_unknown_path_is_one_line_and_exit_2(capsys):
    assert analyze("/no/such/trace.json") == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "/no/such/trace.json" in err


def test_a_file_that_is_no_trace_is_one_line_and_exit_2(tmp_path, capsys):
    (tmp_path / "notes.json").write_text("{}")
    assert analyze(tmp_path) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "notes.json" in err


def test_a_file_that_cannot_be_written_is_one_line_and_exit_2(folder, capsys):
    assert analyze(folder, "--no-cache", "--json", "/dev/full") == 2
    assert capsys.readouterr().err == "tracekit: --json /dev/full: No space left on device\n"


@pytest.mark.parametrize(("text", "steps"), [("", None), ("3", (3, 3)), ("3-10", (3, 10)), (" 3 - 10 ", (3, 10))])
def test_steps_are_chosen_by_number_or_range(text, steps):
    assert chosen_steps(text) == steps


@pytest.mark.parametrize("text", ["-", "3-", "-3", "3-4-5", "a", "3.0"])
def test_anything_else_is_no_choice_of_steps(text):
    with pytest.raises(WrongUse):
        chosen_steps(text)


# Findings

SLOW = job(slow(2), slow(2), slow(2))
"""Rank 2 computes 12 us instead of 8 in each step of 16."""


@pytest.fixture
def slow_job(tmp_path):
    lanes.kineto(SLOW, tmp_path)
    return tmp_path


def test_the_screen_ends_with_the_findings(slow_job, capsys):
    assert analyze(slow_job, "--no-cache") == 0
    told = " ".join(capsys.readouterr().out.partition("\nFindings: ")[2].split())
    assert "error slow-device 4.00 µs a step" in told
    assert "rank 2's device is slow: the same kernels take 1.50 times as long" in told


@pytest.mark.parametrize(
    ("codes", "exit_code"),
    [
        (["slow-device"], 1),
        (["error"], 1),
        (["warning"], 1),  # or graver
        (["info"], 1),
        (["slow-host"], 0),
        (["slow-host", "slow-device"], 1),
        ([], 0),
        (["slow"], 2),
        (["slow-device", "no-such"], 2),
    ],
)
def test_fail_on(slow_job, codes, exit_code, capsys):
    assert analyze(slow_job, "--no-cache", *(word for code in codes for word in ("--fail-on", code))) == exit_code
    out, err = capsys.readouterr()
    assert ("Findings" in out) == (exit_code < 2)
    assert (err.count("\n") == 1 and "--fail-on takes error, warning, info, blocking-copies" in err) == (exit_code == 2)


def test_fail_on_is_judged_before_anything_is_read(tmp_path, capsys):
    assert analyze(tmp_path / "no-such-folder", "--fail-on", "nonsense") == 2
    assert "nonsense" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("severity", "codes", "answer"),
    [
        ("error", ["error"], True),
        ("error", ["warning"], True),
        ("warning", ["error"], False),
        ("warning", ["warning"], True),
        ("info", ["warning"], False),
        ("info", ["info"], True),
        ("info", ["error", "info"], True),
        ("info", ["a-code"], True),
        ("error", ["another-code"], False),
        ("error", [], False),
    ],
)
def test_what_fails(severity, codes, answer):
    assert fails([Finding("a-code", severity, "title")], codes) == answer


def test_no_finding_fails_nothing():
    assert not fails([], ["info", "slow-device"])


def test_findings_in_json(slow_job, capsys):
    assert analyze(slow_job, "--no-cache", "--json", "-") == 0
    first = json.loads(capsys.readouterr().out)["findings"][0]
    assert list(first) == ["code", "severity", "title", "ranks", "steps", "cost_ns", "evidence", "advice"]
    assert (first["code"], first["severity"], first["ranks"], first["steps"]) == (
        "slow-device",
        "error",
        [2],
        [0, 1, 2],
    )
    assert first["cost_ns"] == 4000
    assert first["evidence"][0].startswith("its kernels take 1.50 times as long")
