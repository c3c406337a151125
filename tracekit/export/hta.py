"""A run for HolisticTraceAnalysis (HTA): as its own object without its parsing, and as files that it reads.

HTA works in whole microseconds: of times in nanoseconds its parser rounds starts up and ends down (so a span may last
-1), unless `HTA_DISABLE_NS_ROUNDING` is set. `to_hta` always does so, on each file's own clock; ranks then stand on the
run's one clock, to a microsecond.

What HTA takes from events' arguments and tracekit does not hold has the value that HTA gives where an event lacks it:
shapes and types of operators' inputs, external ids, and the event that a stream waits for (so its critical path has no
edges between streams). There are no links from forward to backward operators and no hardware counters. MTIA's and XPU's
kernels have the category `kernel`. It differs from HTA's own parser where that errs: host calls have no stream, also
where a file gives Triton's operators one; steps are the host's, not their copies on the device; work on stream 0 has a
step. Events at the same microsecond may follow one another in another order than in the file.

HTA 0.5 was made for pandas 2. With pandas 3, which tracekit needs, what `to_hta` gives works where HTA's own reading
fails: call stacks, the critical path, and files with more events than correlations have numbers. Files written here are
for HTA wherever it is installed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.errors import TracekitError, WrongUse
from tracekit.export.hta_rows import events_of, head_of, rows_of
from tracekit.export.trace_event import Progress, write_events
from tracekit.model import Run, listed
from tracekit.waiting import with_waits

if TYPE_CHECKING:
    from hta.trace_analysis import TraceAnalysis


def to_hta(
    run: Run, *, ranks: Collection[int] | None = None, window: int = 0, include_last_profiler_step: bool = False
) -> TraceAnalysis:
    """HTA's `TraceAnalysis` of the ranks (of all, unless some are named), as if it had read their files.

    Ranks that were not profiled in the window are left out, and like by HTA the last step unless it is asked for.
    TracekitError where HTA is not installed.
    """
    try:
        from tracekit.export.hta_trace import filled
    except ImportError as why:
        raise TracekitError("HolisticTraceAnalysis is missing: pip install 'tracekit-torch[hta]'") from why
    files = {rank: file for rank, file in _files(run, window).items() if ranks is None or rank in ranks}
    if not files:
        raise WrongUse(f"the run has none of these ranks; it has ranks {listed(run.ranks['rank'])}")
    return filled(run, files, window, include_last_profiler_step)


def write_hta(
    run: Run, folder: str | os.PathLike[str], *, window: int = 0, progress: Progress | None = None
) -> dict[int, int]:
    """Writes each rank's trace as `rank<N>.json.gz` into a new or empty folder; how many events each rank has.

    `TraceAnalysis(trace_dir=...)` reads them. One rank's tables are held at a time. WrongUse for a folder that holds
    something already.
    """
    check_folder(folder)
    target = Path(folder)
    files = _files(run, window)
    target.mkdir(parents=True, exist_ok=True)
    counts = {}
    for nth, rank in enumerate(files):
        if progress:
            progress(nth, len(files), f"rank {rank}")
        counts[rank] = write_events(
            target / f"rank{rank}.json.gz", head_of(run, rank, window), _events(run, rank, window)
        )
    return counts


def check_folder(folder: str | os.PathLike[str]) -> None:
    """WrongUse for a folder that holds something already."""
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise WrongUse(f"{target}: HTA takes all files of a folder for ranks, so it must be a new or an empty one")


def _events(run: Run, rank: int, window: int) -> Iterator[str]:
    return events_of(rows_of(run, rank, window), with_waits(run).rank(rank, window).calls)


def _files(run: Run, window: int) -> dict[int, str]:
    """The file of each rank that has the window; WrongUse where none has."""
    mine = run.ranks[run.ranks["window"] == window]
    if mine.empty:
        raise WrongUse(f"the run has no window {window}; it has windows {listed(run.ranks['window'])}")
    return dict(zip(mine["rank"].tolist(), mine["file"].tolist(), strict=True))
