import importlib.util

import pytest

from tests import lanes
from tracekit import cli
from tracekit.cli import demo

PRETENDED = """
import shutil, sys
from pathlib import Path
workload, into = sys.argv[1], Path(sys.argv[-1])
assert sys.argv[2] == "--ranks" and sys.argv[-2] == "--out" and into.name == workload, sys.argv
print("training", workload)
out = into
for file in (Path(__file__).parent / "traces").iterdir():
    shutil.copy(file, out)
"""
TWO_RANKS = """
    step   0000000000
    0/main CCCCCC....
    1/main CCCC......
"""


@pytest.fixture
def pretended(tmp_path, monkeypatch):
    """A workload that pretends to train, as the demo would find it."""
    package = tmp_path / "pretended"
    (package / "traces").mkdir(parents=True)
    lanes.kineto(TWO_RANKS, package / "traces")
    (package / "__main__.py").write_text(PRETENDED)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(demo, "workloads_package", lambda: "pretended")
    return package


def test_the_demo_profiles_and_analyses(pretended, capfd, tmp_path):
    out = tmp_path / "kept"
    assert cli.main(["demo", "--out", str(out)]) == 0
    stdout, stderr = capfd.readouterr()
    assert "ranks 0-1 of 2" in stdout
    assert stdout.count("ranks 0-1 of 2") == 2
    assert "training" not in stdout
    assert "training ddp" in stderr
    assert "training pipeline" in stderr
    assert sorted(folder.name for folder in out.iterdir()) == ["ddp", "pipeline"]


def test_without_a_folder_nothing_is_left_behind(pretended, capfd, monkeypatch, tmp_path):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    assert cli.main(["demo"]) == 0
    assert "ranks 0-1 of 2" in capfd.readouterr().out
    assert list((tmp_path / "tmp").glob("tracekit-demo-*")) == []


def test_a_workload_that_fails_is_told(pretended, capfd):
    (pretended / "__main__.py").write_text("import sys; sys.exit('no port is free')")
    assert cli.main(["demo"]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert "no port is free" in err
    assert "the workload ended with code 1" in err.splitlines()[-1]


def hidden(monkeypatch, *names):
    find = importlib.util.find_spec
    monkeypatch.setattr(demo, "find_spec", lambda name: None if name.split(".")[0] in names else find(name))


def test_without_torch_a_sentence_says_how_to_get_it(monkeypatch, capsys):
    hidden(monkeypatch, "torch")
    assert cli.main(["demo"]) == 2
    assert capsys.readouterr().err == (
        "tracekit: the demo trains with PyTorch, which is missing: pip install 'tracekit-torch[workloads]'\n"
    )


def test_without_workloads_a_sentence_says_so(monkeypatch, capsys):
    hidden(monkeypatch, *demo.WORKLOADS)
    assert cli.main(["demo"]) == 2
    assert "reference workloads, which this installation lacks" in capsys.readouterr().err
