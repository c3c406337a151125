import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from types import SimpleNamespace
from uuid import uuid4

import pytest

from tracekit.errors import LostWork
from tracekit.read import workers
from tracekit.read.workers import Workers


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr(workers, "_cores", lambda: 2)


def square(number):
    return number * number


def process(_):
    return os.getpid()


def note_and_wait(folder):
    """Leaves a file, and takes its time."""
    (folder / uuid4().hex).touch()
    time.sleep(0.1)


def fail(number):
    raise KeyError(number)


def square_or_die(number):
    """Is killed, as for want of memory, by 3; by 5 once, if the mark is not there."""
    number, *mark = number if isinstance(number, tuple) else (number,)
    if number == 3 or (mark and number == 5 and not os.path.exists(mark[0])):
        if mark and number == 5:
            open(mark[0], "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


@pytest.mark.parametrize("heavy", [False, True])
def test_answers_are_in_order(two_cores, heavy):
    assert list(Workers().map(square, range(20), heavy=heavy)) == [number * number for number in range(20)]


def test_light_work_stays_here():
    assert set(Workers().map(process, range(5), heavy=False)) == {os.getpid()}


def test_heavy_work_goes_to_other_processes(two_cores):
    assert os.getpid() not in set(Workers().map(process, range(5), heavy=True))


def test_a_single_piece_of_heavy_work_stays_here(two_cores):
    assert list(Workers().map(process, [1], heavy=True)) == [os.getpid()]


def test_heavy_work_stays_here_where_there_is_one_core(monkeypatch):
    monkeypatch.setattr(workers, "_cores", lambda: 1)
    assert set(Workers().map(process, range(5), heavy=True)) == {os.getpid()}


@pytest.mark.parametrize("heavy", [False, True])
def test_an_executor_of_the_callers_is_used(heavy):
    with ThreadPoolExecutor(1, initializer=lambda: setattr(os, "tracekit_test", True)) as executor:
        assert list(Workers(executor).map(square, [1, 2, 3], heavy=heavy)) == [1, 4, 9]
        assert executor._threads


@pytest.mark.parametrize("heavy", [False, True])
def test_errors_come_back(two_cores, heavy):
    with pytest.raises(KeyError):
        list(Workers().map(fail, [1, 2], heavy=heavy))


def test_work_of_which_processes_die_is_given_up_and_the_rest_is_done(two_cores):
    given_up = []
    answers = Workers().map(square_or_die, range(40), heavy=True, lost=lambda item: given_up.append(item) or -1)
    assert list(answers) == [-1 if number == 3 else number * number for number in range(40)]
    assert given_up == [3]


def test_work_whose_process_died_once_is_done(two_cores, tmp_path):
    mark = str(tmp_path / "died")
    answers = Workers().map(square_or_die, [(number, mark) for number in (4, 5, 6)], heavy=True)
    assert list(answers) == [16, 25, 36]
    assert os.path.exists(mark)


def test_work_of_which_processes_die_is_an_error_where_nothing_answers_instead(two_cores):
    with pytest.raises(LostWork, match="the work on 3 ended the process that did it, twice"):
        list(Workers().map(square_or_die, [2, 3], heavy=True))


def test_where_no_process_can_live_the_work_is_done_here(two_cores, monkeypatch):
    def none(*_, **__):
        raise BrokenProcessPool

    monkeypatch.setattr(workers, "_pool", lambda: SimpleNamespace(submit=none))
    assert set(Workers().map(process, [1, 2, 3], heavy=True)) == {os.getpid()}


def test_what_an_executor_lost_is_done_by_a_process_of_its_own(two_cores):
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        answers = Workers(executor).map(square_or_die, [2, 3, 4], heavy=True, lost=lambda item: -1)
        assert list(answers) == [4, -1, 16]


def test_who_leaves_early_leaves_no_process_at_work(two_cores, tmp_path):
    answers = Workers().map(note_and_wait, [tmp_path] * 50, heavy=True)
    next(answers)
    answers.close()
    begun = len(list(tmp_path.iterdir()))
    time.sleep(0.5)
    assert len(list(tmp_path.iterdir())) == begun < 50


def test_no_work_at_all(two_cores):
    assert list(Workers().map(square, [], heavy=True)) == []


SCRIPT = """
import os
from tracekit.read import workers
from tracekit.read.workers import Workers
workers._cores = lambda: 2
print("started")
print(list(Workers().map(abs, [-1, -2], heavy=True)))
"""


def test_a_script_without_a_main_guard_runs_once(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stdout.split("\n") == ["started", "[1, 2]", ""]
    assert done.returncode == 0
