"""Calls in which the host waits for the device, so that nothing is launched ahead.

What it means: again and again the host waits until the device has done all its work (`cudaStreamSynchronize`,
`.item()`, a blocking copy, printing a loss) and only then launches more: the device idles for each launch.
How to confirm: many synchronising calls a step in `tracekit explain host`; `torch.cuda.set_sync_debug_mode("warn")`
names the lines that do it.
What to do: keep losses and norms on the device and read them every so many steps; `non_blocking=True` from pinned
memory; masks instead of indexing by what was computed.
Published: PyTorch Performance Tuning Guide, "Avoid unnecessary CPU-GPU synchronization".
"""

from __future__ import annotations

from collections.abc import Iterator

from tracekit.model import Finding
from tracekit.replay.costs import Judged
from tracekit.stalling import Stall, findings

CODE = "synchronizing-calls"
STALL = Stall(
    "synchronizing_ns",
    "waits for it before it launches more",
    "wait for them before they launch more",
    "behind calls that wait for it",
    0.01,
    latency=True,
)


def check(asked: Judged) -> Iterator[Finding]:
    """A finding per rank that waits more than its peers, or one for all."""
    advice = "find them with torch.cuda.set_sync_debug_mode('warn'); read losses and norms every so many steps only"
    yield from findings(asked, CODE, STALL, advice)
