"""A first step that is no step like the others.

What it means: the first profiled step takes much longer than the rest: compilation, cache warm-up, the allocator's
first requests, or the profiler's own start. It spoils means over the steps.
How to confirm: the steps' lengths; `tracekit analyze --steps` without the first.
What to do: a profiler schedule with a warm-up (`schedule(wait=1, warmup=1, active=3)`), profiling later in the run.
Published: PyTorch Profiler's documentation of `schedule` ("warmup ... discard the results").
"""

from __future__ import annotations

from collections.abc import Iterator

from tracekit.evidence import first_window, ms
from tracekit.model import Finding
from tracekit.replay.costs import Judged

CODE = "warm-up"
LEAST_FACTOR = 1.5
"""Times the other steps' median: unequal samples make no such step, compilation does."""
MIN_STEPS = 3


def check(asked: Judged) -> Iterator[Finding]:
    """One finding where the first step stands out; it costs the job nothing."""
    steps = first_window(asked.run.steps[asked.run.steps["complete"]])
    lengths = (steps["end_ns"] - steps["start_ns"]).groupby(steps["step"]).mean().sort_index()
    if len(lengths) < MIN_STEPS or lengths.iloc[0] < LEAST_FACTOR * lengths.iloc[1:].median():
        return
    first, factor = int(lengths.index[0]), lengths.iloc[0] / lengths.iloc[1:].median()
    yield Finding(
        CODE, "info", f"step {first} takes {factor:.1f} times as long as the others",
        (), (first,), None,
        (f"{ms(float(lengths.iloc[0]))}, the others {ms(float(lengths.iloc[1:].median()))} in the median",),
        f"leave it out with --steps {int(lengths.index[1])}-{int(lengths.index[-1])}, or profile after a warm-up",
    )  # fmt: skip
