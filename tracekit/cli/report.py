"""`tracekit report`: one file that opens anywhere, a comment for CI, or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tracekit.cli.analyze import STDOUT, analyzed, chosen_steps
from tracekit.errors import WrongUse


def report(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN", help="Folder, glob, files, archive or URL of the traces of one job."),
    ],
    out: Annotated[str, typer.Option("-o", "--out", metavar="FILE", help="Write one HTML file.")] = "",
    markdown: Annotated[str, typer.Option("--markdown", metavar="FILE|-", help="Write it as a comment for CI.")] = "",
    json: Annotated[str, typer.Option("--json", metavar="FILE|-", help="Write everything as JSON.")] = "",
    steps: Annotated[str, typer.Option("--steps", metavar="N|N-M", help="Only these steps, as in 3-10.")] = "",
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Read the files themselves and keep nothing.")] = False,
) -> None:
    """Write the analysis with its charts into one HTML file, without network; or as Markdown, or as JSON."""
    asked = {"-o": out, "--markdown": markdown, "--json": json}
    if not any(asked.values()):
        raise WrongUse("tracekit report writes a file: give -o report.html, --markdown FILE or --json FILE")
    for option, file in asked.items():
        _check_writable(option, file)
    analysis = analyzed(runs, steps=chosen_steps(steps), cache=not no_cache)
    from tracekit.report.html import html_text
    from tracekit.report.json import document, json_text
    from tracekit.report.overview import overview
    from tracekit.report.overview_markdown import overview_markdown

    if out:
        _write(html_text(analysis), "-o", out)
    if markdown:
        _write(overview_markdown(overview(analysis)), "--markdown", markdown)
    if json:
        _write(json_text(document(analysis)), "--json", json)


def _check_writable(option: str, file: str) -> None:
    """WrongUse, before any work is done, for a file that cannot be written."""
    if not file or file == STDOUT:
        return
    if Path(file).is_dir():
        raise WrongUse(f"{option} {file}: this is a folder, not a file")
    if not Path(file).absolute().parent.is_dir():
        raise WrongUse(f"{option} {file}: there is no folder {Path(file).absolute().parent}")


def _write(text: str, option: str, file: str) -> None:
    if file == STDOUT:
        print(text, end="")
        return
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as why:
        raise WrongUse(f"{option} {file}: {why.strerror}") from why
