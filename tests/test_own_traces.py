"""Real traces of our own workloads, whose truth stands in their `run.json` or is counted here in plain Python."""

import gzip
import json
from pathlib import Path

import pytest

from tracekit import Analysis, load
from tracekit.measures.breakdown import residue_ns

DATA = Path(__file__).parent / "data"


def told(name, file):
    path = DATA / name / file
    return json.loads(gzip.open(path).read() if path.suffix == ".gz" else path.read_text())


def spans(name, rank):
    """The complete spans of a rank's trace, in nanoseconds on its file's clock."""
    trace = told(name, f"rank{rank}.json.gz")
    base = trace["baseTimeNanoseconds"]
    return [
        (
            event["name"],
            base + round(event["ts"] * 1000),
            base + round((event["ts"]) * 1000) + round(event["dur"] * 1000),
        )
        for event in trace["traceEvents"]
        if event.get("ph") == "X"
    ]


def covered(parts, start, end):
    """Nanoseconds of `[start, end)` that the spans cover, counted by sweeping over them."""
    total, reach = 0, start
    for one, other in sorted(parts):
        one, other = max(one, reach), min(other, end)
        if other > one:
            total, reach = total + other - one, other
    return total


@pytest.mark.parametrize("name", ["ddp", "pipeline"])
def test_the_parts_of_each_step_sum_to_it(name):
    rows = Analysis(load(DATA / name))["breakdown"]
    assert residue_ns(rows).eq(0).all()
    assert sorted(set(rows["rank"])) == [0, 1]


def test_gloos_collectives_are_the_communication():
    rows = Analysis(load(DATA / "ddp"))["breakdown"].set_index(["rank", "step"])
    for rank in (0, 1):
        mine = spans("ddp", rank)
        comm = [(start, end) for name, start, end in mine if name.startswith("gloo:")]
        for name, start, end in mine:
            if name.startswith("ProfilerStep#"):
                step = int(name.removeprefix("ProfilerStep#"))
                assert rows.loc[(rank, step), "step_ns"] == end - start
                assert rows.loc[(rank, step), "comm_ns"] == covered(comm, start, end)


def test_every_call_is_matched_by_its_annotation():
    calls = load(DATA / "ddp").calls
    assert set(calls["how"]) == {"seq"}
    assert calls.groupby("match")["rank"].apply(sorted).tolist() == [[0, 1]] * (len(calls) // 2)
    assert calls.groupby("match")["bytes"].nunique().eq(1).all()


def test_the_healthy_rank_waits_for_what_was_put_into_the_slow_one():
    [fault] = told("ddp", "run.json")["faults"]
    assert (fault["kind"], fault["rank"], fault["size"]) == ("slow_device", 1, 2.0)
    steps = Analysis(load(DATA / "ddp"))["breakdown"].set_index(["rank", "step"])
    healthy, slow = steps.loc[0], steps.loc[1]
    assert slow["compute_ns"].mean() == pytest.approx(2 * healthy["compute_ns"].mean(), rel=0.1)
    put_in_ns = sum(one["ns"] for one in fault["happened"] if one["step"] in healthy.index) / len(healthy)
    assert healthy["exposed_comm_ns"].mean() == pytest.approx(put_in_ns, rel=0.1)


def test_a_pipelines_waits_are_those_that_its_program_annotates():
    run = load(DATA / "pipeline")
    assert run.calls["device_work"].all()
    rows = Analysis(run)["breakdown"].set_index(["rank", "step"])
    for rank in (0, 1):
        mine = spans("pipeline", rank)
        waits = [(start, end) for name, start, end in mine if name.startswith("wait:")]
        for name, start, end in mine:
            if name.startswith("ProfilerStep#"):
                step = int(name.removeprefix("ProfilerStep#"))
                assert rows.loc[(rank, step), "exposed_comm_ns"] == covered(waits, start, end)
    waited = Analysis(run)["ranks"].groupby("rank")["wait_ns"].sum()
    assert (waited > 0.85 * rows["exposed_comm_ns"].groupby("rank").sum()).all()  # a transfer takes no time here
    assert "wait:recv" in set(Analysis(run)["kernels"]["name"])


def test_the_emulated_device_is_told():
    assert set(load(DATA / "ddp").notes["code"]) >= {"emulated-device", "not-a-trace"}
