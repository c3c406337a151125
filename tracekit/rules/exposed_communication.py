"""Communication that nothing hides, by parallel axis, with the reason why.

What it means: a step would be shorter if this axis' transfers took no time, members waiting for each other apart: they
are on the critical path. Why is told by what the calls look like: one huge bucket that cannot start before backward is
over; gathers that nothing runs beside (no prefetch); messages so small that latency, not bandwidth, is what they cost;
tensor parallelism across nodes; gradients reduced after every micro-batch; else simply more bytes than compute hides.
How to confirm: `tracekit explain overlap_group`, `bandwidth` and `volume`; the calls in `tracekit export --perfetto`.
What to do: as the reason says: smaller buckets (`bucket_cap_mb`), prefetch (FSDP's forward and backward prefetch),
fused messages, tensor parallel inside a node, `no_sync` until the last micro-batch; else a larger batch per GPU.
Published: Li et al. 2020 (PyTorch DDP, buckets and overlap); Zhao et al. 2023 (FSDP, prefetch); Narayanan et al. 2021
(Megatron-LM, tensor parallelism inside a node).
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from tracekit import axes
from tracekit.errors import NotMeasured
from tracekit.evidence import LEAST_COST_FRAC, first_window, in_complete_steps, ms, step_ns
from tracekit.model import Finding
from tracekit.replay.costs import Judged
from tracekit.transfers import BETWEEN_HOSTS

CODE = "exposed-communication"
LEAST_FRAC = 0.02
"""Of the step."""
HUGE_BUCKET_FRAC = 0.8
"""One call that moves so much of its axis' bytes in a step is one bucket."""
UNHIDDEN_FRAC = 0.1
"""Gathers of which less than this is hidden are not prefetched."""
SMALL_BYTES = 256 << 10
"""Messages below this cost latency."""


def check(asked: Judged) -> Iterator[Finding]:
    """A finding per axis whose transfers lengthen the step."""
    exposed = in_complete_steps(asked["exposed"], asked.run)
    limit_ns = LEAST_FRAC * step_ns(asked.run)
    calls = _calls(asked)
    for axis, rows in exposed.groupby("axis"):
        exposed_ns = float(rows["exposed_ns"].sum() / exposed[["rank", "step"]].drop_duplicates().shape[0])
        if exposed_ns < limit_ns:
            continue
        cost_ns = asked.costs.exposed_ns(str(axis), exposed_ns)
        if cost_ns < max(LEAST_COST_FRAC * step_ns(asked.run), limit_ns):
            continue
        reason, advice = _why(str(axis), calls[calls["axis"] == axis], rows, asked)
        share = 1 - float(rows["exposed_ns"].sum()) / max(float(rows["comm_ns"].sum()), 1)
        yield Finding(
            CODE, "warning", f"communication of the {axis} axis is exposed: {reason}", (), (), cost_ns,
            (f"{ms(exposed_ns)} a step and rank are exposed, waits for other ranks included; {share:.0%} is hidden",),
            advice,
        )  # fmt: skip


def _calls(asked: Judged) -> pd.DataFrame:
    """The calls of complete steps with the axis of their group."""
    calls = in_complete_steps(asked.run.calls, asked.run)
    places = asked["places"]
    groups = axes.members(calls, sorted(set(asked.run.ranks["rank"].tolist())))
    by_members = {frozenset(rows["rank"]): str(axis) for (axis, _), rows in places.groupby(["axis", "group"])}
    return calls.assign(axis=[by_members.get(frozenset(groups[group]), "") for group in calls["group"].tolist()])


def _why(axis: str, calls: pd.DataFrame, exposed: pd.DataFrame, asked: Judged) -> tuple[str, str]:
    """The reason, and what to do about it."""
    hidden = 1 - float(exposed["exposed_ns"].sum()) / max(float(exposed["comm_ns"].sum()), 1)
    sizes = calls["bytes"].dropna().astype(float)
    if axis == axes.TENSOR and _between_hosts(asked, calls):
        return "its groups span hosts, and each layer waits for it", "keep tensor parallel groups inside a host"
    reduces = calls["op"].isin(["all_reduce", "reduce_scatter"])
    if axis == axes.DATA and reduces.any():
        microbatches = _microbatches(asked)
        if microbatches > 1 and _repeats(calls[reduces], microbatches):
            return (
                f"gradients are reduced in each of {microbatches} micro-batches",
                "reduce with the last micro-batch only (no_sync, set_requires_gradient_sync)",
            )
        if _largest_share(calls) > HUGE_BUCKET_FRAC:
            return (
                "one bucket holds nearly all gradients and can start only when backward is over",
                "smaller buckets (bucket_cap_mb), in the order in which backward makes gradients",
            )
        if (calls["op"] == "all_gather").any() and hidden < UNHIDDEN_FRAC:
            return "weights are gathered when they are needed, not before", "prefetch the next layer's weights"
        if hidden < UNHIDDEN_FRAC:
            return "none of it runs beside compute", "let it start during backward, on a stream of its own"
    if len(sizes) and float(sizes.median()) < SMALL_BYTES:
        return (
            f"its messages are small ({sizes.median() / 1024:,.0f} KiB in the median), so each costs its latency",
            "fewer, larger messages: fuse buckets or layers",
        )
    return "there is more of it than compute to hide it", "more compute per byte: a larger batch per GPU, or less split"


def _largest_share(calls: pd.DataFrame) -> float:
    """How much of a step's all-reduced bytes its largest call moves, usually; 0 where there is none."""
    reduced = calls[(calls["op"] == "all_reduce") & calls["bytes"].notna()]
    per_step = reduced.assign(bytes=reduced["bytes"].astype(float)).groupby(["rank", "step"])["bytes"]
    return float((per_step.max() / per_step.sum()).median()) if len(reduced) else 0.0


def _microbatches(asked: Judged) -> int:
    try:
        return int(asked["microbatches"].groupby(["rank", "step"])["microbatch"].nunique().median())
    except NotMeasured:
        return 1


def _repeats(calls: pd.DataFrame, microbatches: int) -> bool:
    """Whether each size comes a multiple of the micro-batches' count in a step."""
    told = calls.dropna(subset="bytes")
    counts = told.groupby(["rank", "step", "bytes"]).size()
    large = counts[counts.index.get_level_values("bytes").astype(float) >= SMALL_BYTES]
    return len(large) > 0 and bool((large % microbatches == 0).all())


def _between_hosts(asked: Judged, calls: pd.DataFrame) -> bool:
    try:
        rows = first_window(asked["bandwidth"])
    except NotMeasured:
        return False
    mine = rows[rows["group"].isin(calls["group"])]
    return bool((mine["link"] == BETWEEN_HOSTS).any())
