import sys

import pytest

from tracekit.cli import main
from tracekit.errors import WrongUse

places = sys.modules["tracekit.cli.app"].places


def test_the_root_is_here_unless_told(tmp_path, monkeypatch):
    (tmp_path / "a" / "run").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert places("", "") == (tmp_path, "")
    assert places("a/run", "") == (tmp_path, "a/run")
    assert places("a/run", "a") == (tmp_path / "a", "run")


def test_a_run_elsewhere_has_its_own_folder_as_root(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "there" / "run").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    assert places(str(tmp_path / "there" / "run"), "") == (tmp_path / "there", "run")
    with pytest.raises(WrongUse, match="does not lie below"):
        places(str(tmp_path / "there" / "run"), str(tmp_path / "here"))


def test_what_is_not_there_is_one_line(capsys):
    assert main(["app", "/no/such/run"]) == 2
    assert main(["app", "--root", "/no/such/folder"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_the_server_is_started_on_the_loopback_only(tmp_path, monkeypatch):
    pytest.importorskip("streamlit", reason="the extra 'app' is not installed")
    started = []
    monkeypatch.setattr(sys.modules["tracekit.cli.app"], "carried_out", lambda *asked: started.append(asked) or 0)
    assert main(["app", "--root", str(tmp_path), "--no-browser", "--port", "8123"]) == 0
    [(command, environment)] = started
    assert command[command.index("--server.address") + 1] == "127.0.0.1"
    assert command[command.index("--server.port") + 1] == "8123"
    assert command[command.index("--browser.gatherUsageStats") + 1] == "false"
    assert environment["TRACEKIT_APP_ROOT"] == str(tmp_path)
