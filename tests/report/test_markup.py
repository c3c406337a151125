"""What parsers make of reports and comments whose names are hostile: the elements of a harmless one, and no more."""

import re
from collections import Counter
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from tests import hostile
from tests.app import made
from tests.gate.made import summary
from tests.report.verdicts import STEADY, by
from tracekit.analysis import Analysis
from tracekit.gate.check import check
from tracekit.read.load import load
from tracekit.report.html import html_text
from tracekit.report.overview import overview
from tracekit.report.overview_markdown import overview_markdown
from tracekit.report.verdict_markdown import verdict_markdown

MARKUP = (
    *hostile.NAMES, *hostile.CONTROLS, "a | b", "`code`", "``` fence", "](javascript:alert(1))",
    "![x](http://evil.example)", "<http://evil.example>", "https://evil.example", "www.evil.example", "@everyone",
    "mail@evil.example", "#123", "owner/repo#1", "<!-- ", "-->", "</details><script>",
    "<details open ontoggle=alert(1)>", "<b>", "&lt;b&gt;", "# title", "- item", "> quote", "**bold**", "~~gone~~",
    "\\", "\\`", "a\n\n# b", "[x]: http://evil.example", "$x$", "***", "' onmouseover='alert(1)",
    '" onmouseover="alert(1)', "javascript:alert(1)", "]]>", "\ufffe\uffff",
)  # fmt: skip
MENTION, ADDRESS = re.compile(r"@\w|#\d"), re.compile(r"https?://|www\.")
"""What GitHub makes links of: the one in the text that stays when Markdown is read, the other in Markdown itself."""


class Page(HTMLParser):
    """Counts elements and gathers attributes, and text outside of scripts."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text, self.comments = Counter(), [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        self.attributes += attrs

    def handle_data(self, data):
        if self.cdata_elem is None:
            self.text.append(data)

    def handle_comment(self, data):
        self.comments.append(data.strip())


def harmless(page):
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert not [value for name, value in page.attributes if name in ("href", "src") and value[:1] != "#"]
    assert not {"img", "iframe", "object", "form", "base", "link"} & set(page.tags)


def read(text):
    """The page that Markdown with tables and HTML makes."""
    return Page(MarkdownIt("commonmark", {"html": True}).enable("table").enable("strikethrough").render(text))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The hostile run, and one of the same form whose names are words."""
    folder = tmp_path_factory.mktemp("runs")
    words = tuple(f"name{nth}" for nth in range(len(MARKUP)))
    told = (made.hostile_traces(folder / str(nth), names, hostile.FILE) for nth, names in enumerate((MARKUP, words)))
    return [Analysis(load(str(one), cache=False)) for one in told]


def test_a_report_has_the_elements_of_a_harmless_one(runs):
    texts = [html_text(one) for one in runs]
    page, other = map(Page, texts)
    assert page.tags == other.tags
    assert sorted(name for name, _ in page.attributes) == sorted(name for name, _ in other.attributes)
    assert page.comments == other.comments
    harmless(page)
    assert "onerror" in texts[0]  # in a figure's JSON


def test_a_comment_on_a_run_has_the_elements_of_a_harmless_one(runs):
    page, other = (read(overview_markdown(overview(one))) for one in runs)
    assert page.tags == other.tags
    harmless(page)
    assert not MENTION.search("".join(page.text))


@pytest.mark.parametrize("name", MARKUP)
def test_a_comment_on_a_verdict_holds_names_as_text(name):
    assert not ADDRESS.search(verdict_markdown(verdict(name)))
    page, other = (read(verdict_markdown(verdict(one))) for one in (name, "word"))
    assert page.tags == other.tags
    assert page.comments == other.comments == ["tracekit check"]
    harmless(page)
    assert not MENTION.search("".join(page.text))


def verdict(name):
    """A slower run, in which a kernel, a finding, a commit and a metric have this name."""
    metrics = {f"volume.ring_bytes[{name}]": ("bytes", "down", (1.0, 2.0, 3.0))}
    base = summary(STEADY, kernels={name: 1.0}, findings=[], **metrics)
    found = [(name, "error", name, (), 5e8)]
    return check([base], [summary(by(1.3), kernels={name: 1.0}, findings=found, commit=name, **metrics)])


@pytest.mark.parametrize("name", MARKUP)
def test_facts_that_differ_are_text_too(name):
    page, other = (read(verdict_markdown(differing(one))) for one in (name, "word"))
    assert page.tags == other.tags
    harmless(page)


def differing(name):
    return check([summary(STEADY, facts={"layout": "x"})], [summary(STEADY, facts={"layout": name})])


def test_the_parsers_see_what_is_not_escaped():
    for page in (Page(hostile.SCRIPT), read('a <img src="x"> b'), read("[a](http://b)")):
        with pytest.raises(AssertionError):
            harmless(page)
    assert MENTION.search("".join(read("&#64;everyone").text))
