"""`tracekit analyze`: where the step goes, who waits for whom, and what is wrong."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracekit.cli import executors, progress
from tracekit.errors import NotMeasured, WrongUse

if TYPE_CHECKING:
    from tracekit.analysis import Analysis
    from tracekit.model import Finding

Steps = tuple[int, int]
STDOUT = "-"
SEVERITIES = ("error", "warning", "info")
"""The gravest first."""


def analyze(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN", help="Folder, glob, files, archive or URL of the traces of one job."),
    ],
    json: Annotated[
        str, typer.Option("--json", metavar="FILE|-", help="Write everything as JSON to a file, or to stdout.")
    ] = "",
    steps: Annotated[str, typer.Option("--steps", metavar="N|N-M", help="Only these steps, as in 3-10.")] = "",
    calls: Annotated[bool, typer.Option("--calls", help="Also put each communication call into the JSON.")] = False,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Read the files themselves and keep nothing.")] = False,
    executor: Annotated[
        str, typer.Option("--executor", metavar="dask://HOST:PORT", help="Read and measure on a Dask cluster.")
    ] = "",
    fail_on: Annotated[
        list[str] | None,
        typer.Option("--fail-on", metavar="CODE|SEVERITY", help="Exit with 1 if there is such a finding, or a graver."),
    ] = None,
) -> None:
    """Say where the step goes, who waits for whom, what each rank does, and what is wrong, with what it costs."""
    check_codes(fail_on or [])
    if calls and not json:
        raise WrongUse("--calls adds the calls to the JSON, so it needs --json FILE or --json -")
    check_writable(json)
    with executors.executor(executor) as elsewhere:
        analysis = analyzed(runs, steps=chosen_steps(steps), cache=not no_cache, executor=elsewhere)
    if json != STDOUT:
        print(account(analysis), end="")
    if json:
        write_json(analysis, json, calls=calls)
    if fails(analysis.findings, fail_on or []):
        raise typer.Exit(1)


def check_codes(codes: Sequence[str]) -> None:
    """WrongUse, before any work is done, for what is neither a rule's code nor a severity."""
    from tracekit.diagnosis import rule_modules

    known = [*SEVERITIES, *rule_modules()]
    for code in codes:
        if code not in known:
            raise WrongUse(f"--fail-on takes {', '.join(known)}, not {code!r}")


def fails(findings: Sequence[Finding], codes: Sequence[str]) -> bool:
    """Whether some finding has one of the codes, or is at least as grave as one of the severities."""
    gravest = [SEVERITIES.index(code) for code in codes if code in SEVERITIES]
    return any(
        finding.code in codes or SEVERITIES.index(finding.severity) <= max(gravest, default=-1) for finding in findings
    )


def chosen_steps(text: str) -> Steps | None:
    """`3-10` as (3, 10), `3` as (3, 3), nothing as None; WrongUse for anything else."""
    if not text:
        return None
    first, dash, last = text.partition("-")
    try:
        steps = int(first), int(last if dash else first)
    except ValueError:
        raise WrongUse(f"--steps takes a step or a range of steps, as in 3 or 3-10, not {text!r}") from None
    if steps[0] > steps[1]:
        raise WrongUse(f"--steps {text} ends before it begins")
    return steps


def analyzed(
    runs: Sequence[str], *, steps: Steps | None = None, cache: bool = True, executor: Executor | None = None
) -> Analysis:
    """The job's traces, read, with every measure computed; progress is shown meanwhile."""
    from tracekit.analysis import Analysis, measure_names
    from tracekit.read.load import load

    with progress.shown("reading") as follow:
        run = load(runs[0] if len(runs) == 1 else runs, cache=cache, progress=follow, executor=executor)
    analysis = Analysis(run.only_steps(*steps) if steps else run)
    with progress.shown("measuring") as follow:
        names = measure_names()
        for done, name in enumerate(names):
            follow(done, len(names), name)
            ask(analysis, name)
    with progress.shown("diagnosing") as follow:
        follow(0, 1, "replay")
        assert analysis.findings is not None
    return analysis


def ask(analysis: Analysis, name: str) -> None:
    """Has the analysis compute a measure, if the run has what it takes."""
    try:
        analysis[name]
    except NotMeasured:
        return


def account(analysis: Analysis) -> str:
    """The screen, as wide and as colourful as stdout allows."""
    from rich.console import Console

    from tracekit.report.text import account_text

    console = Console(file=sys.stdout)
    return account_text(analysis, width=console.width, colour=console.color_system is not None)


def check_writable(file: str) -> None:
    """WrongUse, before any work is done, for a JSON file that cannot be written."""
    if not file or file == STDOUT:
        return
    if Path(file).is_dir():
        raise WrongUse(f"--json {file}: this is a folder, not a file")
    if not Path(file).absolute().parent.is_dir():
        raise WrongUse(f"--json {file}: there is no folder {Path(file).absolute().parent}")


def write_json(analysis: Analysis, file: str, *, calls: bool) -> None:
    """The analysis as JSON, to a file or to stdout."""
    from tracekit.report.json import document, json_text

    write_text(json_text(document(analysis, calls=calls)), file)


def write_text(text: str, file: str) -> None:
    """JSON to a file or to stdout."""
    if file == STDOUT:
        print(text, end="")
        return
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as why:
        raise WrongUse(f"--json {file}: {why.strerror}") from why
