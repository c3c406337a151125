"""Traces changed by their structure, and what must hold of them; `python -m benchmarks.fuzz` makes more."""

import os
import random

import pytest

from benchmarks import fuzz
from benchmarks.fuzz import case_of, failure_of
from tests.conftest import DATA
from tracekit.errors import TracekitError

FOUND = [int(line.split("#")[0]) for line in (DATA / "fuzz_seeds.txt").read_text().splitlines()]
NEW = 6
# Other cases each time, the same for all processes of one run; in CI those that every machine knows.
FIRST = 0 if os.environ.get("CI") else random.Random(os.environ.get("PYTEST_XDIST_TESTRUNUID")).randrange(10**9)


@pytest.mark.parametrize("seed", [*FOUND, *range(FIRST, FIRST + NEW)])
def test_nothing_fails(seed):
    failure = failure_of(seed)
    assert failure is None, f"python -m benchmarks.fuzz --seed {seed} --cases 1\n{failure.told}"


def test_a_seed_makes_the_same_case_again(tmp_path):
    made = []
    for name in "ab":
        (tmp_path / name).mkdir()
        case = case_of(7, tmp_path / name)
        made.append(({file.name: file.read_bytes() for file in case.folder.iterdir()}, repr(case.saved)))
    assert made[0] == made[1]
    assert made[0][0]


@pytest.mark.parametrize("why", [KeyError("x"), AssertionError("does not sum"), fuzz.TooLong("20 s")])
def test_whatever_is_raised_but_tracekits_own_errors_is_a_failure(monkeypatch, tmp_path, why):
    def fail(*_):
        raise why

    monkeypatch.setattr(fuzz, "examine", fail)
    failure = failure_of(7, keep=tmp_path)
    assert (failure.seed, type(why).__name__ in failure.kind) == (7, True)
    assert any((tmp_path / "7" / "traces").iterdir())


@pytest.mark.parametrize("part", fuzz.PARTS)
def test_each_part_may_say_that_there_is_nothing_to_tell(monkeypatch, part):
    """Of a run that cannot be read no part is asked, and the gate does not pass it."""

    def unreadable(*_, **__):
        raise TracekitError("nothing can be read")

    monkeypatch.setattr("benchmarks.fuzz_checks.load", unreadable)
    assert failure_of(7, (part,)) is None


def test_a_case_that_takes_too_long_is_ended(monkeypatch):
    def forever(*_):
        while True:
            pass

    monkeypatch.setattr(fuzz, "SECONDS_AT_MOST", 0.1)
    monkeypatch.setattr(fuzz, "examine", forever)
    assert failure_of(7).kind.startswith("TooLong")
