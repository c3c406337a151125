"""The GitHub action, without GitHub: the file is what GitHub takes, and its shell steps run here."""

import os
import re
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from tests.gate.made import FACTS, summary
from tracekit.gate.history import read_history
from tracekit.gate.summary import write_summary

ROOT = Path(__file__).parent.parent
STEADY = [100, 101, 99, 100, 102, 98, 100, 101, 99, 100]
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")


@pytest.fixture(scope="module")
def action():
    return yaml.safe_load((ROOT / "action.yml").read_text())


def step(action, name):
    return next(one for one in action["runs"]["steps"] if one["name"] == name)


class Machine:
    """What a runner gives a step: folders, files for outputs, a PATH with tracekit and a `gh` that notes its calls."""

    def __init__(self, folder):
        self.folder = folder
        self.outputs, self.summary = folder / "outputs", folder / "summary"
        binaries = folder / "bin"
        binaries.mkdir()
        self.calls = folder / "gh-calls"
        gh = f'#!/usr/bin/env bash\nprintf "%s\\n" "$*" >> "{self.calls}"\n'
        gh += '[ -z "$OLD" ] || [[ "$*" != *--jq* ]] || echo "$OLD"\n'
        for name, text in {
            "gh": gh,
            "tracekit": f'#!/usr/bin/env bash\nexec "{sys.executable}" -m tracekit "$@"\n',
            "python": f'#!/usr/bin/env bash\nexec "{sys.executable}" "$@"\n',
        }.items():
            (binaries / name).write_text(text)
            (binaries / name).chmod((binaries / name).stat().st_mode | stat.S_IEXEC)
        self.path = f"{binaries}:{os.environ['PATH']}"

    def run(self, action, name, **known):
        """Runs a step with expressions as GitHub would fill them in; gives its exit code and what it printed."""
        given = {f"inputs.{key}": value.get("default", "") for key, value in action["inputs"].items()}
        known = {
            **given,
            "runner.temp": str(self.folder),
            **{key.replace("__", "."): value for key, value in known.items()},
        }
        one = step(action, name)
        filled = {key: EXPRESSION.sub(lambda found: str(known[found[1]]), text) for key, text in one["env"].items()}
        environment = {
            "PATH": self.path, "HOME": str(self.folder), "GITHUB_OUTPUT": str(self.outputs),
            "OLD": known.get("old", ""), "GITHUB_STEP_SUMMARY": str(self.summary), "GITHUB_ACTIONS": "true",
            "PYTHONPATH": str(ROOT), **filled,
        }  # fmt: skip
        script = self.folder / "step.sh"
        script.write_text(one["run"])
        done = subprocess.run(  # as GitHub runs `shell: bash`
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=self.folder, env=environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def told(self):
        lines = self.outputs.read_text().splitlines() if self.outputs.exists() else []
        return dict(line.split("=", 1) for line in lines)

    def save(self, name, factor=1.0, **options):
        write_summary(summary([factor * ms for ms in STEADY], **options), self.folder / name)
        return name


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_it_is_a_composite_action(action):
    assert action["runs"]["using"] == "composite"
    assert all(one["shell"] == "bash" for one in action["runs"]["steps"])
    assert all(value.get("description") for part in ("inputs", "outputs") for value in action[part].values())


def test_no_input_is_pasted_into_a_script(action):
    assert not [one["name"] for one in action["runs"]["steps"] if "${{" in one["run"]]


def test_every_input_is_used(action):
    text = (ROOT / "action.yml").read_text()
    assert [name for name in action["inputs"] if f"inputs.{name}" not in text] == []


@pytest.mark.parametrize(
    ("factor", "outcome", "code"), [(1.0, "same", "0"), (1.3, "worse", "1"), (1.03, "unsure", "0")]
)
def test_the_verdict(action, machine, factor, outcome, code):
    known = {"inputs__run": machine.save("new.json", factor), "inputs__baseline": machine.save("base.json")}
    assert machine.run(action, "Compare", **known)[0] == 0  # the verdict is the last step's
    assert (machine.told()["outcome"], machine.told()["exit-code"]) == (outcome, code)
    assert "### " in machine.summary.read_text()
    final, _ = machine.run(action, "Verdict", **{"steps.check.outputs.exit-code": code})
    assert str(final) == code


def test_several_runs_and_budgets_a_line_each(action, machine):
    known = {
        "inputs__run": f"\n  {machine.save('a b.json', 1.3)}\n  {machine.save('c.json', 1.301)}\n",
        "inputs__baseline": machine.save("base.json"), "inputs__budgets": "step:60%\nfindings:off\n",
    }  # fmt: skip
    _, said = machine.run(action, "Compare", **known)
    assert (machine.told()["outcome"], "new: 2 runs" in said) == ("same", True)


def test_options(action, machine):
    new = machine.save("new.json", 1.03, facts={**FACTS, "device": "A100"})
    known = {"inputs__run": new, "inputs__baseline": machine.save("base.json")}
    machine.run(action, "Compare", **known)
    assert machine.told()["exit-code"] == "3"
    machine.run(action, "Compare", **known, inputs__allow="device\n", inputs__unsure="fail")
    assert (machine.told()["outcome"], machine.told()["exit-code"]) == ("unsure", "1")


@pytest.mark.parametrize("there", [False, True])
def test_the_first_run_has_no_baseline_and_is_saved(action, machine, there):
    if there:
        (machine.folder / "history").mkdir()
    known = {"inputs__run": machine.save("new.json"), "inputs__baseline": "history", "inputs__save": "history"}
    code, said = machine.run(action, "Compare", **known)
    assert (code, machine.told()["outcome"], machine.told()["exit-code"]) == (0, "none", "0")
    assert "there is no baseline at history yet" in said
    assert len(read_history(machine.folder / "history").summaries) == 1
    machine.run(action, "Compare", **known)
    assert machine.told()["outcome"] == "same"
    assert len(read_history(machine.folder / "history").summaries) == 2


def test_what_cannot_be_read_is_no_pass(action, machine):
    (machine.folder / "base.json").write_text('{"schema": 1, "met')
    machine.run(action, "Compare", inputs__run=machine.save("new.json"), inputs__baseline="base.json")
    assert (machine.told()["outcome"], machine.told()["exit-code"]) == ("error", "2")


def test_a_step_that_never_came_is_no_pass(action, machine):
    assert machine.run(action, "Verdict", **{"steps.check.outputs.exit-code": ""})[0] == 2


def test_names_from_outside_are_no_commands(action, machine):
    nasty = '$(touch pwned); "`touch pwned`"'
    machine.run(action, "Compare", inputs__run=nasty, inputs__baseline=machine.save("base.json"), inputs__budgets=nasty)
    assert not (machine.folder / "pwned").exists()
    assert machine.told()["exit-code"] == "2"


@pytest.mark.parametrize(
    ("old", "method"),
    [("", "api repos/me/it/issues/7/comments -F body=@"), ("99", "--method PATCH repos/me/it/issues/comments/99")],
)
def test_one_comment_that_is_written_anew(action, machine, old, method):
    machine.run(
        action, "Compare", inputs__run=machine.save("new.json", 1.3), inputs__baseline=machine.save("base.json")
    )
    known = {"github.repository": "me/it", "github.event.pull_request.number": "7", "old": old}
    assert machine.run(action, "Comment", **known, **{"inputs.token": "t"})[0] == 0
    assert method in machine.calls.read_text().splitlines()[-1]


def test_the_example_uses_the_action_as_it_is(action):
    workflow = yaml.safe_load((ROOT / "examples" / "performance-gate.yml").read_text())
    steps = workflow["jobs"]["gate"]["steps"]
    used = next(one for one in steps if str(one.get("uses", "")).startswith("tracekit/"))
    assert set(used["with"]) <= set(action["inputs"])
    assert workflow["permissions"]["pull-requests"] == "write"
    profile = next(one["run"] for one in steps if one.get("name") == "Profile")
    assert subprocess.run(["bash", "-n"], input=profile, text=True, check=False).returncode == 0
    assert "--device emulated" in profile


def test_what_to_install_is_given_to_pip_word_by_word(action, machine):
    wheel = tiny_wheel(machine.folder)
    words = f"--no-index --no-deps --target {machine.folder / 'site'} {wheel}"
    code, told = machine.run(action, "Install tracekit", inputs__install=words)
    assert code == 0, told
    assert (machine.folder / "site" / "tiny.py").read_text() == "x = 1\n"


def test_an_installation_that_fails_fails_the_step(action, machine):
    code, _ = machine.run(action, "Install tracekit", inputs__install="--no-index no-such-distribution-tracekit")
    assert code != 0


def tiny_wheel(folder):
    path, info = folder / "tiny-1.0-py3-none-any.whl", "tiny-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tiny.py", "x = 1\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path
