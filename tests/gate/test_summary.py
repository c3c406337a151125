import json
import threading
from dataclasses import replace
from functools import cache

import pytest

from tests import lanes
from tests.gate.made import summary, with_schema
from tracekit.analysis import Analysis
from tracekit.errors import Unreadable, WrongUse
from tracekit.gate import summary as module
from tracekit.gate.summary import SCHEMA, STEP, from_json, is_summary, read_summary, summary_of, to_json, write_summary

DRAWING = """
    step       0000001111112222  incomplete=2
    0/main     a.....b.........
    0/7        .CCC..CCCC......  by=ab
    0/20       ...NNN....NN....  bytes=800
    1/7        .CC...CCC.......
    1/20       ...NNN....NN....  bytes=800
"""


@cache
def drawn():
    return summary_of(Analysis(lanes.run(DRAWING)), commit="c0ffee")


def test_a_run_as_it_is_kept():
    one = drawn()
    assert (one.schema, one.commit, one.steps) == (SCHEMA, "c0ffee", 2)  # the incomplete step is left out
    assert one.step_values == (6000.0, 6000.0)
    assert one.facts["world size"] == "2"
    # rank 0: 3 and 4 us, rank 1: 2 and 3 us
    assert one.metrics["breakdown.compute_ns"].values == (2500.0, 3500.0)
    assert one.account.step_ns == 6000


def test_what_is_written_is_read_again(tmp_path):
    one = drawn()
    assert read_summary(write_summary(one, tmp_path / "a.json")) == one
    assert is_summary(str(tmp_path / "a.json"))
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


def test_a_trace_is_no_summary(tmp_path):
    [file, *_] = lanes.kineto("0/7 CCC", tmp_path)
    assert not is_summary(str(file))
    other = tmp_path / "schema.json"
    other.write_text('{"schemaVersion": 1, "traceEvents": []}')
    assert not is_summary(str(other))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_truncated_summary_is_refused(share):
    text = to_json(drawn())
    with pytest.raises(Unreadable, match=r"no whole summary|no summary"):
        from_json(text[: int(share * len(text))], "base.json")


def test_steps_that_take_no_time_are_no_summary():
    run = lanes.run("step 0123\n0/7 C...")
    none = run.steps.assign(end_ns=run.steps["start_ns"])
    with pytest.raises(Unreadable, match="no complete step that takes time"):
        summary_of(Analysis(replace(run, steps=none)))


@pytest.mark.parametrize("told", ["[]", "{}", '{"schema": 1}', "null", '{"schema": 1, "metrics": {}, "account": {}}'])
def test_other_json_is_refused(told):
    with pytest.raises(Unreadable, match=r"base\.json is no summary"):
        from_json(told.encode(), "base.json")


def test_a_newer_schema_asks_for_an_update():
    with pytest.raises(Unreadable, match=f"schema {SCHEMA + 1}, this tracekit reads up to {SCHEMA}: update"):
        from_json(to_json(with_schema(drawn(), SCHEMA + 1)), "base.json")


@pytest.mark.parametrize("schema", [0, -1])
def test_an_old_schema_is_refused_with_a_sentence(schema):
    with pytest.raises(Unreadable, match="make the summary again"):
        from_json(to_json(with_schema(drawn(), schema)), "base.json")


def test_an_old_schema_is_migrated_where_there_is_a_way(monkeypatch):
    monkeypatch.setitem(module.MIGRATIONS, 0, lambda told: {**told, "schema": 1, "label": "migrated"})
    assert from_json(to_json(with_schema(drawn(), 0)), "base.json").label == "migrated"


@pytest.mark.parametrize("schema", ["one", None, 1.5, True, [1]])
def test_a_schema_that_is_no_number_is_refused(schema):
    told = json.loads(to_json(drawn())) | {"schema": schema}
    with pytest.raises(Unreadable):
        from_json(json.dumps(told).encode(), "base.json")


@pytest.mark.parametrize("value", ["NaN", "null", '"fast"', "Infinity"])
def test_a_step_that_is_no_number_is_refused(value):
    told = json.loads(to_json(summary([100, 100, 100])))
    told["metrics"][STEP]["values"] = [1.0, "HERE"]
    with pytest.raises(Unreadable):
        from_json(json.dumps(told).replace('"HERE"', value).encode(), "base.json")


@pytest.mark.parametrize(("place", "value"), [
    (("metrics", STEP, "values", 1), 1e300), (("metrics", STEP, "values", 1), -1.0), (("metrics", STEP, "unit"), "12"),
    (("metrics", STEP, "better"), "sideways"), (("account", "step_ns"), -1.0), (("account", "step_ns"), 1e300),
    (("account", "ranks", 0, "step_ns"), -1.0), (("account", "parts", 0, "ns"), -1e300),
    (("findings", 0, "severity"), "12"), (("findings", 0, "cost_ns"), -1.0),
])  # fmt: skip
def test_figures_that_no_run_has_are_refused(place, value):
    told = json.loads(to_json(summary([100, 100, 100], findings=[("slow-host", "error", "a host is slow")])))
    inner = told
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(Unreadable, match=r"base\.json"):
        from_json(json.dumps(told).encode(), "base.json")


@pytest.mark.parametrize("steps", [[], [0, 0, 0]])
def test_a_summary_without_steps_is_refused(steps):
    with pytest.raises(Unreadable, match="has no step"):
        from_json(to_json(summary(steps)), "base.json")


def test_a_run_without_steps_has_no_summary():
    with pytest.raises(Unreadable):
        summary_of(Analysis(lanes.run("0/main OOO")))


def test_where_nothing_can_be_written_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WrongUse, match="cannot be written"):
        write_summary(drawn(), tmp_path / "file" / "a.json")


def test_writers_of_one_file_leave_one_whole_summary(tmp_path):
    runs = [summary([100 + n] * 3) for n in range(8)]
    threads = [threading.Thread(target=write_summary, args=(one, tmp_path / "a.json")) for one in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read_summary(tmp_path / "a.json") in runs
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


def test_the_commit_is_cis_or_gits(monkeypatch, tmp_path):
    for name in module.COMMIT_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    assert module.current_commit() == ""
    monkeypatch.setenv("GITHUB_SHA", "abc123")
    assert module.current_commit() == "abc123"


def test_a_new_file_replaces_none(tmp_path):
    one = module.write_new(drawn(), tmp_path / "a.json")
    with pytest.raises(WrongUse, match="File exists"):
        module.write_new(summary([1, 2, 3]), tmp_path / "a.json")
    assert read_summary(one) == drawn()
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


def test_a_file_system_without_links_will_do(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    assert read_summary(module.write_new(drawn(), tmp_path / "a.json")) == drawn()
