"""Ctrl-C while a job of many ranks is read, and the start after it: real processes."""

import os
import signal
import time

import pytest

from tests.workloads.processes import Session, until
from tracekit import load
from tracekit.cli import main
from tracekit.read.cache import ENTRY

RANKS = 24
BYTES_TO_START_PROCESSES = 5 * 10**6


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """Traces of so many ranks that processes read them, for some seconds."""
    folder = tmp_path_factory.mktemp("job")
    assert main(["simulate", "--layout", f"dp {RANKS}", "--steps", "12", "--out", str(folder)]) == 0
    assert sum(file.stat().st_size for file in folder.glob("rank*")) > BYTES_TO_START_PROCESSES
    return folder


def entries(cache):
    """Each rank's entry, with what changes when it is written again."""
    return {mark.parent.name: (mark.parent.stat().st_ino, mark.stat().st_ino) for mark in cache.glob(f"*/{ENTRY}")}


def interrupted(session, tell):
    """Exit code, stdout and stderr of a process that was interrupted."""
    assert len(session.pids()) > 2, "no other process is reading"
    tell(session.process.pid, signal.SIGINT)
    out, err = session.process.communicate(timeout=60)
    return session.process.returncode, out, err


@pytest.mark.parametrize("tell", [os.killpg, os.kill], ids=["as a terminal does", "as kill does"])
def test_ctrl_c_leaves_what_is_done_and_nothing_else(job, cache_folder, tell):
    with Session("analyze", str(job), module="tracekit") as session:
        until(lambda: len(entries(cache_folder)) >= 3)
        assert interrupted(session, tell) == (130, "", "tracekit: interrupted\n")
        until(lambda: not session.pids())
    done = entries(cache_folder)
    assert 3 <= len(done) < RANKS
    assert {path.name for path in cache_folder.iterdir()} == set(done)


def test_the_next_start_goes_on_from_the_ranks_that_are_done(job, cache_folder):
    with Session("analyze", str(job), module="tracekit") as session:
        until(lambda: len(entries(cache_folder)) >= RANKS // 2)
        interrupted(session, os.killpg)
    done = entries(cache_folder)
    with Session("analyze", str(job), module="tracekit") as session:
        until(lambda: len(entries(cache_folder)) == RANKS)
    after = entries(cache_folder)
    assert {name: after[name] for name in done} == done
    resumed, whole = load(job), load(job, cache=False)
    assert resumed.ranks["rank"].tolist() == list(range(RANKS))
    for table in ("ranks", "steps", "calls", "notes"):
        assert getattr(resumed, table).equals(getattr(whole, table)), table
    assert all(resumed.rank(rank).work.equals(whole.rank(rank).work) for rank in range(0, RANKS, 8))


def test_processes_that_have_just_been_started_say_nothing(job, cache_folder):
    """They hear a terminal's Ctrl-C, too, while they are still importing."""
    with Session("analyze", str(job), module="tracekit") as session:
        until(lambda: len(session.pids()) > 4)
        time.sleep(0.05)
        assert interrupted(session, os.killpg) == (130, "", "tracekit: interrupted\n")
        until(lambda: not session.pids())
    assert {path.name for path in cache_folder.iterdir()} == set(entries(cache_folder))
