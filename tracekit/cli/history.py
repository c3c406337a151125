"""`tracekit history`: saved summaries over commits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tracekit.cli.analyze import STDOUT, check_writable
from tracekit.errors import WrongUse


def history(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Where tracekit check --save puts summaries.")],
    metrics: Annotated[
        list[str] | None,
        typer.Option("--metric", metavar="NAME", help="Metrics to show (default: step, exposed_comm, memory)."),
    ] = None,
    json: Annotated[str, typer.Option("--json", metavar="FILE|-", help="Write values and steps as JSON.")] = "",
) -> None:
    """Show how runs developed over commits: a table, sparklines, and where the level stepped."""
    from tracekit.gate.history import read_history
    from tracekit.gate.metrics import full_names
    from tracekit.report.history_text import history_document, history_text
    from tracekit.report.json import json_text

    check_writable(json)
    if not Path(folder).is_dir():
        raise WrongUse(f"{folder} is no folder")
    held = read_history(folder)
    known = sorted({name for run in held.summaries for name in run.metrics})
    names = [full for name in metrics or ("step", "exposed_comm", "memory") for full in full_names(name, known)]
    if metrics and not names:
        raise WrongUse(f"no run of {folder} has {', '.join(metrics)}")
    if json != STDOUT:
        print(history_text(held, names), end="")
    if json:
        text = json_text(history_document(held, names))
        if json == STDOUT:
            print(text, end="")
        else:
            Path(json).write_text(text, encoding="utf-8")
