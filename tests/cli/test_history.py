import json

from tests.gate.made import summary
from tracekit import cli
from tracekit.gate.history import add


def fill(folder):
    for n, ms in enumerate((100, 100, 100, 120, 120, 120), 1):
        add(summary([ms, ms], saved_at=f"2026-01-0{n}T00:00:00", commit=f"commit{n}"), folder)
    return str(folder)


def test_a_table(tmp_path, capsys):
    assert cli.main(["history", fill(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "6 runs" in out
    assert "stepped at commit4" in out


def test_as_json(tmp_path, capsys):
    assert cli.main(["history", fill(tmp_path), "--json", "-", "--metric", "step"]) == 0
    assert list(json.loads(capsys.readouterr().out)["metrics"]) == ["breakdown.step_ns"]


def test_wrong_use(tmp_path):
    assert cli.main(["history", str(tmp_path)]) == 2
    assert cli.main(["history", str(tmp_path / "nowhere")]) == 2
    assert cli.main(["history", fill(tmp_path), "--metric", "bubble"]) == 2
