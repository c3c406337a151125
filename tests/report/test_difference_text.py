import pytest

from tests import lanes
from tests.report.verdicts import NASTY, hostile
from tracekit.analysis import Analysis
from tracekit.compare import account_of, difference
from tracekit.gate.facts import Differs
from tracekit.report.difference_text import difference_text

BASE = """
    0/main a...b........
    0/7    CC....CC.....  by=ab name=gemm
    0/20   ........NN...  group=dp bytes=800
    1/7    CC....CC.....  name=gemm
    1/20   ........NN...  group=dp bytes=800
"""
NEW = """
    0/main a...b........
    0/7    CC....CCC....  by=ab name=gemm
    0/20   .........NNN.  group=dp bytes=800
    1/7    CC....CCC....  name=gemm
    1/20   .........NNN.  group=dp bytes=800
"""


def told():
    return difference(*(account_of(Analysis(lanes.run(drawing))) for drawing in (BASE, NEW)))


def test_the_largest_first_and_the_sum_last():
    lines = difference_text(told()).splitlines()
    assert lines[0] == "step 10.00 µs → 12.00 µs (+20.0 %)"
    at = next(n for n, line in enumerate(lines) if line.startswith("Largest changes"))
    changes = [line.split()[0] for line in lines[at + 2 : at + 4]]
    assert changes == ["+0.001", "+0.001"]
    assert any("together: the step's difference" in line and line.split()[0] == "+0.002" for line in lines)


def test_what_the_step_is_made_of_sums():
    lines = difference_text(told()).splitlines()
    rows = {" ".join(line.split()[:-3]): [float(cell) for cell in line.split()[-3:]] for line in lines[3:8]}
    assert rows["step"] == [10.0, 12.0, 2.0]
    for column in range(3):
        assert sum(row[column] for name, row in rows.items() if name != "step") == pytest.approx(rows["step"][column])


def test_rows_that_are_not_shown_are_summed():
    assert "others, 0 new, 0 gone" in difference_text(told(), rows=1)


def test_other_world_sizes_are_explained():
    text = difference_text(told(), [Differs("world size", "8", "2")])
    assert "world size: 8 → 2" in text
    assert "means over each run's own ranks" in text


@pytest.mark.parametrize("width", [60, 80, 160])
def test_it_fits_the_screen(width):
    for changed in (told(), hostile().changed):
        assert max(map(len, difference_text(changed, width=width).splitlines())) <= width


def test_foreign_text_moves_no_cursor():
    assert "\x1b" in NASTY
    assert "\x1b" not in difference_text(hostile().changed)
