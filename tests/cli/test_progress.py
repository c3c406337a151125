import io
import sys

from tracekit.cli import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown_on(stream, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with progress.shown("reading") as follow:
        follow(1, 8, "rank1.json\x1b[31m[red]\n" + "x" * 1_000_000)
        follow(8, 8, "rank7.json")
    return stream.getvalue()


def test_a_pipe_sees_nothing(monkeypatch):
    assert shown_on(io.StringIO(), monkeypatch) == ""


def test_a_terminal_sees_how_far_the_work_is(monkeypatch):
    text = shown_on(Terminal(), monkeypatch)
    assert "reading" in text
    assert "8/8" in text
    assert len(text) < 10_000
