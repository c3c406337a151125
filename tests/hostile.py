"""Names that attack who shows them: as HTML, as LaTeX, as Markdown, by their length, by their direction."""

SCRIPT = "<img src=x onerror=window.hacked=1>"
NAMES = (
    SCRIPT, "</script><script>window.hacked=1</script>", "$\\href{javascript:window.hacked=1}{x}$",
    "[a](javascript:window.hacked=1)", "=cmd|' /C calc'!A0", "{{7*7}}", "k" * 5000,
    "\u202eevil\u202c \u05d0\u05d1\u05d2",
)  # fmt: skip
