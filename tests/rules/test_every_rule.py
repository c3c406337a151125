"""What every rule has to keep to."""

import pkgutil
import re
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import pytest

from tracekit import rules
from tracekit.diagnosis import rule_modules
from tracekit.report.manual import rules_markdown

NAMES = [module.name for module in pkgutil.iter_modules(rules.__path__)]
HERE = Path(__file__).parent
EVERY = pytest.mark.parametrize("name", NAMES)
PARTS = ("What it means", "How to confirm", "What to do", "Published")


def rule(name):
    return import_module(f"tracekit.rules.{name}")


@EVERY
def test_its_code_is_its_files_name(name):
    """Also where the file's name would do: one spelling less to remember."""
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule(name).CODE)
    assert name.replace("_", "-") == rule(name).CODE


@EVERY
def test_its_docstring_is_a_manual_page(name):
    first, rest = rule(name).__doc__.strip().split("\n\n", 1)
    assert first.endswith(".")
    assert "\n" not in first
    labels = re.findall(r"^([A-Z][a-z ]+):", rest, re.MULTILINE)
    assert labels == list(PARTS)


@EVERY
def test_every_part_of_the_page_says_something(name):
    text = " ".join(rule(name).__doc__.split())
    for part, following in zip(PARTS, (*PARTS[1:], None), strict=True):
        told = text.split(f"{part}: ")[1]
        assert len(told.split(f"{following}: ")[0] if following else told) > 10


@EVERY
def test_it_has_a_check_and_tests(name):
    assert callable(rule(name).check)
    assert rule(name).check.__doc__
    tests = (HERE / f"test_{name}.py").read_text()
    assert "def test_silent" in tests


@EVERY
def test_every_limit_has_a_reason(name):
    """A constant that is a number is followed by a sentence that says what it is a share of, and why."""
    lines = Path(rule(name).__file__).read_text().splitlines()
    for line, after in pairwise(lines):
        if re.match(r"[A-Z_]+ = \d", line) and not line.startswith(("SHOWN", "MIN_STEPS", "LEAST_STEPS")):
            assert after.startswith('"""'), f"{name}: {line}"


def test_codes_are_found_in_their_order():
    assert list(rule_modules()) == sorted(name.replace("_", "-") for name in NAMES)


def test_there_is_a_test_file_for_each_rule_and_no_other():
    assert {path.stem for path in HERE.glob("test_*.py")} == {f"test_{name}" for name in NAMES} | {"test_every_rule"}


def test_the_document_is_made_of_the_pages():
    assert (HERE.parents[1] / "docs" / "rules.md").read_text(encoding="utf-8") == rules_markdown()
