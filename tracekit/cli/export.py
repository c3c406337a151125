"""`tracekit export`: the run for other tools."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracekit.cli import progress
from tracekit.cli.telling import told
from tracekit.errors import WrongUse
from tracekit.wording import counted

if TYPE_CHECKING:
    from tracekit.model import Run


def export(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN", help="Folder, glob, files, archive or URL of the traces of one job."),
    ],
    perfetto: Annotated[
        str,
        typer.Option("--perfetto", metavar="FILE", help="One merged trace of all ranks, as .json or .json.gz."),
    ] = "",
    hta: Annotated[
        str,
        typer.Option("--hta", metavar="DIR", help="A new folder with each rank's trace, for HolisticTraceAnalysis."),
    ] = "",
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Read the files themselves and keep nothing.")] = False,
) -> None:
    """Write all ranks as one trace on one clock for Perfetto's UI (https://ui.perfetto.dev), or as files for HTA."""
    if not perfetto and not hta:
        raise WrongUse("nothing to write: --perfetto FILE writes one merged trace, --hta DIR a trace for each rank")
    if perfetto:
        _check_writable(perfetto)
    if hta:
        from tracekit.export.hta import check_folder

        check_folder(hta)
    from tracekit.read.load import load

    with progress.shown("reading") as follow:
        run = load(runs[0] if len(runs) == 1 else runs, cache=not no_cache, progress=follow)
    if perfetto:
        _perfetto(run, perfetto)
    if hta:
        _hta(run, hta)


def _perfetto(run: Run, file: str) -> None:
    from tracekit.analysis import Analysis
    from tracekit.export.perfetto import write_perfetto

    with _told(f"--perfetto {file}"), progress.shown("writing") as follow:
        count = write_perfetto(Analysis(run), file, progress=follow)
    told(f"{file}: {run.ranks['rank'].nunique():,} ranks, {count:,} events; open it at https://ui.perfetto.dev")


def _hta(run: Run, folder: str) -> None:
    from tracekit.export.hta import write_hta

    with _told(f"--hta {folder}"), progress.shown("writing") as follow:
        counts = write_hta(run, folder, progress=follow)
    first = ", the first window of each" if run.several_windows else ""
    about = f"{counted(len(counts), 'rank')}{first}, {counted(sum(counts.values()), 'event')}"
    told(f"{folder}: {about}; read it with hta.trace_analysis.TraceAnalysis(trace_dir={folder!r})")


@contextmanager
def _told(option: str) -> Iterator[None]:
    """A failure to write as the option's."""
    try:
        yield
    except OSError as why:
        raise WrongUse(f"{option}: {why.strerror}") from why


def _check_writable(file: str) -> None:
    """WrongUse, before any work is done, for a file that cannot be written."""
    if not file.endswith((".json", ".json.gz")):
        raise WrongUse(f"--perfetto {file}: the file's name must end in .json or .json.gz")
    if Path(file).is_dir():
        raise WrongUse(f"--perfetto {file}: this is a folder, not a file")
    if not Path(file).absolute().parent.is_dir():
        raise WrongUse(f"--perfetto {file}: there is no folder {Path(file).absolute().parent}")
