import gzip
import json
import warnings
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, schedule

from tests.workloads import ranks
from tracekit import load
from tracekit.errors import Unreadable
from tracekit.read.ranks import rank_in_name
from tracekit.read.sources import trace_files
from workloads import communication, traces
from workloads.traces import write_trace, write_traces


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    """No launcher has told this process a rank."""
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)


def train(on_trace_ready, repeat=1, work=lambda step: torch.ones(8, 8) @ torch.ones(8, 8)):
    """Windows of two steps, each after a step of waiting and one of warming up."""
    windows = schedule(wait=1, warmup=1, active=2, repeat=repeat)
    with profile(activities=[ProfilerActivity.CPU], schedule=windows, on_trace_ready=on_trace_ready) as profiler:
        for step in range(4 * repeat):
            work(step)
            profiler.step()


def files(folder):
    return sorted(file.name for file in folder.iterdir())


def test_each_window_is_a_file_of_its_own(tmp_path):
    train(write_traces(tmp_path / "new" / "traces"), repeat=2)
    assert files(tmp_path / "new" / "traces") == ["rank0_step4.json.gz", "rank0_step8.json.gz"]
    run = load(tmp_path / "new" / "traces", cache=False)
    assert run.ranks[["rank", "window", "world_size"]].values.tolist() == [[0, 0, 1], [0, 1, 1]]
    assert run.steps[["window", "step"]].values.tolist() == [[0, 2], [0, 3], [1, 6], [1, 7]]


def test_profilers_that_end_at_the_same_step_get_names_of_their_own(tmp_path):
    write = write_traces(tmp_path)
    for _ in range(3):
        train(write)
    assert files(tmp_path) == ["rank0_step4.json.gz", "rank0_step4_2.json.gz", "rank0_step4_3.json.gz"]
    assert [rank_in_name(name) for name in files(tmp_path)] == [0, 0, 0]
    assert load(tmp_path, cache=False).ranks["window"].tolist() == [0, 1, 2]


def test_without_a_schedule_and_steps(tmp_path):
    with profile(activities=[ProfilerActivity.CPU], on_trace_ready=write_traces(tmp_path)):
        torch.ones(8) + 1
    assert files(tmp_path) == ["rank0_step0.json.gz"]
    assert load(tmp_path, cache=False).ranks["rank"].tolist() == [0]


def test_without_torch_distributed_the_launchers_word_counts(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "13")
    monkeypatch.setenv("WORLD_SIZE", "16")
    train(write_traces(tmp_path))
    assert files(tmp_path) == ["rank13_step4.json.gz"]
    (tmp_path / "rank13_step4.json.gz").rename(tmp_path / "renamed.json.gz")
    assert load(tmp_path, cache=False).ranks[["rank", "world_size"]].values.tolist() == [[13, 16]]


def test_what_pytorch_tells_stays(tmp_path):
    """Events and metadata as PyTorch exported them, beside what is added."""
    kept, ours = tmp_path / "pytorch.json", tmp_path / "ours.json.gz"
    train(lambda profiler: write_trace(profiler, ours, lambda plain: kept.write_bytes(plain.read_bytes())))
    plain = json.loads(kept.read_text())
    alone = {"distributedInfo": {"rank": 0, "world_size": 1}}
    assert json.loads(gzip.decompress(ours.read_bytes())) == {**plain, **alone}


def test_a_trace_of_an_unknown_form_is_written_as_it_is(tmp_path, monkeypatch):
    for text in (b'{"odd": \x01, "traceEvents": []}', b"no trace"):
        monkeypatch.setattr(profile, "export_chrome_trace", lambda _, path, text=text: Path(path).write_bytes(text))
        train(write_traces(tmp_path))
        assert gzip.decompress((tmp_path / "rank0_step4.json.gz").read_bytes()) == text


def test_a_head_that_is_longer_than_a_piece(tmp_path, monkeypatch):
    monkeypatch.setattr(traces, "PIECE_BYTES", 7)
    train(write_traces(tmp_path))
    run = load(tmp_path, cache=False)
    assert run.ranks[["rank", "world_size"]].values.tolist() == [[0, 1]]
    assert run.steps["step"].tolist() == [2, 3]


def test_nobody_sees_half_a_trace(tmp_path, monkeypatch):
    seen = []

    def copy(source, sink, length):
        with pytest.raises(Unreadable):
            trace_files([str(tmp_path)])
        seen.append(files(tmp_path))
        sink.write(source.read())

    monkeypatch.setattr(traces.shutil, "copyfileobj", copy)
    train(write_traces(tmp_path))
    [[unfinished]] = seen
    assert unfinished.startswith(".")
    assert files(tmp_path) == ["rank0_step4.json.gz"]


def test_training_goes_on_where_nothing_can_be_written(tmp_path, monkeypatch):
    def full(source, sink, length):
        raise OSError("no space left on device")

    (tmp_path / "rank0_step4.json.gz").write_bytes(b"of an earlier run")
    steps = []
    monkeypatch.setattr(traces.shutil, "copyfileobj", full)
    with pytest.warns(RuntimeWarning, match=r"no trace rank0_step4\.json\.gz in .*: no space left"):
        train(write_traces(tmp_path), work=steps.append)
    assert steps == [0, 1, 2, 3]
    assert files(tmp_path) == ["rank0_step4.json.gz"]
    assert (tmp_path / "rank0_step4.json.gz").read_bytes() == b"of an earlier run"


def test_a_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").touch()
    with pytest.warns(RuntimeWarning, match="no trace"):
        train(write_traces(tmp_path / "file" / "traces"))


def _in_a_group_made_late(folder, rank):
    """Two windows; the group of the calls is made inside the first one."""
    annotations = communication.annotate(communication.Directly())
    groups = []

    def work(step):
        if step == 1:
            dist.init_process_group("gloo")
        if step == 2:
            groups.append(dist.new_group([0, 1], group_desc="pairs"))
        if step > 2:
            dist.all_reduce(torch.ones(1024), group=groups[0])

    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        train(write_traces(folder), repeat=2, work=work)
    dist.destroy_process_group()
    del annotations


def groups(file):
    info = json.loads(gzip.decompress(file.read_bytes()))["distributedInfo"]
    return [(group["pg_desc"], group["ranks"]) for group in info["pg_config"]]


def test_ranks_tell_their_groups(tmp_path):
    """PyTorch writes those that it had when the window began: in the first without the one that is made in it."""
    ranks.start(partial(_in_a_group_made_late, tmp_path))
    assert files(tmp_path) == [f"rank{rank}_step{step}.json.gz" for rank in (0, 1) for step in (4, 8)]
    assert [groups(file) for file in tmp_path.iterdir()] == [[("default_pg", [0, 1]), ("pairs", [0, 1])]] * 4
    run = load(tmp_path, cache=False)
    told = run.ranks[["rank", "window", "world_size", "backend"]].values.tolist()
    assert told == [[0, 0, 2, "gloo"], [0, 1, 2, "gloo"], [1, 0, 2, "gloo"], [1, 1, 2, "gloo"]]
    second = run.calls[run.calls["window"] == 1]
    assert second[["group", "group_ranks"]].values.tolist() == [["pairs", "[0, 1]"]] * 4
    assert second["match"].nunique() == 2
