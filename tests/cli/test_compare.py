import json

import pytest

from tests import lanes
from tests.gate.made import summary
from tracekit import cli
from tracekit.gate.summary import write_summary


@pytest.fixture
def pair(tmp_path):
    folders = []
    for name, kernel in (("base", "CCC.."), ("new", "CCCCC")):
        (tmp_path / name).mkdir()
        lanes.kineto(f"step 0000011111\n0/7 {kernel}CCC..", tmp_path / name)
        folders.append(str(tmp_path / name))
    return folders


def test_traces(pair, capsys):
    assert cli.main(["compare", *pair]) == 0
    assert "together: the step's difference" in capsys.readouterr().out


def test_as_json(pair, capsys):
    assert cli.main(["compare", *pair, "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert sum(part["changed_ns"] for part in told["parts"]) == pytest.approx(told["changed_ns"])
    assert told["by_kind"]["compute"] == pytest.approx(1000)  # 2 us longer in one of two steps


def test_summaries(tmp_path, capsys):
    files = [str(write_summary(summary([ms] * 3), tmp_path / f"{ms}.json")) for ms in (100, 120)]
    assert cli.main(["compare", *files]) == 0
    assert capsys.readouterr().out.startswith("step 100.0 ms → 120.0 ms (+20.0 %)")


def test_nothing_to_read_is_2(pair):
    assert cli.main(["compare", pair[0], "nowhere"]) == 2
