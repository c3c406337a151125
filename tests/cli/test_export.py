import json

import pytest

from tests import lanes
from tracekit.cli import main


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    lanes.kineto("0/7 CC..\n0/20 .NNN\n1/7 CCC.\n1/20 ..NN", folder)
    return folder


def test_one_file_for_all_ranks(run, tmp_path, capsys):
    file = tmp_path / "merged.json"
    assert main(["export", str(run), "--perfetto", str(file)]) == 0
    told = capsys.readouterr()
    count = len(json.loads(file.read_text())["traceEvents"])
    assert told.out == f"{file}: 2 ranks, {count} events; open it at https://ui.perfetto.dev\n"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ([], "nothing to write"),
        (["--perfetto", "merged.txt"], "must end in .json or .json.gz"),
        (["--perfetto", "nowhere/merged.json"], "there is no folder"),
    ],
)
def test_wrong_use_is_one_line(run, capsys, options, why):
    assert main(["export", str(run), *options]) == 2
    told = capsys.readouterr()
    assert why in told.err
    assert len(told.err.splitlines()) == 1
    assert told.out == ""


def test_a_folder_is_no_file(run, tmp_path, capsys):
    (tmp_path / "merged.json").mkdir()
    assert main(["export", str(run), "--perfetto", str(tmp_path / "merged.json")]) == 2
    assert "this is a folder" in capsys.readouterr().err
