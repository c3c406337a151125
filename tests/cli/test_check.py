import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests import lanes
from tests.gate.made import FACTS, summary
from tracekit import cli
from tracekit.gate.history import add, read_history
from tracekit.gate.summary import read_summary, write_summary

STEADY = [100, 101, 99, 100, 102, 98, 100, 101, 99, 100]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """No pyproject.toml of this repository, and no CI."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)


def saved(name, factor=1.0, **options):
    return str(write_summary(summary([factor * ms for ms in STEADY], **options), name))


def traces(folder, kernel="CCC"):
    """Five steps of one rank, each with one such kernel."""
    folder.mkdir()
    steps = "".join(str(n) * 8 for n in range(5))
    lanes.kineto(f"step {steps}\n0/7 {(kernel + '.' * (8 - len(kernel))) * 5}", folder)
    return str(folder)


@pytest.mark.parametrize(("factor", "code", "says"), [
    (1.0, 0, "no worse"), (1.3, 1, "worse than the base: step +30.0 %"), (0.7, 0, "better"),
    (1.03, 0, "cannot be told"),
])  # fmt: skip
def test_exit_codes(factor, code, says, capsys):
    assert cli.main(["check", saved("new.json", factor), "--baseline", saved("base.json")]) == code
    assert says in capsys.readouterr().out


def test_unsure_may_fail():
    argv = ["check", saved("new.json", 1.03), "--baseline", saved("base.json"), "--unsure"]
    assert (cli.main([*argv, "fail"]), cli.main([*argv, "pass"])) == (1, 0)


def test_not_comparable_is_3_unless_allowed(capsys):
    argv = ["check", saved("new.json", facts={**FACTS, "device": "A100"}), "--baseline", saved("base.json")]
    assert cli.main(argv) == 3
    assert "--allow 'device'" in capsys.readouterr().out
    assert cli.main([*argv, "--allow", "device"]) == 0


def test_another_jobs_baseline_is_3():
    assert cli.main(["check", saved("new.json"), "--baseline", saved("base.json", kernels={"conv": 1.0})]) == 3


def test_a_run_is_read_saved_and_compared(tmp_path, capsys):
    base = traces(tmp_path / "base")
    assert cli.main(["check", base, "--save", "base.json", "--commit", "abc"]) == 0
    assert (read_summary("base.json").commit, read_summary("base.json").steps) == ("abc", 5)
    assert cli.main(["check", base, "--baseline", "base.json"]) == 0
    assert cli.main(["check", base, "--baseline", base]) == 0
    assert "no worse" in capsys.readouterr().out


def test_a_longer_kernel_is_found_in_traces(tmp_path, capsys):
    base, new = (traces(tmp_path / name, kernel) for name, kernel in (("base", "CCC"), ("new", "CCCCCC")))
    argv = ["check", new, "--baseline", base, "--budget", "compute:10%"]
    assert cli.main(argv) == 1
    assert "compute" in capsys.readouterr().out.splitlines()[0]


def test_several_runs_a_side():
    new = [saved(f"new{n}.json", 1.03 + n / 1000) for n in range(4)]
    base = [option for n in range(4) for option in ("--baseline", saved(f"base{n}.json", 1 + n / 1000))]
    assert cli.main(["check", *new, *base]) == 1  # what single runs could not tell


def test_a_history(capsys):
    for n in range(6):
        add(summary([(1 + n / 5000) * ms for ms in STEADY], saved_at=f"2026-01-0{n + 1}"), "history")
    new = saved("new.json", 1.1)
    assert cli.main(["check", new, "--baseline", "history", "--save", "history"]) == 1
    assert "base: 6 runs, 60 steps" in capsys.readouterr().out
    assert len(read_history("history").summaries) == 7


def test_a_history_with_other_jobs_in_it_is_sieved(capsys):
    for n in range(4):
        add(
            summary(STEADY, saved_at=f"2026-01-0{n + 1}", facts={**FACTS, "device": "A100"} if n % 2 else FACTS),
            "history",
        )
    assert cli.main(["check", saved("new.json"), "--baseline", "history"]) == 0
    assert "base: 2 runs" in capsys.readouterr().out
    only = saved("other.json", facts={**FACTS, "device": "V100"})
    assert cli.main(["check", only, "--baseline", "history"]) == 3


def test_outputs(capsys):
    argv = ["check", saved("new.json", 1.3), "--baseline", saved("base.json")]
    assert cli.main([*argv, "--json", "v.json", "--markdown", "v.md", "--junit", "v.xml", "--annotate"]) == 1
    out = capsys.readouterr().out
    assert "::error title=step is worse::" in out
    assert json.loads(Path("v.json").read_text())["outcome"] == "worse"
    assert "tracekit: worse" in Path("v.md").read_text()
    assert ET.parse("v.xml").getroot()[0].get("failures") == "1"


def test_json_to_stdout_is_nothing_but_json(capsys):
    assert (
        cli.main(["check", saved("new.json", 1.3), "--baseline", saved("base.json"), "--json", "-", "--annotate"]) == 1
    )
    assert json.loads(capsys.readouterr().out)["exit_code"] == 1


def test_github_actions_get_annotations(monkeypatch, capsys):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    cli.main(["check", saved("new.json", 1.3), "--baseline", saved("base.json")])
    assert "::error" in capsys.readouterr().out


def test_settings_of_the_project_hold_and_the_command_line_goes_first():
    new, _ = saved("new.json", 1.3), saved("base.json")
    with open("pyproject.toml", "w") as file:
        file.write('[tool.tracekit]\nbudgets = ["step:60%"]\nbaseline = "base.json"\n')
    assert cli.main(["check", new]) == 0
    assert cli.main(["check", new, "--budget", "step:5%"]) == 1


def broken(name, text):
    with open(name, "w") as file:
        file.write(text)
    return name


BAD = {
    "a truncated summary": lambda folder: broken("base.json", '{"schema": 1, "metrics": {"bre'),
    "a newer schema": lambda folder: broken("base.json", '{"schema": 99, "metrics": {}, "account": {}}'),
    "an old schema": lambda folder: broken("base.json", '{"schema": 0, "metrics": {}, "account": {}}'),
    "no file": lambda folder: "nowhere",
    "an empty file": lambda folder: broken("base.json", ""),
    "an empty folder": lambda folder: str(folder),
    "a text": lambda folder: broken("base.json", "hello"),
    "a trace without events": lambda folder: broken(str(folder / "rank0.json"), '{"traceEvents": []}'),
}


@pytest.mark.parametrize("base", BAD)
def test_a_bad_baseline_is_one_line_and_no_pass(base, tmp_path, capsys):
    folder = tmp_path / "folder"
    folder.mkdir()
    assert cli.main(["check", saved("new.json"), "--baseline", BAD[base](folder)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)


@pytest.mark.parametrize("new", BAD)
def test_a_bad_run_is_one_line_and_no_pass(new, tmp_path, capsys):
    folder = tmp_path / "folder"
    folder.mkdir()
    assert cli.main(["check", BAD[new](folder), "--baseline", saved("good.json")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_one_step_is_no_pass():
    write_summary(summary([100]), "one.json")
    assert cli.main(["check", "one.json", "--baseline", saved("base.json")]) == 2


@pytest.mark.parametrize(
    "argv",
    [
        [], ["--baseline", "base.json", "--unsure", "maybe"], ["--baseline", "base.json", "--budget", "step"],
        ["--baseline", "base.json", "--budget", "bubble:5%"], ["--baseline", "base.json", "--noise", "much"],
        ["--baseline", "base.json", "--json", "no/such/folder/v.json"],
        ["--baseline", "base.json", "--json", "-", "--markdown", "-"], ["--save", "base.json", "--baseline", "nowhere"],
    ],
)  # fmt: skip
def test_wrong_use_is_2(argv):
    saved("base.json")
    assert cli.main(["check", saved("new.json"), *argv]) == 2


def test_a_history_is_not_a_run():
    add(summary(STEADY), "history")
    assert cli.main(["check", "history", "--baseline", saved("base.json")]) == 2


def test_a_crash_is_neither_0_nor_1(monkeypatch, capsys):
    monkeypatch.setattr("tracekit.gate.check.difference", lambda *_: 1 / 0)
    monkeypatch.setattr("sys.argv", ["tracekit", "check", saved("new.json"), "--baseline", saved("base.json")])
    with pytest.raises(SystemExit) as exit_:
        cli.run()
    assert exit_.value.code == 70
    assert "ZeroDivisionError" in capsys.readouterr().err
