import json

import pytest

from tests import lanes
from tracekit.cli import main

DRAWING = """
    0/7  CCCC....
    0/20 ..NNNN..  op=all_reduce group=dp bytes=2048
    1/7  CC......
    1/20 ....NN..  op=all_reduce group=dp bytes=2048
"""


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    lanes.kineto(DRAWING, folder)
    return str(folder)


def test_one_html_file_and_a_comment_and_json(run, tmp_path, capsys):
    page, comment, data = (tmp_path / name for name in ("report.html", "report.md", "report.json"))
    assert main(["report", run, "-o", str(page), "--markdown", str(comment), "--json", str(data)]) == 0
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert comment.read_text(encoding="utf-8").startswith("### tracekit")
    assert json.loads(data.read_text())["run"]["ranks"] == [0, 1]
    assert capsys.readouterr().out == ""


def test_markdown_to_stdout(run, capsys):
    assert main(["report", run, "--markdown", "-"]) == 0
    assert capsys.readouterr().out.startswith("### tracekit")


def test_the_json_is_that_of_analyze(run, capsys):
    assert main(["report", run, "--json", "-"]) == 0
    told = capsys.readouterr().out
    assert main(["analyze", run, "--json", "-"]) == 0
    assert capsys.readouterr().out == told


@pytest.mark.parametrize("options", [[], ["-o", "/no/such/folder/report.html"], ["-o", "."]])
def test_wrong_use_is_one_line(run, options, capsys):
    assert main(["report", run, *options]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_nothing_readable_is_2(tmp_path, capsys):
    assert main(["report", str(tmp_path / "none"), "-o", str(tmp_path / "report.html")]) == 2
    assert not (tmp_path / "report.html").exists()
