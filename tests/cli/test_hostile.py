"""Names out of traces, and of files, reach neither a terminal nor the log of a CI system as commands."""

import json
import os
import re
import select
import subprocess
import sys
import time
import xml.etree.ElementTree as ET

import pytest

from tests import hostile
from tests.app import made
from tracekit import cli

FOLDER = "a\x1b[31m\x9b\u202eb"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Two runs that share no name, a broken one and a history of both, all in folders and files with hostile names."""
    below = tmp_path_factory.mktemp("root") / FOLDER
    made.hostile_traces(below / "base", hostile.CONTROLS, hostile.FILE)
    made.hostile_traces(below / "new", tuple(f"{name} new" for name in hostile.CONTROLS), hostile.FILE)
    (below / "broken").mkdir()
    (below / "broken" / hostile.FILE).write_text("{")
    (below / "half").mkdir()
    (below / "half" / "rank1.json").write_bytes((below / "base" / "rank1.json").read_bytes())
    (below / "half" / hostile.FILE).write_text('{"traceEvents": [{"ph": "X"')
    for run in ("base", "base", "new"):
        assert cli.main(["check", str(below / run), "--save", str(below / "history")]) == 0
    (below / "history" / "x\x1b[31m\x07.summary.json").write_text("{")
    return below


ANSWERS = {
    "analyze": (0, "analyze", "{}/base"),
    "analyze a half": (0, "analyze", "{}/half"),
    "analyze a broken one": (2, "analyze", "{}/broken"),
    "analyze what is not there": (2, "analyze", "{}/no\x1b[31m"),
    "whatif": (0, "whatif", "{}/base"),
    "whatif of an unknown axis": (2, "whatif", "{}/base", "--fix", "axis:x\x1b[31m"),
    "compare": (0, "compare", "{}/base", "{}/new", "--rows", "100"),
    "compare with itself": (0, "compare", "{}/base", "{}/base", "--rows", "100"),
    "check": (3, "check", "{}/new", "--baseline", "{}/base", "--annotate"),
    "check all the same": (2, "check", "{}/new", "--baseline", "{}/base", "--annotate", "--allow", "job"),
    "check as Markdown": (2, "check", "{}/new", "--baseline", "{}/base", "--allow", "job", "--markdown", "-"),
    "check with a history": (2, "check", "{}/new", "--baseline", "{}/history", "--annotate"),
    "save": (0, "check", "{}/base", "--save", "{}/saved\x1b[31m.json"),
    "history": (0, "history", "{}/history"),
    "history of no metric": (2, "history", "{}/history", "--metric", "x\x1b[31m"),
    "explain": (2, "explain", "x\x1b[31m"),
    "export": (0, "export", "{}/base", "--perfetto", "{}/merged\x1b[31m.json"),
    "export for HTA": (0, "export", "{}/base", "--hta", "{}/hta\x1b[31m"),
    "plan": (0, "plan", "layers=4,hidden=256,heads=4,sequence=128\x85,vocabulary=512\x1c", "--gpus", "2"),
    "plan of no model": (2, "plan", "x\x1b[31m", "--gpus", "2"),
    "verify": (0, "plan", "layers=4,hidden=256,heads=4,sequence=128,vocabulary=512", "--verify", "{}/base"),
    "report as Markdown": (0, "report", "{}/base", "--markdown", "-"),
    "report to nowhere": (2, "report", "{}/base", "-o", "{}/no/report.html"),
    "simulate": (0, "simulate", "--out", "{}/made\x1b[31m", "--layout", "dp 2", "--steps", "1"),
    "an unknown option": (2, "analyze", "x", "--\x1b[31m"),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_nothing_printed_is_more_than_text(answer, root, capsys):
    code, *argv = ANSWERS[answer]
    assert cli.main([one.replace("{}", str(root)) for one in argv]) == code
    out, err = capsys.readouterr()
    assert out + err or answer == "save"
    assert hostile.obeyed(out + err) == []
    own = [line for line in (out + err).split("\n") if line.startswith(("::error title=", "::warning title="))]
    rest = [line for line in (out + err).split("\n") if line not in own]
    assert not [line for line in rest if line.lstrip().startswith("::")]
    assert "##[" not in out + err
    assert bool(own) == ("--annotate" in argv)


def test_a_defect_that_names_a_file_is_no_command(monkeypatch, capsys):
    def analyzed(*_, **__):
        raise ZeroDivisionError("".join(hostile.CONTROLS))

    monkeypatch.setattr("tracekit.cli.analyze.analyzed", analyzed)
    monkeypatch.setattr(sys, "argv", ["tracekit", "analyze", "x"])
    with pytest.raises(SystemExit):
        cli.run()
    err = capsys.readouterr().err
    assert "ZeroDivisionError" in err
    assert hostile.obeyed(err) == []


def told_as_json(capsys, *argv):
    assert cli.main([*argv, "--json", "-"]) in (0, 2)
    out = capsys.readouterr().out
    assert hostile.obeyed(out) == []
    return json.loads(out, parse_constant=pytest.fail)


def test_json_keeps_names_exactly(root, capsys):
    told = told_as_json(capsys, "analyze", str(root / "base"), "--calls")
    assert set(hostile.CONTROLS) <= {row["name"] for row in told["measures"]["kernels"]["rows"]}
    assert told["run"]["path"] == str(root / "base")
    told = told_as_json(capsys, "compare", str(root / "base"), str(root / "new"))
    assert any(hostile.CONTROLS[0] in part["name"] for part in told["parts"])
    told_as_json(capsys, "check", str(root / "new"), "--baseline", str(root / "base"), "--allow", "job")
    assert told_as_json(capsys, "history", str(root / "history"))["folder"] == str(root / "history")
    assert told_as_json(capsys, "whatif", str(root / "base"))["run"]["path"] == str(root / "base")


@pytest.mark.parametrize("more", [(), ("--allow", "job")])
def test_junit_xml_is_xml(root, more, tmp_path):
    junit = tmp_path / "junit.xml"
    cli.main(["check", str(root / "new"), "--baseline", str(root / "base"), *more, "--junit", str(junit)])
    tags = {one.tag for one in ET.parse(junit).iter()}
    assert tags <= {"testsuites", "testsuite", "testcase", "failure", "error", "skipped", "system-out"}


OWN = re.compile(r"\x1b\[(\d+(;\d+)*)?[mAK]|\x1b\[\?25[lh]|\r")
"""What the bar of the progress and the colours of a screen are made of: no more than colours and moving up a line."""


@pytest.mark.skipif(sys.platform == "win32", reason="a pseudo-terminal")
@pytest.mark.parametrize("command", ["analyze", "export"])
def test_a_terminal_gets_our_own_colours_only(command, root):
    argv = [command, str(root / "base"), "--no-cache"]
    argv += ["--perfetto", str(root / "merged.json")] if command == "export" else []
    text = on_a_terminal([sys.executable, "-m", "tracekit", *argv])
    assert "reading" in text
    assert hostile.obeyed(OWN.sub("", text)) == []
    assert "red\x1b[31m" not in text


def on_a_terminal(command):
    """What a command prints where stdout and stderr are a terminal."""
    ours, theirs = os.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120"}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    held, until = b"", time.monotonic() + 120
    while time.monotonic() < until:
        if not select.select([ours], [], [], 1)[0]:
            continue
        try:
            read = os.read(ours, 1 << 16)
        except OSError:  # the other side is closed
            break
        if not read:
            break
        held += read
    os.close(ours)
    assert process.wait(30) == 0
    return held.decode()
