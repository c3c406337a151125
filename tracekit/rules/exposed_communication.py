"""Communication that nothing hides, by parallel axis, with the reason why.

What it means: a step would be shorter if this axis' transfers took no time, members waiting for each other apart: they
are on the critical path. Why is told by what the calls look like: one huge bucket that cannot start before backward is
over; gathers that nothing runs beside (no prefetch, or all of them at once after the optimizer); messages so small that
latency, not bandwidth, is what they cost; tensor parallelism across nodes; gradients reduced after every micro-batch;
else simply more bytes than compute hides.
How to confirm: `tracekit explain overlap_group`, `bandwidth` and `volume`; the calls in `tracekit export --perfetto`.
What to do: as the reason says: smaller buckets (`bucket_cap_mb`), prefetch (FSDP's forward and backward prefetch),
fused messages, tensor parallel inside a node, `no_sync` until the last micro-batch; else more compute per
byte: for data parallel a larger batch per GPU, for tensor, context and expert parallel a smaller degree.
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
from tracekit.waiting import with_waits

CODE = "exposed-communication"
LEAST_FRAC = 0.02
"""Of the step. The last bucket and the first gather are exposed in every job; below this nobody would mend it."""
HUGE_BUCKET_FRAC = 0.8
"""One call that reduces so much of its axis' bytes in a step is one bucket."""
UNHIDDEN_FRAC = 0.1
"""Gathers of which less than this is hidden are not prefetched."""
AT_ONCE_FRAC = 0.1
"""Gathers that all begin within this share of the step do not go layer by layer."""
SMALL_BYTES = 256 << 10
"""A message below this takes a link about as long as an empty one,"""
SMALL_TIME_FRAC = 0.5
"""and messages are small if such ones take this share of the axis' transfers."""
MORE = {
    axes.DATA: "more compute per byte: a larger batch per GPU, or gradients in 16 bits",
    axes.TENSOR: "fewer tensor parallel ranks, or asynchronous tensor parallel; a larger batch moves more as well",
    axes.PIPELINE: "neighbouring stages on fast links; more micro-batches, so that sends run beside compute",
    axes.CONTEXT: "fewer context parallel ranks: compute per byte grows with the sequence that each of them holds",
    axes.EXPERT: "experts inside a host, fewer expert parallel ranks, or all-to-all beside the shared experts' compute",
}
"""What to do, by axis, where there is more communication than compute hides."""


def check(asked: Judged) -> Iterator[Finding]:
    """A finding per axis whose transfers lengthen the step."""
    exposed = in_complete_steps(asked["exposed"], asked.run)
    limit_ns = LEAST_FRAC * step_ns(asked.run)
    calls = _calls(asked)
    for axis, rows in exposed.groupby("axis"):
        exposed_ns = float(rows["exposed_ns"].sum() / exposed[["rank", "step"]].drop_duplicates().shape[0])
        if exposed_ns < limit_ns:
            continue
        of_axis = calls[calls["axis"] == axis]
        at_most_ns = exposed_ns if asked.costs.trusted else exposed_ns - _waits_ns(asked, of_axis)
        cost_ns = asked.costs.exposed_ns(str(axis), at_most_ns)
        if cost_ns < max(LEAST_COST_FRAC * step_ns(asked.run), limit_ns):
            continue
        reason, advice = _why(str(axis), of_axis, rows, asked)
        share = 1 - float(rows["exposed_ns"].sum()) / max(float(rows["comm_ns"].sum()), 1)
        yield Finding(
            CODE, "warning", f"communication of the {axis} axis is exposed: {reason}", (), (), cost_ns,
            (f"{ms(exposed_ns)} a step and rank are exposed, waits for other ranks included; {share:.0%} is hidden",),
            advice,
        )  # fmt: skip


def _calls(asked: Judged) -> pd.DataFrame:
    """The calls of complete steps with the axis of their group."""
    calls = in_complete_steps(with_waits(asked.run).calls, asked.run)
    places = asked["places"]
    groups = axes.members(calls, sorted(set(asked.run.ranks["rank"].tolist())))
    by_members: dict[tuple[bool, frozenset[int]], str] = {}
    for (axis, _), rows in places.groupby(["axis", "group"]):
        # The same ranks may be a data and an expert group: these exchange, those do all else.
        for exchanges in (True, False):
            key = exchanges, frozenset(rows["rank"])
            if key not in by_members or exchanges == (axis == axes.EXPERT):
                by_members[key] = str(axis)
    keys = zip(calls["group"].tolist(), (calls["op"] == "all_to_all").tolist(), strict=True)
    return calls.assign(axis=[by_members.get((exchanges, frozenset(groups[group])), "") for group, exchanges in keys])


def _waits_ns(asked: Judged, calls: pd.DataFrame) -> float:
    """What of the exposed time is waiting for other ranks, per step and rank; faster transfers do not save it."""
    try:
        rows = in_complete_steps(asked["waits"], asked.run)
    except NotMeasured:
        return 0.0
    mine = rows[rows["group"].isin(calls["group"])]
    return float(mine["exposed_wait_ns"].sum() / max(rows[["rank", "step"]].drop_duplicates().shape[0], 1))


