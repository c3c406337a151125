from tests.report.verdicts import better, drifting, hostile, not_comparable, same, slower, unsure
from tracekit.report.annotations import github_annotations


def test_levels():
    assert github_annotations(same()) == ""
    assert github_annotations(slower()).startswith("::error title=step is worse::+30.0 %25 (95 %25: ")
    assert github_annotations(better()).startswith("::notice title=step is better::")
    assert github_annotations(unsure()).startswith("::warning title=step is unsure::")
    assert github_annotations(not_comparable()) == "::error title=not comparable::world size: 2 → 4\n"
    assert "::warning title=drift::" in github_annotations(drifting())


def test_foreign_text_gives_no_command():
    lines = github_annotations(hostile()).splitlines()
    assert len(lines) == 2
    assert all(line.startswith("::error title=") for line in lines)
    assert "%0A" not in github_annotations(hostile()).replace("%250A", "")
