"""A verdict as JUnit XML: a test case for each gated metric, for CI systems that show such files."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from tracekit.gate.check import Verdict
from tracekit.gate.judge import Judged
from tracekit.report import gate_wording as wording
from tracekit.wording import plain


def junit_xml(verdict: Verdict) -> str:
    """A `testsuite`: worse is a failure; unsure is a failure where it fails the gate, an error if nothing was told."""
    cases = [_case(one, verdict) for one in verdict.gated]
    cases += [_finding(one.code, one.title) for one in verdict.new_findings or ()]
    if verdict.drift is not None and verdict.outcome == "worse":
        cases.append(_finding("drift", wording.drift_told(verdict)))
    if verdict.differs:
        told = "; ".join(f"{one.allow}: {one.base} → {one.new}" for one in verdict.differs)
        case = ET.Element("testcase", classname="tracekit", name="comparable")
        ET.SubElement(case, "error", message=_text(told), type="not comparable")
        cases.append(case)
    suite = ET.Element(
        "testsuite", name="tracekit check", tests=str(len(cases)), failures=str(_count(cases, "failure")),
        errors=str(_count(cases, "error")), skipped=str(_count(cases, "skipped")),
    )  # fmt: skip
    suite.extend(cases)
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=False).join(
        ('<?xml version="1.0" encoding="UTF-8"?>\n', "\n")
    )


def _count(cases: list[ET.Element], tag: str) -> int:
    return sum(case.find(tag) is not None for case in cases)


def _case(one: Judged, verdict: Verdict) -> ET.Element:
    case = ET.Element("testcase", classname="tracekit", name=_text(wording.metric_name(one.metric)))
    told = f"{wording.change(one)} (95 %: {wording.interval(one) or 'not known'}), limit {wording.limit(one)}"
    if one.outcome == "worse" or (one.outcome == "unsure" and verdict.exit_code == 1 and verdict.outcome == "unsure"):
        failure = ET.SubElement(case, "failure", message=_text(told), type=one.outcome)
        failure.text = _text("\n".join([one.why, *(reason.sentence for reason in verdict.reasons)]).strip())
    elif one.outcome == "unsure" and one.blind and verdict.exit_code == 2:
        ET.SubElement(case, "error", message=_text(f"{one.why}; {one.settle}"), type="unsure")
    elif one.outcome == "unsure":
        ET.SubElement(case, "skipped", message=_text(f"unsure, {told}: {one.why}; {one.settle}"))
    ET.SubElement(case, "system-out").text = _text(told)
    return case


def _finding(code: str, title: str) -> ET.Element:
    case = ET.Element("testcase", classname="tracekit.findings", name=_text(code))
    ET.SubElement(case, "failure", message=_text(title), type="new finding")
    return case


def _text(text: str) -> str:
    """Text that XML can hold: no control characters."""
    return "\n".join(plain(line, 1000) for line in text.split("\n"))
