"""What all tests share."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Machines are shared: a slow example is no failure. CI tries the same examples each time, people try new ones.
settings.register_profile("steady", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("steady")

DATA = Path(__file__).parent / "data"
REAL_TRACES = Path(os.environ.get("TRACEKIT_REAL_TRACES") or Path(__file__).parents[2] / "shared" / "traces")


@pytest.fixture(autouse=True)
def cache_folder(tmp_path_factory, monkeypatch):
    """Each test reads with an empty cache of its own."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("TRACEKIT_CACHE", str(folder))
    return folder


@pytest.fixture(scope="session")
def real_traces():
    """The folder of real traces that others made; the repository holds no copy."""
    if not REAL_TRACES.is_dir():
        pytest.skip(f"no real traces at {REAL_TRACES}: set TRACEKIT_REAL_TRACES to their folder")
    return REAL_TRACES


@pytest.fixture(scope="session")
def cases():
    """The folder of small cases whose right answer is known."""
    return DATA / "cases"
