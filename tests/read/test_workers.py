import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tracekit.read import workers
from tracekit.read.workers import Workers


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr(workers, "_cores", lambda: 2)


def square(number):
    return number * number


def process(_):
    return os.getpid()


def fail(number):
    raise KeyError(number)


def dies_elsewhere(home):
    """Ends its process, unless it is the one where it was called."""
    if os.getpid() != home:
        os._exit(7)
    return home


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


def test_where_a_process_dies_the_work_is_done_here(two_cores):
    home = os.getpid()
    assert list(Workers().map(dies_elsewhere, [home] * 3, heavy=True)) == [home] * 3


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