def _why(axis: str, calls: pd.DataFrame, exposed: pd.DataFrame, asked: Judged) -> tuple[str, str]:
    """The reason, and what to do about it."""
    hidden = 1 - float(exposed["exposed_ns"].sum()) / max(float(exposed["comm_ns"].sum()), 1)
    if axis == axes.TENSOR and _between_hosts(asked, calls):
        return "its groups span hosts, and each layer waits for it", "keep tensor parallel groups inside a host"
    small = calls.loc[(calls["bytes"] < SMALL_BYTES).fillna(False), "bytes"].astype(float)
    if _share_of_small(calls) > SMALL_TIME_FRAC:
        return (
            f"its messages are small ({small.median() / 1024:,.3g} KiB in the median), so each costs its latency",
            "fewer, larger messages: fuse buckets or layers",
        )
    told = _why_data(asked, calls, hidden) if axis == axes.DATA else None
    more = MORE.get(axis, "more compute per byte, or less split")
    return told or ("there is more of it than compute to hide it", more)


def _why_data(asked: Judged, calls: pd.DataFrame, hidden: float) -> tuple[str, str] | None:
    reduces = calls[calls["op"].isin(["all_reduce", "reduce_scatter"])]
    if microbatches := _reducing_microbatches(asked, reduces):
        return (
            f"gradients are reduced in each of {microbatches} micro-batches",
            "reduce with the last micro-batch only (no_sync, set_requires_gradient_sync)",
        )
    if _largest_share(reduces) > HUGE_BUCKET_FRAC:
        return (
            "one bucket holds nearly all gradients and can start only when backward is over",
            "smaller buckets (DDP's bucket_cap_mb; FSDP around each layer), filled in the order of backward",
        )
    gathers = calls[calls["op"] == "all_gather"]
    if hidden < UNHIDDEN_FRAC and len(gathers):
        if _at_once(asked, gathers):
            return "weights are gathered all at once", "gather layer by layer, beside the next forward"
        return "weights are gathered when they are needed, not before", "prefetch the next layer's weights"
    if hidden < UNHIDDEN_FRAC:
        return "none of it runs beside compute", "let it start during backward, on a stream of its own"
    return None


def _share_of_small(calls: pd.DataFrame) -> float:
    """How much of the transfers' time small messages take; 0 where no size is told."""
    sized = calls[calls["bytes"].notna()]
    time_ns = sized["transfer_ns"].fillna(sized["end_ns"] - sized["start_ns"]).astype(float)
    whole_ns = float(time_ns.sum())
    return float(time_ns[(sized["bytes"] < SMALL_BYTES).to_numpy(bool)].sum()) / whole_ns if whole_ns else 0.0


def _largest_share(reduces: pd.DataFrame) -> float:
    """How much of a step's reduced bytes its largest call moves, usually; 0 where there is none."""
    reduced = reduces[reduces["bytes"].notna()]
    per_step = reduced.assign(bytes=reduced["bytes"].astype(float)).groupby(["rank", "step"])["bytes"]
    return float((per_step.max() / per_step.sum()).median()) if len(reduced) else 0.0


def _at_once(asked: Judged, gathers: pd.DataFrame) -> bool:
    """Whether a step's gathers begin one after the other, with no layers' compute in between."""
    starts = gathers.groupby(["rank", "step"])["start_ns"]
    return bool((starts.max() - starts.min()).median() < AT_ONCE_FRAC * step_ns(asked.run))


def _reducing_microbatches(asked: Judged, reduces: pd.DataFrame) -> int:
    """How many micro-batches a step has, if large calls are issued in the backward of most of them; else 0."""
    try:
        actions = in_complete_steps(asked["microbatches"], asked.run)
    except NotMeasured:
        return 0
    keys = ["rank", "step"]
    backwards = actions[actions["action"].str.startswith("backward")].sort_values("start_ns")
    large = reduces[(reduces["bytes"] >= SMALL_BYTES).fillna(False)].sort_values("start_ns")
    count = backwards.groupby(keys)["microbatch"].nunique().median()
    if large.empty or pd.isna(count):
        return 0
    columns = [*keys, "start_ns", "microbatch"]
    issued = pd.merge_asof(large[[*keys, "start_ns"]], backwards[columns], on="start_ns", by=keys)
    reducing = issued.groupby(keys)["microbatch"].nunique().median()
    return int(count) if reducing > max(1, count / 2) else 0


def _between_hosts(asked: Judged, calls: pd.DataFrame) -> bool:
    try:
        rows = first_window(asked["bandwidth"])
    except NotMeasured:
        return False
    mine = rows[rows["group"].isin(calls["group"])]
    return bool((mine["link"] == BETWEEN_HOSTS).any())
