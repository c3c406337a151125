"""The door: a job to traces and truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tracekit.simulate.costs import Costs
from tracekit.simulate.engine import World, carried_out
from tracekit.simulate.job import Job
from tracekit.simulate.kineto import write_rank
from tracekit.simulate.truth import Truth, truth_of, write_truth

TRUTH = "truth.json"

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Simulated:
    """A job that was simulated: its truth, and where its traces stand, if they were written."""

    truth: Truth
    folder: Path | None
    files: int
    events: int


def simulate(job: Job, out: str | Path | None = None, *, progress: Progress | None = None) -> Simulated:
    """Carries the job out; with `out`, writes one trace per rank and `truth.json` into that folder, which is made.

    Ranks with the fault `missing_ranks` get no file. `progress` is called with ranks written, ranks in all, and a name.
    Raises Stuck where the job waits for itself.
    """
    world = carried_out(Costs(job))
    truth = truth_of(world)
    if out is None:
        return Simulated(truth, None, 0, 0)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    files, events = _written(world, truth, folder, progress)
    write_truth(truth, folder / TRUTH)
    return Simulated(truth, folder, files, events)


def _written(world: World, truth: Truth, folder: Path, progress: Progress | None) -> tuple[int, int]:
    ranks = truth.ranks.loc[truth.ranks["has_file"], "rank"].tolist()
    events = 0
    for done, rank in enumerate(ranks):
        if progress:
            progress(done, len(ranks), f"rank {rank}")
        events += write_rank(world, rank, folder)
    return len(ranks), events
