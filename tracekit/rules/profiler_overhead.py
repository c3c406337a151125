"""The profiler itself holds the device up.

What it means: the device is idle while the profiler requests or flushes its buffers on the host, or switches itself on.
Without it that time would not be there, so steps look longer, and hosts later, than they are.
How to confirm: `profiling_ns` in `tracekit explain stalls`; spans of category `overhead` in the trace, named `Activity
Buffer Request` or `Buffer Flush`.
What to do: profile after some warm-up (`schedule(wait=5, warmup=2, active=5)`), over fewer steps, without `with_stack`;
judge the job by steps without such spans.
Published: PyTorch Profiler's documentation (`schedule`, and the overhead of `with_stack` and `record_shapes`).
"""

from __future__ import annotations

from collections.abc import Iterator

from tracekit.evidence import in_complete_steps, ms, step_ns
from tracekit.model import Finding
from tracekit.replay.costs import Judged

CODE = "profiler-overhead"
LEAST_FRAC = 0.01
"""Of the mean step, on the rank with the most: from there on it bears on what other findings cost."""


def check(asked: Judged) -> Iterator[Finding]:
    """One finding for the ranks that the profiler holds up; it costs the job nothing."""
    rows = in_complete_steps(asked["stalls"], asked.run)
    means = rows.groupby("rank")["profiling_ns"].mean()
    limit_ns = LEAST_FRAC * step_ns(asked.run)
    ranks = tuple(int(str(rank)) for rank in means.index[means > limit_ns])
    if not ranks:
        return
    steps = tuple(int(step) for step in sorted(set(rows.loc[rows["profiling_ns"] > limit_ns, "step"])))
    yield Finding(
        CODE, "info", "the profiler holds the device up: steps look longer than they are", ranks, steps, None,
        (f"for {ms(float(means.max()))} a step on rank {means.idxmax()} the device waits for the profiler's own work",),
        "profile after a warm-up and over fewer steps, without with_stack; judge by the steps without it",
    )  # fmt: skip
