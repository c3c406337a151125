import pytest
from rich.text import Text

from tracekit.report.screen import screen_text


@pytest.mark.parametrize("width", [80, 12])
def test_no_line_is_a_workflow_command(width):
    """docs.github.com/actions/reference/workflow-commands-for-github-actions: `::` begins the line of one."""
    told = [Text("the kernel ::error::x is new"), Text("::stop-commands::y"), Text("  ::debug::z"), Text("at::native")]
    lines = screen_text(told, width=width, colour=False).splitlines()
    assert not [line for line in lines if line.strip().startswith("::")]
    assert lines[-1] == "at::native"


def test_lines_have_no_spaces_at_their_ends():
    assert screen_text([Text("a  "), Text("b")], width=10, colour=False) == "a\nb\n"
