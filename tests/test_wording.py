import pytest

from tracekit.wording import (
    counted,
    duration,
    kernel_name,
    percent,
    plain,
    sentence,
    shortened,
    size,
    time_unit,
)


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0.00 µs"),
        (1, "0.00 µs"),
        (999_999, "1,000.0 µs"),
        (1_000_000, "1.00 ms"),
        (12_345_678, "12.35 ms"),
        (123_456_789, "123.5 ms"),
        (12_345_678_901, "12.35 s"),
        (123_456_789_012, "123.5 s"),
        (9_876_543_210, "9,876.5 ms"),
        (-12_345_678, "-12.35 ms"),
    ],
)
def test_durations_show_about_four_figures(ns, text):
    assert duration(ns) == text


def test_times_beside_each_other_share_the_unit_of_the_longest():
    unit = time_unit(123_400_000)
    assert (unit.name, unit.of(123_400_000), unit.of(50_000)) == ("ms", "123.4", "0.1")


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (1023, "1,023 B"), (1536, "1.5 KiB"), (61 << 30, "61.0 GiB")])
def test_sizes(count, text):
    assert size(count) == text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(0, 100, "0 %"), (0.1, 100, "<1 %"), (62, 100, "62 %"), (100, 100, "100 %"), (0, 0, "-")],
)
def test_a_little_is_not_nothing(part, whole, text):
    assert percent(part, whole) == text


def test_counts():
    assert counted(1, "rank") == "1 rank"
    assert counted(1024, "rank") == "1,024 ranks"


def test_foreign_text_becomes_one_printable_line():
    assert plain("a\x1b[31mred\nnext\ttab\u202eback\ud800") == "a\N{REPLACEMENT CHARACTER}[31mred next tab" + (
        "\N{REPLACEMENT CHARACTER}back\N{REPLACEMENT CHARACTER}"
    )
    assert plain("größe 温度 😀") == "größe 温度 😀"


@pytest.mark.parametrize(
    ("text", "shown"), [("a##[b]", "a#?[b]"), ("###vso[b]", "##?vso[b]"), ("## Call #1", "## Call #1")]
)
def test_foreign_text_tells_ci_systems_nothing(text, shown):
    assert plain(text) == shown.replace("?", "\N{REPLACEMENT CHARACTER}")


def test_a_megabyte_keeps_its_beginning_and_its_end():
    text = plain("begin" + "x" * 1_000_000 + "end", limit=20)
    assert (len(text), text[:5], text[-3:]) == (20, "begin", "end")
    assert shortened("short", 5) == "short"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "void at::native::reduce<512, float>(at::Op<float>, (anonymous namespace)::X)",
            "reduce<512, float>",
        ),
        ("at::(anonymous namespace)::sort(int)", "at::sort"),
        ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)"),
        ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"),
        ("unbalanced)", "unbalanced)"),
        ("()", "()"),
        ("", ""),
    ],
)
def test_kernels_are_named_without_their_parameters(name, text):
    assert kernel_name(name, 100) == text


def test_a_long_kernel_name_loses_its_end():
    name = (
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>, std::array<char*, 1ul> >(int)"
    )
    assert kernel_name(name, 46) == "vectorized_elementwise_kernel<4, FillFunctor<…"


def test_no_word_of_a_sentence_is_longer_than_a_line():
    assert sentence(f"{'a' * 100}.json: no\ntrace") == f"{'a' * 40}…{'a' * 13}.json: no trace"
