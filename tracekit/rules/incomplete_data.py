"""Traces that do not show the whole job.

What it means: files of ranks are missing, cut off or broken, events were lost, or files of another job lie among them.
What is shown is right as far as it goes; who waits for a rank without a file is not known.
How to confirm: the notes of `tracekit analyze`, which name file, place and count.
What to do: record every rank for the same steps; export outside the measured steps; leave the process time to write.
Published: tracekit's own.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from tracekit.model import Finding, Run, listed
from tracekit.replay.costs import Judged

CODE = "incomplete-data"
SHOWN = 5
CODES = (
    *(
        "missing-rank",
        "truncated",
        "unread-file",
        "changed-file",
        "lost-event",
        "lost-work",
        "several-jobs",
        "no-overlap",
        "unassigned-file",
        "no-device-work",
    ),
    *("no-work", "overrun", "half-span", "strange-event", "impossible-time", "world-size", "wrong-rank"),
)


def check(asked: Judged) -> Iterator[Finding]:
    """One finding that names what is not whole; it costs the job nothing."""
    notes = asked.run.notes
    told = notes[notes["code"].isin(CODES) & (notes["severity"] != "info")]
    if told.empty:
        return
    ranks = tuple(sorted({*told["rank"].dropna().astype(int).tolist(), *_missing(asked.run)}))
    of_ranks = f" of rank{'s' if len(ranks) > 1 else ''} {listed(ranks)}" if ranks else ""
    yield Finding(
        CODE, "info", f"the traces{of_ranks} do not show the whole job", ranks, (), None,
        tuple(_lines(told)),
        "record every rank whole, over the same steps",
    )  # fmt: skip


def _lines(notes: pd.DataFrame) -> Iterator[str]:
    for code, message in notes[["code", "message"]].head(SHOWN).itertuples(index=False):
        yield f"{code}: {message}"
    if len(notes) > SHOWN:
        yield f"and {len(notes) - SHOWN} more notes"


def _missing(run: Run) -> set[int]:
    """The ranks of the job that have no file."""
    return set(range(run.world_size or 0)) - set(run.ranks["rank"].tolist())
