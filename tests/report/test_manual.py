import pytest

from tracekit.analysis import measure_columns, measure_names
from tracekit.diagnosis import rule_modules
from tracekit.errors import WrongUse
from tracekit.report.manual import measure_page, page_list


@pytest.mark.parametrize("name", measure_names())
def test_each_measure_has_a_page_with_its_question_and_all_its_columns(name):
    page = measure_page(name)
    assert page.startswith(f"{name}: ")
    assert "?" in page.partition("\n\n")[0]
    told = [line.split()[0] for line in page.partition("\nColumns:\n")[2].splitlines()]
    assert told == list(measure_columns(name))


def test_columns_tell_their_unit_and_which_way_is_better():
    assert "  comm_ns       nanoseconds, less is better\n" in measure_page("overlap")
    assert "  overlap_frac  fraction, 0 to 1, more is better\n" in measure_page("overlap")
    assert "  rank\n" in measure_page("overlap")
    assert "  copies         number\n" in measure_page("copies")


def test_pages_fit_the_screen():
    assert max(map(len, measure_page("breakdown", 60).splitlines())) <= 60
    assert min(map(len, measure_page("breakdown", 10_000).splitlines()[2:3])) > 300


def test_the_list_has_a_line_for_each():
    lines = [line.split() for line in page_list().splitlines() if line]
    assert [line[0] for line in lines] == ["Measures", *measure_names(), "Findings", *rule_modules()]


def test_an_unknown_name_lists_the_known():
    with pytest.raises(WrongUse, match=r"no measure is named 'nothing'; there are .*breakdown"):
        measure_page("nothing")
