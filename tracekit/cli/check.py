"""`tracekit check`: did this commit make training slower? An exit code for CI, and why."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from tracekit.cli.analyze import STDOUT
from tracekit.cli.telling import warned
from tracekit.errors import WrongUse

if TYPE_CHECKING:
    from tracekit.analysis import Analysis
    from tracekit.gate.check import Verdict
    from tracekit.gate.summary import Summary


def check(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...", help="Each a run (folder, archive, URL) or a saved summary; several repeat it."
        ),
    ],
    baseline: Annotated[
        list[str] | None,
        typer.Option("--baseline", metavar="RUN|FILE|FOLDER", help="A run, a saved summary or a history; repeatable."),
    ] = None,
    budget: Annotated[
        list[str] | None,
        typer.Option(
            "--budget", metavar="NAME:LIMIT", help="step:5%, exposed_comm:0.5ms, step:5%,1ms, ...; repeatable."
        ),
    ] = None,
    save: Annotated[
        str,
        typer.Option("--save", metavar="FILE|FOLDER", help="Save a summary: to FILE.json, or as one more in FOLDER."),
    ] = "",
    unsure: Annotated[str, typer.Option("--unsure", metavar="fail|pass", help="What an unsure verdict does.")] = "",
    allow: Annotated[
        list[str] | None, typer.Option("--allow", metavar="WHAT", help="Compare although this differs; repeatable.")
    ] = None,
    noise: Annotated[
        str, typer.Option("--noise", metavar="1%", help="Noise between runs of one commit, where no repeats tell it.")
    ] = "",
    json: Annotated[str, typer.Option("--json", metavar="FILE|-", help="Write the verdict as JSON.")] = "",
    markdown: Annotated[str, typer.Option("--markdown", metavar="FILE|-", help="Write it as a comment for CI.")] = "",
    junit: Annotated[str, typer.Option("--junit", metavar="FILE", help="Write it as JUnit XML.")] = "",
    annotate: Annotated[
        bool, typer.Option("--annotate", help="Also print GitHub annotations (the default in GitHub Actions).")
    ] = False,
    commit: Annotated[
        str, typer.Option("--commit", metavar="ID", help="The commit to save (default: CI's, or git's).")
    ] = "",
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Read the files themselves and keep nothing.")] = False,
) -> int:
    """Compare a run with a baseline under budgets: exit code 0 fine, 1 worse, 2 wrong use, 3 not comparable."""
    from tracekit.cli.settings import settings
    from tracekit.gate.check import check as judge
    from tracekit.gate.sides import base_side, summary_at

    told = settings()
    where = list(baseline or told.baseline)
    if not where and not save:
        raise WrongUse("tracekit check takes --baseline to compare with, or --save to keep a summary for later")
    outputs = {"--json": json, "--markdown": markdown, "--junit": junit}
    _check_outputs(outputs)
    choice = _unsure(unsure or told.unsure)
    noise_frac = _noise(noise or told.noise)
    read = reader(cache=not no_cache)
    new = [summary_at(one, read, commit=commit) for one in runs]
    verdict = None
    if where:
        base, drifts = base_side(where, new[-1], read, _left_out)
        verdict = judge(
            base, new, budgets=(*told.budgets, *(budget or ())), unsure=choice, allow=(*told.allow, *(allow or ())),
            noise_frac=noise_frac, drifts=drifts,
        )  # fmt: skip
    if save:
        _save(new, save)
    if verdict is None:
        return 0
    _tell(verdict, outputs, annotate or os.environ.get("GITHUB_ACTIONS") == "true")
    return verdict.exit_code


def reader(*, cache: bool) -> Callable[[str], Analysis]:
    """Reads one run's traces, with progress."""
    from tracekit.cli.analyze import analyzed

    return lambda path: analyzed([path], cache=cache)


def _left_out(why: str) -> None:
    warned(f"left out of the history: {why}")


def _unsure(text: str) -> Literal["", "fail", "pass"]:
    if text not in ("", "fail", "pass"):
        raise WrongUse(f"--unsure takes fail or pass, not {text!r}")
    return cast(Literal["", "fail", "pass"], text)


def _noise(text: str) -> float | None:
    if not text:
        return None
    try:
        value = float(text.removesuffix("%")) / 100
    except ValueError:
        value = -1.0
    if not text.endswith("%") or not 0 <= value < 1:
        raise WrongUse(f"--noise takes a percentage of the step, as in 1%, not {text!r}")
    return value


def _check_outputs(outputs: dict[str, str]) -> None:
    """WrongUse, before any work is done, for files that cannot be written, or two texts on one stdout."""
    if sum(file == STDOUT for file in outputs.values()) > 1:
        raise WrongUse("only one of --json and --markdown can go to stdout")
    for option, file in outputs.items():
        if file and file != STDOUT and (Path(file).is_dir() or not Path(file).absolute().parent.is_dir()):
            raise WrongUse(f"{option} {file}: there is no such folder, or it is one itself")


def _save(summaries: Sequence[Summary], where: str) -> None:
    """Each run into the history, or the one run into the file."""
    from tracekit.gate.history import add
    from tracekit.gate.summary import write_summary

    if where.endswith(".json") and not Path(where).is_dir():
        if len(summaries) > 1:
            raise WrongUse(f"--save {where}: a file holds one run, and there are {len(summaries)}; name a folder")
        written = [write_summary(summaries[0], where)]
    else:
        written = [add(one, where) for one in summaries]
    for path in written:
        warned(f"saved {path}")


def _tell(verdict: Verdict, outputs: dict[str, str], annotate: bool) -> None:
    from tracekit.report.annotations import github_annotations
    from tracekit.report.json import json_text
    from tracekit.report.junit import junit_xml
    from tracekit.report.verdict_json import verdict_document
    from tracekit.report.verdict_markdown import verdict_markdown

    texts = {
        "--json": lambda: json_text(verdict_document(verdict)),
        "--markdown": lambda: verdict_markdown(verdict),
        "--junit": lambda: junit_xml(verdict),
    }
    if STDOUT not in outputs.values():
        print(screen(verdict), end="")
    for option, file in outputs.items():
        if file == STDOUT:
            print(texts[option](), end="")
        elif file:
            _write(file, texts[option](), option)
    if annotate:
        print(github_annotations(verdict), end="", file=sys.stderr if STDOUT in outputs.values() else sys.stdout)


def screen(verdict: Verdict) -> str:
    """The verdict as wide and as colourful as stdout allows."""
    from rich.console import Console

    from tracekit.report.verdict_text import verdict_text

    console = Console(file=sys.stdout)
    return verdict_text(verdict, width=console.width, colour=console.color_system is not None)


def _write(file: str, text: str, option: str) -> None:
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as why:
        raise WrongUse(f"{option} {file}: {why.strerror}") from why
