import json

from tracekit.cli import main

SMALL = "model: {preset: gpt2-small, layers: 4}\nlayout: dp 2\nsteps: 2\n"


def test_a_job_becomes_traces_and_truth(tmp_path, capsys):
    (tmp_path / "job.yaml").write_text(SMALL)
    out = tmp_path / "traces"
    assert main(["simulate", str(tmp_path / "job.yaml"), "--out", str(out), "--fault", "slow_device:1:1.5"]) == 0
    assert sorted(file.name for file in out.iterdir()) == ["rank0.json.gz", "rank1.json.gz", "truth.json"]
    truth = json.loads((out / "truth.json").read_text())
    [fault] = truth["faults"]
    assert (fault["kind"], fault["ranks"], fault["cause"]) == ("slow_device", [1], "device")
    assert fault["cost_ns"] == truth["step_ns"] - truth["healthy_step_ns"] > 0
    shown = capsys.readouterr().out
    assert "2 traces" in shown
    assert "slow_device:1:1.5: cause device, costs" in shown


def test_options_change_what_the_file_says(tmp_path):
    (tmp_path / "job.yaml").write_text(SMALL)
    options = ["--layout", "pp 2", "--microbatches", "4", "--schedule", "gpipe", "--steps", "1", "--seed", "3"]
    assert main(["simulate", str(tmp_path / "job.yaml"), "--out", str(tmp_path / "out"), *options]) == 0
    job = json.loads((tmp_path / "out" / "truth.json").read_text())["job"]
    assert (job["layout"]["data"], job["layout"]["pipeline"], job["layout"]["microbatches"]) == (2, 2, 4)
    assert (job["layout"]["schedule"], job["steps"], job["seed"], job["model"]["layers"]) == ("gpipe", 1, 3, 4)


def test_what_cannot_be_is_one_line_and_code_2(tmp_path, capsys):
    assert main(["simulate", "--out", str(tmp_path), "--fault", "slow"]) == 2
    assert capsys.readouterr().err.startswith("tracekit: no fault 'slow'; it is KIND")
    assert main(["simulate", "--out", __file__]) == 2
    assert "this is a file, not a folder" in capsys.readouterr().err
