import json

import pytest

from tracekit.plan.hardware import preset
from tracekit.plan.scaling import Point
from tracekit.plan.search import Request, plans
from tracekit.plan.transformer import preset as model_preset
from tracekit.report.json import json_text
from tracekit.report.plan_json import plan_document
from tracekit.report.plan_text import Operating


@pytest.fixture(scope="module")
def told():
    found = plans(Request(model_preset("gpt2-xl"), preset("a100-80gb", 8), 64))
    return json.loads(json_text(plan_document(found, [Point(1, None, None)], Operating(1e9, 0.0))))


def test_the_chosen_layout_is_among_the_first(told):
    assert told["layouts"][0] == told["chosen"]
    assert len(told["layouts"]) <= 20 <= told["fitting"]


def test_parts_of_the_memory_sum(told):
    memory = told["chosen"]["memory_bytes"]
    assert sum(size for name, size in memory.items() if name != "total") == pytest.approx(memory["total"])


def test_what_is_not_known_is_null(told):
    assert told["scaling"] == [{"gpus": 1, "speedup": None, "seconds": None, "described": None}]
    assert told["operations"]["interval_seconds"] is None  # nothing fails
    assert told["operations"]["checkpoint_bytes"] == 14 * told["model"]["parameters"]
