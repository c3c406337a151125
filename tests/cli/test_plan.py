import json
import re
from pathlib import Path

import pytest

from tracekit import cli

DATA = Path(__file__).parent.parent / "data"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setenv("COLUMNS", "100")


def planned(capsys, *argv):
    assert cli.main(["plan", *map(str, argv), "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


def refused(capsys, *argv):
    assert cli.main(["plan", *map(str, argv)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    return err


def test_the_screen_says_layout_step_memory_and_why(capsys):
    assert cli.main(["plan", "llama-7b", "--gpus", "8", "--cluster", "a100-80gb", "--batch", "64"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert lines[0].startswith("llama-7b (6.7 billion parameters) on 8 GPUs (a100-80gb, one node), 64 samples of")
    for word in ("Layout   data 8, ZeRO-1", "Step  ", "Time  ", "Memory ", "Why", "Operate ", "Batch "):
        assert any(line.startswith(word) for line in lines), word
    assert "a checkpoint is 94 GB" in out  # 14 bytes for each of 6.74 billion


def test_json_has_what_the_screen_has(capsys):
    told = planned(capsys, "llama-7b", "--gpus", 8, "--cluster", "a100-80gb", "--batch", 64)
    chosen = told["chosen"]
    assert told["schema"] == 1
    assert told["runs_out"] == "layers"
    assert chosen["layout"]["data"] == 8
    parts = chosen["compute_seconds"] + chosen["bubble_seconds"] + chosen["optimizer_seconds"]
    assert parts + sum(chosen["exposed_seconds"].values()) == pytest.approx(chosen["seconds"])
    assert chosen["memory_bytes"]["total"] <= 0.9 * 80e9
    assert [point["gpus"] for point in told["scaling"]] == [1, 4, 8, 16]


def test_plain_numbers_instead_of_presets(capsys):
    model = "layers=4,hidden=256,heads=4,sequence=128,vocabulary=1000"
    told = planned(
        capsys, model, "--gpus", 4, "--gpus-per-node", 2, "--gpu-memory", "1GB", "--flops", "1T", "--efficiency", 1,
        "--memory-bandwidth", "1e30", "--inside", "1e30,0", "--between", "1e30,0", "--batch", 4,
    )  # fmt: skip
    flops = 3 * 128 * (4 * (24 * 256**2 + 4 * 128 * 256) + 2 * 256 * 1000)
    again = 4 * 2 * 128 * 128 * 256  # FlashAttention's own
    assert told["chosen"]["layout"]["data"] == 4
    assert told["chosen"]["seconds"] == pytest.approx((flops + again) / 1e12, rel=1e-3)


def test_the_links_of_a_sweep(capsys, tmp_path):
    fit = {"latency_ns": 0.0, "bandwidth_gbs": 1.0, "busbw_gbs": 1.5, "error_frac": 0.0}
    sweep = tmp_path / "collectives.json"
    sweep.write_text(json.dumps({"ranks": 4, "ranks_per_host": 4, "operations": {"all_reduce": {"fit": fit}}}))
    told = planned(capsys, "gpt2-small", "--gpus", 8, "--sweep", sweep)
    assert told["cluster"]["inside"]["bandwidth"] == 1.5e9


def test_the_default_batch_is_four_million_tokens(capsys):
    assert planned(capsys, "llama-7b", "--gpus", 8)["batch"] * 2048 == pytest.approx(4e6, rel=0.5)


def test_memory_that_is_not_there(capsys):
    err = refused(capsys, "llama-7b", "--gpus", 1, "--cluster", "a100-80gb")
    assert "needs 108.9 GB" in err
    assert "72.0 of 80 GB" in err
    assert "2 GPUs like these" in err


@pytest.mark.parametrize(
    ("argv", "said"),
    [((), "takes a model and --gpus"), (("llama-7b",), "takes a model and --gpus"),
     (("llama", "--gpus", 8), "llama-7b"), (("llama-7b", "--gpus", 8, "--cluster", "tpu"), "h100-80gb"),
     (("llama-7b", "--gpus", 8, "--precision", "fp3"), "mixed-adam"),
     (("llama-7b", "--gpus", 8, "--schedules", "chimera"), "zero-bubble"),
     (("llama-7b", "--gpus", 8, "--tensor", 3), "3 does not divide 8 GPUs"),
     (("llama-7b", "--gpus", 8, "--inside", "fast"), "--inside"),
     (("llama-7b", "--gpus", 8, "--json", "/no/such/folder/x"), "no folder")],
)  # fmt: skip
def test_requests_that_cannot_be(capsys, argv, said):
    assert said in refused(capsys, *argv)


def ratios(text):
    return {row[0].strip(): float(row[1]) for row in re.findall(r"^  (\S.*?)  .* (\d+\.\d\d)$", text, re.MULTILINE)}


def test_a_pipeline_run_is_as_planned(capsys):
    assert cli.main(["plan", "--verify", str(DATA / "pipeline")]) == 0
    told = ratios(capsys.readouterr().out)
    assert told["states on the fullest rank"] == 1.00
    assert told["sent along pipeline"] == 1.00
    assert told["step"] == pytest.approx(1, abs=0.15)
    assert told["bubble, of the makespan"] == pytest.approx(1, abs=0.2)


def test_a_rank_of_half_the_speed_shows_against_the_plan(capsys):
    assert cli.main(["plan", "--verify", str(DATA / "ddp")]) == 0
    told = ratios(capsys.readouterr().out)
    assert told["sent along data"] == 1.00
    assert told["compute"] == pytest.approx(2, abs=0.3)


def test_another_run_needs_model_and_layout(capsys, tmp_path):
    (tmp_path / "rank0.json").write_bytes(b"")
    assert "give the model and the layout" in refused(capsys, "--verify", tmp_path)


def test_a_run_with_the_model_given(capsys):
    model = "layers=2,hidden=128,heads=4,sequence=64,vocabulary=16,no-tied"
    rows = planned(
        capsys, model, "--verify", DATA / "pipeline", "--pipeline", 2, "--micro-batch", 8, "--precision", "fp32-adam",
        "--flops", "2e9", "--microbatches", 4,
    )["rows"]  # fmt: skip
    sent = next(row for row in rows if row["what"] == "sent along pipeline")
    assert sent["planned"] == sent["measured"] == 2**20
