import pytest

from tracekit.report.markdown import safe


@pytest.mark.parametrize(("text", "shown"), [
    ("a*b_c", "a&#42;b&#95;c"), ("$x$", "&#36;x&#36;"), ("https://a.b", "https&#58;//a.b"), ("www.a.b", "www&#46;a.b"),
    ("a\nb", "a b"), ("plain, text: 3.5 ms", "plain, text: 3.5 ms"),
])  # fmt: skip
def test_nothing_is_markup(text, shown):
    assert safe(text) == shown
