import io
import os
import subprocess
import sys

import pytest

from tracekit import cli
from tracekit.errors import WrongUse


def test_no_command_prints_the_help(capsys):
    assert cli.main([]) == 0
    assert "analyze" in capsys.readouterr().out


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("tracekit ")


@pytest.mark.parametrize(
    "argv", [["no-such-command"], ["analyze"], ["analyze", "x", "--no-such-option"], ["demo", "--ranks", "none"]]
)
def test_wrong_use_is_one_line_and_exit_2(argv, capsys):
    assert cli.main(argv) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n"), err.startswith("tracekit: ")) == ("", 1, True)


def raising(monkeypatch, why):
    def analyzed(*_, **__):
        raise why

    monkeypatch.setattr("tracekit.cli.analyze.analyzed", analyzed)


def test_a_hostile_message_stays_one_line(monkeypatch, capsys):
    raising(monkeypatch, WrongUse("no file a\nb\x1b[31m\r"))
    assert cli.main(["analyze", "x"]) == 2
    assert capsys.readouterr().err == "tracekit: no file a b\N{REPLACEMENT CHARACTER}[31m \n"


def test_ctrl_c_is_130_and_one_line(monkeypatch, capsys):
    raising(monkeypatch, KeyboardInterrupt())
    assert cli.main(["analyze", "x"]) == 130
    assert capsys.readouterr().err == "tracekit: interrupted\n"


def test_a_full_disk_is_one_line(monkeypatch, capsys):
    raising(monkeypatch, OSError(28, "No space left on device"))
    assert cli.main(["analyze", "x"]) == 2
    assert capsys.readouterr().err == "tracekit: [Errno 28] No space left on device\n"


def test_a_defect_is_not_the_gate_saying_worse(monkeypatch, capsys):
    raising(monkeypatch, ZeroDivisionError("a defect"))
    monkeypatch.setattr(sys, "argv", ["tracekit", "analyze", "x"])
    with pytest.raises(SystemExit) as exit_:
        cli.run()
    assert exit_.value.code == 70
    assert "ZeroDivisionError: a defect" in capsys.readouterr().err


def test_a_closed_pipe_is_quiet():
    reads, writes = os.pipe()
    os.close(reads)
    command = [sys.executable, "-m", "tracekit", "explain"]
    with open(writes, "wb") as closed:
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (141, b"")


def test_help_does_not_load_what_analyses_need():
    code = (
        "import sys, tracekit.cli; tracekit.cli.main(['--help']); print('heavy', {'pandas', 'rich'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "heavy set()"


def test_a_terminal_that_cannot_show_a_character_gets_another(monkeypatch):
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", narrow)
    monkeypatch.setattr(sys, "argv", ["tracekit", "--version"])
    with pytest.raises(SystemExit):
        cli.run()
    narrow.write("µ\n")
    narrow.flush()
    assert narrow.buffer.getvalue().endswith(b"?\n")
