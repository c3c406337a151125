import json
import math

import pytest

from tests.report.verdicts import blind, drifting, hostile, not_comparable, slower
from tracekit.report.verdict_json import verdict_document


def test_a_script_finds_what_it_needs():
    told = verdict_document(slower())
    assert (told["schema"], told["outcome"], told["exit_code"]) == (1, "worse", 1)
    [step] = told["gated"]
    assert (step["metric"], step["outcome"], step["unit"], step["base"]) == ("breakdown.step_ns", "worse", "ns", 100e6)
    assert step["changed_frac"] == pytest.approx(0.3)
    assert told["reasons"][0]["cause"] == "compute"
    assert sum(part["changed_ns"] for part in told["changed"]["parts"]) == pytest.approx(told["changed"]["changed_ns"])


@pytest.mark.parametrize("verdict", [slower, blind, drifting, hostile, not_comparable])
def test_it_is_strict_json(verdict):
    text = json.dumps(verdict_document(verdict()), allow_nan=False)
    assert json.loads(text)["exit_code"] == verdict().exit_code


def test_what_is_unknown_is_null():
    [step] = verdict_document(blind())["gated"]
    assert (step["low"], step["chance"]) == (None, None)
    assert not math.isnan(step["base"])
