import gzip
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
        (["--hta", "."], "must be a new or an empty one"),
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


def test_a_file_for_each_rank(run, tmp_path, capsys):
    folder = tmp_path / "for_hta"
    assert main(["export", str(run), "--hta", str(folder), "--perfetto", str(tmp_path / "merged.json")]) == 0
    told = capsys.readouterr()
    assert sorted(file.name for file in folder.iterdir()) == ["rank0.json.gz", "rank1.json.gz"]
    traces = [json.loads(gzip.decompress((folder / f"rank{rank}.json.gz").read_bytes())) for rank in (0, 1)]
    assert [trace["distributedInfo"]["rank"] for trace in traces] == [0, 1]
    count = sum(len(trace["traceEvents"]) for trace in traces)
    assert f"{folder}: 2 ranks, {count} events; read it with hta.trace_analysis.TraceAnalysis(trace_dir=" in told.out
    assert (tmp_path / "merged.json").is_file()


def test_of_a_rank_with_several_windows_hta_gets_the_first(tmp_path, capsys):
    (tmp_path / "run").mkdir()
    lanes.kineto("0.0/7 CC......\n0.1/7 .....CC.", tmp_path / "run")
    assert main(["export", str(tmp_path / "run"), "--hta", str(tmp_path / "for_hta")]) == 0
    assert "1 rank, the first window of each" in capsys.readouterr().out


def test_a_folder_that_cannot_be_made_is_one_line(run, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["export", str(run), "--hta", str(tmp_path / "file" / "below")]) == 2
    told = capsys.readouterr()
    assert "--hta" in told.err
    assert len(told.err.splitlines()) == 1
