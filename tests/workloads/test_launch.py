import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workloads.processes import ROOT, Session, until
from tests.workloads.traces import SMALL, Written
from workloads import launch

needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds processes through /proc")


def endless(folder):
    return Session("ddp", "--ranks", "2", "--out", str(folder), "--wait", "1000000")


def refused(capsys, *arguments):
    code = launch.main(["ddp", "--ranks", "2", *arguments])
    return code, capsys.readouterr().err


def test_sizes_that_do_not_divide_are_named(tmp_path, capsys):
    assert refused(capsys, "--out", str(tmp_path), "--width", "100", "--heads", "3") == (
        2,
        "workloads: --width 100 does not divide by --heads 3\n",
    )


def test_a_port_in_use_is_named(tmp_path, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, said = refused(capsys, "--out", str(tmp_path), "--port", str(port))
    assert (code, said) == (1, f"workloads: port {port} of 127.0.0.1 is taken; leave --port out, or give another\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "the following arguments are required: --out"),
        (("--out", "x", "--ranks", "0"), "argument --ranks: '0' is not a whole number of 1 or more"),
        (("--out", "x", "--bucket-mb", "0"), "argument --bucket-mb: '0' is not a number above 0"),
        (("--out", "x", "--bucket", "3"), "unrecognized arguments: --bucket 3"),
        (("--out", "x", "--device", "abacus"), "no device 'abacus' here"),
        (("--out", "/dev/null/x"), "cannot write to /dev/null/x: Not a directory"),
        (("--out", "x", "--checkpoint-step", "5"), "--checkpoint-step 5, but the last of 5 steps is 4"),
    ],
)
def test_wrong_use_is_one_line(capsys, arguments, said):
    code, error = refused(capsys, *arguments)
    assert code == 2
    assert error.startswith("workloads: ")
    assert said in error
    assert error.count("\n") == 1


def test_an_unknown_workload_is_answered_with_those_there_are(capsys):
    assert launch.main(["dpd"]) == 2
    said = capsys.readouterr().err
    assert "no workload 'dpd'; there are " in said
    assert "ddp" in said


def test_no_workload_is_answered_with_the_list(capsys):
    assert launch.main([]) == 0
    assert "ddp" in capsys.readouterr().out


@needs_proc
def test_a_killed_rank_ends_the_others(tmp_path):
    with endless(tmp_path) as session:
        until(lambda: len(session.ranks()) == 2)
        os.kill(session.ranks()[0], signal.SIGKILL)
        code, said = session.end()
        assert code == 1
        assert said.endswith("was killed by SIGKILL; the other ranks were ended\n")
        assert said.count("\n") == 1
        until(lambda: not session.pids())


@needs_proc
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_all(tmp_path, sent):
    with endless(tmp_path) as session:
        until(lambda: len(session.ranks()) == 2)
        for pid in session.pids() if sent == signal.SIGINT else [session.process.pid]:  # a terminal tells them all
            os.kill(pid, sent)
        assert session.end() == (130, "workloads: interrupted; all ranks were ended\n")
        until(lambda: not session.pids())


@needs_proc
def test_a_killed_launcher_leaves_no_rank(tmp_path):
    with endless(tmp_path) as session:
        until(lambda: len(session.ranks()) == 2)
        os.kill(session.process.pid, signal.SIGKILL)
        until(lambda: not session.pids())


def test_traces_of_an_earlier_run_with_more_ranks_are_taken_away(tmp_path):
    (tmp_path / "rank7.json.gz").touch()
    (tmp_path / "mine.txt").touch()
    assert launch.main(["ddp", *SMALL, "--ranks", "1", "--out", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"run.json", "rank0.json.gz", "mine.txt"}


def test_installed_it_runs_under_its_own_name(tmp_path):
    """The wheel installs the folder as `tracekit_workloads`."""
    (tmp_path / "tracekit_workloads").symlink_to(ROOT / "workloads")
    command = [sys.executable, "-m", "tracekit_workloads", "ddp", *SMALL, "--ranks", "1", "--out", "out"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    assert Written(tmp_path / "out").facts["command"].startswith("python -m tracekit_workloads ddp")


def test_torchrun_starts_it_too(tmp_path):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    subprocess.run(
        [*torchrun, "-m", "workloads.ddp", "--out", tmp_path], cwd=ROOT, check=True, capture_output=True, timeout=120
    )
    assert Written(tmp_path).facts["world_size"] == 2
    assert {path.name for path in tmp_path.iterdir()} == {"run.json", "rank0.json.gz", "rank1.json.gz"}
