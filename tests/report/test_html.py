import json
import re
from contextlib import suppress

import pytest
from plotly.offline import get_plotlyjs

from tests import hostile, lanes
from tracekit import charts
from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured
from tracekit.report import html
from tracekit.report.figures import figure
from tracekit.report.html import SECTIONS, TITLES, html_text
from tracekit.report.overview import Table

DRAWING = """
    step 000000000011111111111
    0/7  CCCC......CCCC.......
    0/20 ..NNNN......NNNN.....  op=all_reduce group=dp bytes=2048
    1/7  CC........CC.........
    1/20 ....NN........NN.....  op=all_reduce group=dp bytes=2048
"""


def page(drawing=DRAWING):
    return html_text(Analysis(lanes.run(drawing)))


def without_plotly(text):
    return re.sub(r"<script nonce=[^>]*>/\*\*.*?</script>", "", text, count=1, flags=re.S)


def test_one_file_that_needs_no_network():
    text = page()
    assert text.count("* plotly.js v") == 1
    rest = without_plotly(text)
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", rest)
    assert "default-src 'none'" in rest


def test_figures_are_json_that_names_cannot_leave():
    text = without_plotly(page())
    blocks = re.findall(r'<script type="application/json" id="([^"]+)-data">(.*?)</script>', text, re.S)
    names = [name for name, _ in blocks]
    assert {"breakdown", "overlap", "waits", "kernels"} <= set(names)
    assert all(json.loads(block)["data"] for _, block in blocks)


def test_what_is_not_measured_says_so_where_the_chart_would_stand():
    text = without_plotly(page("step 00000\n0/7 CCC.."))
    assert "Not measured: <bdi>the run has no communication in any step</bdi>" in text
    assert 'id="overlap-data"' not in text


@pytest.mark.parametrize("name", hostile.NAMES)
def test_hostile_text_is_escaped_in_every_part(name):
    table = Table(("rank",), ((name,),))
    parts = html.table_part(table) + html.told_part({"layout": name}) + html.notes_part((("info", name),), {"x": name})
    assert name not in parts or not set("<>&'\"") & set(name)
    assert "<img" not in parts
    assert "<script" not in parts


def test_a_hostile_kernel_name_stays_text_in_the_whole_page():
    drawing = f"step 0000\n0/7 CCCC name={hostile.SCRIPT.replace(' ', '/')}"
    text = without_plotly(page(drawing))
    assert "onerror" in text
    assert "<img" not in text


def test_every_figure_has_a_title_and_a_question():
    assert all(TITLES[name] for names in SECTIONS.values() for name in names)


def test_figures_of_64_ranks_leave_a_report_below_8_mb():
    lines = [f"{rank}/7 CCCC....\n{rank}/20 ..NNNN.. op=all_reduce group=dp bytes=2048" for rank in range(64)]
    analysis = Analysis(lanes.run("\n".join(lines)))
    size = 0
    for name in ("breakdown", "overlap", "own", "waits", "blame", "kernels", "sizes", "idle"):
        with suppress(NotMeasured):
            size += len(charts.figure_json(figure(analysis, name)))
    assert size > 10_000
    assert size + len(get_plotlyjs()) < 6e6  # a pipeline's rows, findings and tables come on top
