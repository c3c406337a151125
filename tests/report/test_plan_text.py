import pytest

from tracekit.plan.hardware import preset
from tracekit.plan.scaling import Point
from tracekit.plan.search import Request, plans
from tracekit.plan.transformer import preset as model_preset
from tracekit.report.plan_text import Operating, batch_sentence, big, operating_sentence, plan_text, span, table

REQUEST = Request(model_preset("llama-7b"), preset("a100-80gb", 8), 64)


@pytest.fixture(scope="module")
def found():
    return plans(REQUEST)


def screen(found, width=100, points=()):
    return plan_text(found, "llama-7b", "a100-80gb", points, Operating(2e9), width=width)


def test_it_ends_in_one_line_break_and_has_no_trailing_blanks(found):
    text = screen(found)
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert all(line == line.rstrip() for line in text.splitlines())


def test_sentences_keep_to_the_width(found):
    sentences = screen(found, 60).split("\n\nNext best")[0].split("\n\n")
    assert all(len(line) <= 60 for part in (0, 1, 3) for line in sentences[part].splitlines())


def test_memory_is_told_with_what_may_be_planned_with(found):
    assert "of 72 GB (90% of 80)" in screen(found)


def test_what_does_not_fit_stays_in_the_table_of_gpus(found):
    text = screen(found, points=[Point(4, None, None), Point(8, found.chosen, 1.0)])
    assert "does not fit" in text
    assert screen(found).count("other numbers of GPUs") == 0


def test_operation_in_a_sentence():
    # 14 bytes for each of 6.738 billion parameters at 2 GB/s.
    told = operating_sentence(REQUEST, Operating(2e9))
    assert "94 GB, 47.17 s at 2 GB/s" in told


def test_the_batch_in_a_sentence(found):
    told = batch_sentence(found.chosen, Operating(1e9, samples=6401, base_batch=16))
    assert told.startswith("64 samples = data 8 × ")
    assert "6,401 samples are 101 steps" in told
    assert "4 times its learning rate with SGD (linear), 2 times with Adam" in told
    assert "learning rate" not in batch_sentence(found.chosen, Operating(1e9))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(3e-6, "3.0 µs"), (0.0123, "12.30 ms"), (1.5, "1.50 s"), (600, "10.0 min"), (36_000, "10.0 h"),
     (864_000, "10.0 d")],
)  # fmt: skip
def test_spans(seconds, text):
    assert span(seconds) == text


@pytest.mark.parametrize(("number", "text"), [(12, "12"), (2_500_000, "2.5 million"), (1.746e11, "174.6 billion")])
def test_large_counts(number, text):
    assert big(number) == text


def test_numbers_stand_right_and_words_left():
    assert list(table(("a", "number"), [("one", "1"), ("twelve", "12")])) == [
        "  a       number",
        "  one          1",
        "  twelve      12",
    ]
