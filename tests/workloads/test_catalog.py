import importlib

import pytest

from workloads import catalog


@pytest.mark.parametrize("name", catalog.workloads())
def test_a_workload_has_its_three_functions(name):
    module = importlib.import_module(f"workloads.{name}")
    assert all(callable(getattr(module, function)) for function in ("add_options", "layout", "build"))


def test_titles_are_the_first_lines():
    assert catalog.workloads()["ddp"].startswith("Data parallelism:")
