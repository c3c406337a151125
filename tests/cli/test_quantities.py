import pytest

from tracekit.cli.quantities import link, number, seconds
from tracekit.errors import WrongUse
from tracekit.plan.hardware import Link


@pytest.mark.parametrize(
    ("text", "value"),
    [("80GB", 80e9), ("80 GB", 80e9), ("64GiB", 64 * 2**30), ("312T", 312e12), ("3.12e14", 3.12e14),
     ("989TFLOP/s", 989e12), ("240GB/s", 240e9), ("400Gbit/s", 50e9), ("5", 5)],
)  # fmt: skip
def test_numbers(text, value):
    assert number(text, "--x") == value


@pytest.mark.parametrize("text", ["", "GB", "80XB", "-3GB", "1.2.3", "eighty"])
def test_what_is_no_number_names_the_option(text):
    with pytest.raises(WrongUse, match="--x"):
        number(text, "--x")


def test_times():
    assert [seconds(text, "--x") for text in ("2us", "2 µs", "3ms", "1", "5ns")] == [2e-6, 2e-6, 3e-3, 1, 5e-9]
    with pytest.raises(WrongUse, match="--x"):
        seconds("2 weeks", "--x")


def test_links():
    assert link("240GB/s,2us", "--x") == Link(240e9, 2e-6)
    assert link("20GB/s", "--x") == Link(20e9, 4e-6)
    with pytest.raises(WrongUse):
        link("0,1us", "--x")
