"""Names that attack who shows them: as HTML, as LaTeX, as Markdown, by their length, by their direction, or by control
characters that a terminal obeys."""

SCRIPT = "<img src=x onerror=window.hacked=1>"
NAMES = (
    SCRIPT, "</script><script>window.hacked=1</script>", "$\\href{javascript:window.hacked=1}{x}$",
    "[a](javascript:window.hacked=1)", "=cmd|' /C calc'!A0", "{{7*7}}", "k" * 5000,
    "\u202eevil\u202c \u05d0\u05d1\u05d2",
)  # fmt: skip
CONTROLS = (
    "red\x1b[31m", "link\x1b]8;;https://evil.example\x1b\\here\x1b]8;;\x1b\\", "clip\x1b]52;c;ZXZpbA==\x07",
    "csi\x9b2J", "osc\x9d0;title\x9c", "line\rover", "back\b\b\b\bspace", "del\x7f", "nul\x00end", "bell\x07",
    "two\nlines", "nel\x85x", "bidi\u202eevil\u2066x\u2067y\u2068z\u2069", "zero\u200bwidth\u200d\ufeff",
    "separators\u2028a\u2029b\x1c\x1d\x1e\x1f",
    "[red]markup[/red]", "::error file=a::injected", "##[add-mask]injected", "%0A::warning::injected",
)  # fmt: skip
"""What a terminal, or the log of a CI system, takes for a command."""
FILE = "rank0\x1b]52;c;ZXZpbA==\x07\x9b31m\u202e\nx.json"
"""A file's name may hold all but a slash and a zero byte."""


def obeyed(text):
    """The lines of a text in which something is no printable character, so that a terminal may do more than show it."""
    return [line for line in text.split("\n") if not line.isprintable()]
