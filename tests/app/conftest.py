"""Streamlit's AppTest puts a script of its own in the place of `__main__`, which spawned processes would run again."""

import sys

import pytest


@pytest.fixture(autouse=True)
def same_main():
    """The test process's own main module again, after each test."""
    main = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = main
