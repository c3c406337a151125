import json
import math

import pandas as pd
import pytest

from tests import lanes
from tracekit.analysis import Analysis, measure_names
from tracekit.model import CALLS, NO_STEP, NO_TIME, table
from tracekit.report.json import document, json_text, records

DRAWING = """
    step 0000000000
    0/7  CCCCCC....
    0/20 ....NNNN..  bytes=800
"""


def strict(text):
    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_the_document_has_the_names_that_scripts_rely_on():
    parts = strict(json_text(document(Analysis(lanes.run(DRAWING)))))
    assert list(parts) == ["schema", "run", "ranks", "steps", "notes", "measures", "findings"]
    assert (parts["schema"], [finding["code"] for finding in parts["findings"]]) == (1, ["cannot-tell"])
    assert parts["ranks"][0]["world_size"] == 1
    assert parts["steps"] == [{"rank": 0, "window": 0, "step": 0, "start_ns": 0, "end_ns": 10_000, "complete": True}]


def test_each_measure_is_rows_with_units_or_the_reason():
    measures = strict(json_text(document(Analysis(lanes.run(DRAWING)))))["measures"]
    assert list(measures) == measure_names()
    breakdown = measures["breakdown"]
    assert breakdown["columns"]["compute_ns"] == "ns"
    assert [row["exposed_comm_ns"] for row in breakdown["rows"]] == [2000]
    assert "the run has" in measures["memory"]["not_measured"]


def test_calls_only_when_asked_for_and_unmeasured_waits_are_null():
    [call] = document(Analysis(lanes.run(DRAWING)), calls=True)["calls"]
    assert (call["op"], call["bytes"], call["start_ns"], call["end_ns"]) == ("all_reduce", 800, 4000, 8000)
    assert (call["wait_ns"], call["transfer_ns"], call["match"], call["how"]) == (None, None, None, "none")
    assert "device_work" not in call


def test_calls_of_ranks_that_could_be_compared_carry_wait_and_transfer():
    calls = document(Analysis(lanes.run("0/20 NNNN\n1/20 .NNN")), calls=True)["calls"]
    told = [(call["wait_ns"], call["transfer_ns"], call["last_rank"], call["resolvable"]) for call in calls]
    assert told == [(1000, 3000, 1, True), (0, 3000, 1, True)]


def test_large_integers_are_exact():
    comms_id = "18446744073709551615"
    row = dict.fromkeys(CALLS, 0) | {"seq": 2**53 + 1, "bytes": 2**63 - 1, "comms_id": comms_id}
    calls = table(CALLS, [list((row | {"start_ns": 1711964646000600001, "end_ns": 1711964646000600003}).values())])
    [call] = json.loads(json.dumps(records(calls)))
    assert (call["seq"], call["bytes"], call["comms_id"]) == (2**53 + 1, 2**63 - 1, comms_id)
    assert (call["start_ns"], call["end_ns"]) == (1711964646000600001, 1711964646000600003)


def test_unsigned_64_bit_ids_are_exact():
    assert records(pd.DataFrame({"correlation": pd.Series([2**64 - 1], dtype="uint64")})) == [
        {"correlation": 2**64 - 1}
    ]


def test_what_is_missing_unknown_or_infinite_is_null():
    rows = pd.DataFrame(
        {
            "step": [NO_STEP],
            "start_ns": [NO_TIME],
            "share_frac": [math.nan],
            "busbw_gbs": [math.inf],
            "peer": pd.Series([None], dtype="Int64"),
            "name": pd.Series([None], dtype="category"),
            "group": pd.Series([None], dtype="str"),
        }
    )
    assert records(rows) == [dict.fromkeys(rows.columns)]


def test_keys_that_are_not_steps_may_be_negative():
    assert records(pd.DataFrame({"saved_ns": [-1]})) == [{"saved_ns": -1}]


def test_half_a_surrogate_pair_does_not_reach_the_json():
    assert records(pd.DataFrame({"name": pd.Series(["a\ud800b"], dtype="object")})) == [{"name": "a?b"}]


@pytest.mark.parametrize(
    "value", [{}, {"a": []}, {"a": {"b": 1}}, {"a": [{"b": [1, 2]}, {"c": None}]}, {"a\n": "\x1b"}]
)
def test_one_row_a_line_is_the_same_json(value):
    assert json.loads(json_text(value)) == value


def test_a_table_has_one_row_a_line():
    assert (
        json_text({"rows": [{"a": 1}, {"a": 2}], "n": 2})
        == """{
  "rows": [
    {"a": 1},
    {"a": 2}
  ],
  "n": 2
}
"""
    )
