import pytest

from benchmarks.sections import write_section


def test_each_command_writes_its_own_section(tmp_path):
    document = tmp_path / "docs" / "accuracy.md"
    write_section(document, "a", "one\n")
    write_section(document, "b", "two")
    write_section(document, "a", "three")
    assert document.read_text() == (
        "<!-- begin: a -->\nthree\n<!-- end: a -->\n\n<!-- begin: b -->\ntwo\n<!-- end: b -->\n"
    )


def test_what_people_wrote_stays(tmp_path):
    document = tmp_path / "accuracy.md"
    document.write_text("# Title\n\n<!-- begin: a -->\nold\n<!-- end: a -->\nafter\n")
    write_section(document, "a", "new")
    assert document.read_text() == "# Title\n\n<!-- begin: a -->\nnew\n<!-- end: a -->\nafter\n"


def test_a_section_without_an_end_is_left_alone(tmp_path):
    document = tmp_path / "accuracy.md"
    document.write_text("<!-- begin: a -->\nold\n")
    with pytest.raises(ValueError, match="does not end"):
        write_section(document, "a", "new")
    assert document.read_text() == "<!-- begin: a -->\nold\n"
