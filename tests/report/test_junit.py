import xml.etree.ElementTree as ET

from tests.report.verdicts import blind, drifting, hostile, not_comparable, same, slower, unsure
from tracekit.report.junit import junit_xml


def suite(verdict):
    return ET.fromstring(junit_xml(verdict()).encode())[0]


def counts(verdict):
    told = suite(verdict).attrib
    return tuple(int(told[name]) for name in ("tests", "failures", "errors", "skipped"))


def test_each_gated_metric_is_a_case():
    assert [case.get("name") for case in suite(same)] == ["step"]
    assert counts(same) == (1, 0, 0, 0)


def test_worse_is_a_failure_with_its_reason():
    assert counts(slower) == (1, 1, 0, 0)
    failure = suite(slower)[0].find("failure")
    assert "+30.0 %" in failure.get("message")
    assert "compute 1.30 times as long" in failure.text


def test_what_cannot_be_told_is_skipped_or_an_error():
    assert counts(unsure) == (1, 0, 0, 1)  # passes
    assert counts(blind) == (1, 0, 1, 0)  # exit code 2
    assert counts(not_comparable) == (1, 0, 1, 0)


def test_drift_is_a_failure():
    assert "drift" in [case.get("name") for case in suite(drifting) if case.find("failure") is not None]


def test_foreign_text_stays_text():
    assert counts(hostile) == (2, 2, 0, 0)  # it parses, and holds no element more
