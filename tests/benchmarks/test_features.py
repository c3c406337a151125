import importlib
from functools import reduce

import pytest

from benchmarks.features import COLUMNS, FEATURES, section
from benchmarks.peers import DOCUMENT, row

HTA = COLUMNS.index("HTA")


def test_the_document_is_what_the_command_writes():
    assert section() in DOCUMENT.read_text(encoding="utf-8")


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.question)
def test_what_hta_has_is_in_its_source(feature):
    assert bool(feature.hta) == (feature.cells[HTA] in ("yes", "part"))
    if feature.hta:
        pytest.importorskip("hta")
        module, _, name = feature.hta.partition(":")
        assert callable(reduce(getattr, name.split("."), importlib.import_module(module)))


def test_what_is_only_partly_so_is_explained():
    unexplained = [one.question for one in FEATURES if "part" in one.cells and not one.remark]
    assert unexplained == []


def test_ratios_are_tracekits_figure_by_the_peers():
    found = {
        "tracekit": {"seconds": 2.0, "load_seconds": 1.0, "events": 1000.0, "peak_bytes": 300.0, "worker_bytes": 100.0},
        "to_hta": {"seconds": 1.0, "hand_over_seconds": 0.5},
        "hta": {"seconds": 8.0, "load_seconds": 6.0, "peak_bytes": 500.0, "worker_bytes": 300.0},
        "msprof": {"seconds": 4.0, "peak_bytes": 1600.0, "worker_bytes": 0.0},
    }
    told = ["a run", "3.0", "1,000", "0.25", "0.50", "0.25", "0.17", "0.50", "0.25"]
    assert row("a run", 3_000_000, found) == told
    del found["msprof"]
    assert row("a run", 3_000_000, found) == [*told[:7], "-", "-"]
    del found["hta"]
    assert row("a run", 3_000_000, found) == [*told[:3], *["-"] * 6]
