from dataclasses import replace

from tests import hostile, lanes
from tracekit.analysis import Analysis
from tracekit.report.overview import Table, Told, overview
from tracekit.report.overview_markdown import overview_markdown

RUN = "step 00000\n0/7 CCC.."


def test_the_verdict_and_the_ranks():
    text = overview_markdown(overview(Analysis(lanes.run(RUN))))
    assert text.startswith("### tracekit\n\nStep 5.00 µs: compute 60 %")
    assert "| rank | step, µs |" in text


def test_hostile_text_is_no_markup():
    name = hostile.SCRIPT
    finding = Told(name, "error", name, "", (name,), name, ())
    told = replace(overview(Analysis(lanes.run(RUN))), path=name, verdict=(name,), findings=(finding,),
                   told={"a": name}, ranks=Table(("rank",), ((f"|{name}",),)), notes=(("info", name),))  # fmt: skip
    text = overview_markdown(told)
    assert "<img" not in text
    assert "&#124;&#60;img" in text
