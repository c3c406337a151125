"""Streamlit's AppTest puts a script of its own in the place of `__main__`, which spawned processes would run again."""

import sys

import pytest

from tests import lanes


@pytest.fixture(autouse=True)
def same_main():
    """The test process's own main module again, after each test."""
    main = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = main


@pytest.fixture
def root(tmp_path):
    """A folder with two runs; beside it, outside, a third."""
    below = tmp_path / "root"
    for name in ("a", "deep/b"):
        (below / name).mkdir(parents=True)
        lanes.kineto("0/7 CCC\n1/7 CC", below / name)
    (tmp_path / "secret").mkdir()
    lanes.kineto("0/7 CCC", tmp_path / "secret")
    return below.resolve()
