"""`tracekit export`: the run for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tracekit.cli import progress
from tracekit.errors import WrongUse


def export(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN", help="Folder, glob, files, archive or URL of the traces of one job."),
    ],
    perfetto: Annotated[
        str,
        typer.Option("--perfetto", metavar="FILE", help="One merged trace of all ranks, as .json or .json.gz."),
    ] = "",
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Read the files themselves and keep nothing.")] = False,
) -> None:
    """Write all ranks as one trace on one clock, for Perfetto's UI (https://ui.perfetto.dev)."""
    if not perfetto:
        raise WrongUse("nothing to write: --perfetto FILE writes one merged trace")
    _check_writable(perfetto)
    from tracekit.analysis import Analysis
    from tracekit.export.perfetto import write_perfetto
    from tracekit.read.load import load

    with progress.shown("reading") as follow:
        run = load(runs[0] if len(runs) == 1 else runs, cache=not no_cache, progress=follow)
    with progress.shown("writing") as follow:
        try:
            count = write_perfetto(Analysis(run), perfetto, progress=follow)
        except OSError as why:
            raise WrongUse(f"--perfetto {perfetto}: {why.strerror}") from why
    print(f"{perfetto}: {run.ranks['rank'].nunique():,} ranks, {count:,} events; open it at https://ui.perfetto.dev")


def _check_writable(file: str) -> None:
    """WrongUse, before any work is done, for a file that cannot be written."""
    if not file.endswith((".json", ".json.gz")):
        raise WrongUse(f"--perfetto {file}: the file's name must end in .json or .json.gz")
    if Path(file).is_dir():
        raise WrongUse(f"--perfetto {file}: this is a folder, not a file")
    if not Path(file).absolute().parent.is_dir():
        raise WrongUse(f"--perfetto {file}: there is no folder {Path(file).absolute().parent}")
