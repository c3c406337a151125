"""The figures of an analysis by name, as `tracekit.figure`, the app and the HTML report show them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd

from tracekit import charts
from tracekit.analysis import Analysis
from tracekit.axes import CONTEXT, DATA, PIPELINE, SHORT, TENSOR
from tracekit.charts import Figure, Order, Part
from tracekit.errors import NotMeasured, WrongUse
from tracekit.idling import CAUSES
from tracekit.measures.breakdown import PARTS
from tracekit.model import Run
from tracekit.report import details
from tracekit.report.account import in_complete_steps, rank_means
from tracekit.transfers import shared_calls
from tracekit.waiting import with_waits
from tracekit.wording import counted, kernel_name

KERNELS, CHANGES = 20, 12
WORTH_FRAC = 0.001
"""Changes that save less of the step are not drawn."""
CAUSE_PARTS = (
    Part("host_late_ns", "host late", "host"),
    Part("stream_wait_ns", "waiting for another stream", "wait"),
    Part("launch_latency_ns", "launch latency", "transfer"),
    Part("unknown_ns", "launch not in the trace", "unknown"),
)
STALL_PARTS = (
    Part("loading_ns", "data loading", "transfer"),
    Part("collection_ns", "garbage collection", "exposed"),
    Part("synchronizing_ns", "after synchronising calls", "wait"),
    Part("launching_ns", "Python and launches", "host"),
)
BUBBLE_PARTS = (
    Part("must_ns", "must be, by the schedule", "bubble"),
    Part("imbalance_ns", "stages differ", "exposed"),
    Part("jitter_ns", "micro-batches differ", "wait"),
    Part("transfer_ns", "transfer", "transfer"),
)
PHASE_PARTS = (
    Part("busy_ns", "busy", "busy"),
    Part("warmup_ns", "bubble at the start", "wait"),
    Part("steady_ns", "bubble between", "exposed"),
    Part("cooldown_ns", "bubble at the end", "bubble"),
)


def figure(analysis: Analysis, name: str) -> Figure:
    """The plotly figure of this name; NotMeasured where the run lacks its input, WrongUse where there is none."""
    if name not in FIGURES:
        raise WrongUse(f"no figure is named {name!r}; there are {', '.join(FIGURES)}")
    return FIGURES[name](analysis)


def order(analysis: Analysis) -> Order:
    """The ranks by their place along data, pipeline, context and tensor, each named with it, else by their number."""
    ranks = sorted(set(analysis.run.ranks["rank"].tolist()))
    try:
        table = _places(analysis).reindex(ranks)
    except NotMeasured:
        return {rank: f"rank {rank}" for rank in ranks}
    shown = [str(axis) for axis in table.columns]
    named = {
        rank: " ".join([f"rank {rank}", *(f"{SHORT[one]} {int(at)}" for one, at in zip(shown, own, strict=True))])
        for rank, own in zip(ranks, table.fillna(-1).to_numpy().tolist(), strict=True)
    }
    by_place = table.reset_index().sort_values([*shown, "rank"], na_position="last")["rank"].tolist()
    return {rank: named[rank] for rank in by_place}


def _places(analysis: Analysis) -> pd.DataFrame:
    """Each rank's place along the axes that are known, the outermost first."""
    places = analysis["places"]
    shown = [axis for axis in (DATA, PIPELINE, CONTEXT, TENSOR) if axis in set(places["axis"])]
    table = places.pivot_table(index="rank", columns="axis", values="place", aggfunc="first")
    return table.reindex(columns=shown)


def gantt(analysis: Analysis, step: int) -> Figure:
    """When each rank computes which micro-batch in a step, by stage where there are stages."""
    rows = analysis["microbatches"]
    mine = rows[rows["step"] == step]
    if mine.empty:
        raise NotMeasured(f"no forward or backward is known in step {step}")
    stages = mine.groupby("rank")["stage"].min().astype("Int64").sort_values(kind="stable")
    pairs = zip(stages.index.tolist(), stages.tolist(), strict=True)
    names = {rank: f"rank {rank}" if pd.isna(stage) else f"stage {stage} rank {rank}" for rank, stage in pairs}
    return charts.gantt(mine, int(mine["start_ns"].min()), names)


def steps_of(run: Run) -> list[int]:
    """The run's complete steps, in order; all where none is complete."""
    complete = run.steps[run.steps["complete"]]
    return sorted(set((run.steps if complete.empty else complete)["step"].tolist()))


def _breakdown(analysis: Analysis) -> Figure:
    return charts.parts(rank_means(analysis).sort_values("rank"), charts.STEP_PARTS)


def _per_rank(analysis: Analysis, measure: str, columns: list[str]) -> pd.DataFrame:
    rows = in_complete_steps(analysis[measure], analysis.run)
    return rows.groupby("rank", as_index=False)[columns].mean()


def _overlap(analysis: Analysis) -> Figure:
    rows = _per_rank(analysis, "overlap", ["comm_ns", "overlap_ns"])
    told = rows.assign(exposed_ns=rows["comm_ns"] - rows["overlap_ns"])
    chosen = (Part("overlap_ns", "hidden under compute", "overlap"), Part("exposed_ns", "exposed", "exposed"))
    return charts.parts(told, chosen)


def _exposed(analysis: Analysis) -> Figure:
    """By axis, or by operation where no axis is known."""
    by_axis = details.exposed_by_axis(analysis)
    measure, key = ("exposed", "axis") if by_axis else ("overlap_operation", "op")
    rows = in_complete_steps(analysis[measure], analysis.run)
    sums = rows.groupby(["rank", "step", key], as_index=False)["exposed_ns"].sum()
    steps = sums[["rank", "step"]].drop_duplicates().groupby("rank").size()
    wide = sums.pivot_table(index="rank", columns=key, values="exposed_ns", aggfunc="sum").fillna(0).div(steps, axis=0)
    names = [str(name) for name in wide.columns]
    table = wide.set_axis([f"part{nth}" for nth in range(len(names))], axis=1).reset_index()
    kinds = [name if by_axis else f"#{name}" for name in names]
    chosen = [Part(f"part{nth}", charts.label(name), kinds[nth]) for nth, name in enumerate(names)]
    return charts.parts(table, chosen)


def _idle(analysis: Analysis) -> Figure:
    return charts.parts(_per_rank(analysis, "idle", list(CAUSES)), CAUSE_PARTS)


def _stalls(analysis: Analysis) -> Figure:
    return charts.parts(_per_rank(analysis, "stalls", [part.column for part in STALL_PARTS]), STALL_PARTS)


def _own(analysis: Analysis) -> Figure:
    return charts.heat(analysis["ranks"], "step", "rank", "own_ns", "ns", "own time", order(analysis))


def _waits(analysis: Analysis) -> Figure:
    return charts.heat(analysis["ranks"], "step", "rank", "wait_ns", "ns", "waits for other ranks", order(analysis))


def _grid(analysis: Analysis, value: str, words: str) -> Figure:
    """The ranks as the layout has them: a row per place along its outermost axis, a column per place along the rest."""
    places = _places(analysis).dropna()
    if len(places.columns) < 2:
        raise NotMeasured("the layout has fewer than two known axes, so the ranks make no grid")
    if places.duplicated().any():
        raise NotMeasured("the layout's known axes do not tell all ranks apart, so they make no grid")
    outer, inner = places.columns[0], list(places.columns[1:])
    columns = places[inner].drop_duplicates().sort_values(inner)
    names = [_place_name(inner, at) for at in columns.to_numpy()]
    across = " × ".join(SHORT[axis] for axis in inner)
    rows = _per_rank(analysis, "ranks", [value]).merge(places.reset_index(), on="rank")
    told = [_place_name(inner, at) for at in rows[inner].to_numpy()]
    rows = rows.assign(**{across: pd.Categorical(told, names, ordered=True)}, outer=rows[outer].astype(int))
    named = {int(at): f"{SHORT[outer]} {int(at)}" for at in sorted(set(rows["outer"]))}
    shown = charts.heat(rows, across, "outer", value, "ns", words, named)
    ranks = rows.pivot_table(index="outer", columns=across, values="rank", observed=True)
    shown.data[0].text = [[f"rank {one:.0f}, {row}" for one in own]
                          for row, own in zip(named.values(), ranks.to_numpy(), strict=True)]  # fmt: skip
    return shown


def _place_name(axes: list[str], at: Iterable[float]) -> str:
    return " ".join(f"{SHORT[axis]} {int(one)}" for axis, one in zip(axes, at, strict=True))


def _own_grid(analysis: Analysis) -> Figure:
    return _grid(analysis, "own_ns", "own time, mean step")


def _waits_grid(analysis: Analysis) -> Figure:
    return _grid(analysis, "wait_ns", "waits for other ranks, mean step")


def _blame(analysis: Analysis) -> Figure:
    names = {rank: f"{rank} waits" for rank in sorted(set(analysis["blame"]["rank"].tolist()))}
    rows = analysis["blame"].rename(columns={"blamed_rank": "blamed rank"}).sort_values("blamed rank")
    return charts.heat(rows, "blamed rank", "rank", "exposed_wait_ns", "ns", "exposed wait", names)


def _kernels(analysis: Analysis) -> Figure:
    found = details.top_kernels(analysis, KERNELS)
    names = [kernel_name(one.name, charts.LONGEST_LABEL) for one in found]
    kinds = [one.kind for one in found]
    return charts.bars(names, [one.per_step_ns for one in found], "ns", "time per step, mean over the ranks", kinds)


def _bandwidth(analysis: Analysis) -> Figure:
    return charts.bandwidth(analysis["bandwidth"])


def _sizes(analysis: Analysis) -> Figure:
    return charts.sizes(analysis.run.calls)


def _matrix(analysis: Analysis) -> Figure:
    """Bytes from rank to rank, as sends tell them, or receives where the sender's file tells none."""
    calls = analysis.run.calls
    told = calls[calls["op"].isin(["send", "recv"]) & calls["peer"].notna() & calls["bytes"].notna()]
    if told.empty:
        raise NotMeasured("the run has no send or receive whose other end and size are told")
    sends, peer = told["op"] == "send", told["peer"].astype(int)
    rows = told.assign(
        source=told["rank"].where(sends, peer), to=peer.where(sends, told["rank"]), bytes=told["bytes"].astype(float)
    )
    sent = set(rows.loc[sends, ["source", "to"]].itertuples(index=False, name=None))
    known = [pair in sent for pair in rows[["source", "to"]].itertuples(index=False, name=None)]
    rows = rows[sends | ~np.array(known, bool)].sort_values("to")
    names = {rank: f"{rank} sends" for rank in sorted(set(rows["source"].tolist()))}
    return charts.heat(rows.rename(columns={"to": "receiving rank"}), "receiving rank", "source", "bytes", "bytes",
                       "sent in the run", names)  # fmt: skip


def _link_speeds(analysis: Analysis) -> Figure:
    """Bytes over transfer times of matched sends, from rank to rank."""
    run = with_waits(analysis.run)
    met = shared_calls(run)
    ends = run.calls[(run.calls["op"] == "send") & run.calls["match"].notna() & run.calls["peer"].notna()]
    ends = ends.set_index("match")[["rank", "peer"]].astype("int64")
    told = met[met["bytes"].notna() & met["time_ns"].notna()].join(ends, how="inner")
    if told.empty:
        raise NotMeasured("the run has no matched send whose size and transfer are known")
    sums = told.astype({"bytes": float, "time_ns": float}).groupby(["rank", "peer"])[["bytes", "time_ns"]].sum()
    rows = sums.assign(gbs=sums["bytes"] / sums["time_ns"]).reset_index()
    names = {rank: f"{rank} sends" for rank in sorted(set(rows["rank"].tolist()))}
    return charts.heat(rows.rename(columns={"peer": "receiving rank"}), "receiving rank", "rank", "gbs", "GB/s",
                       "bytes over time of transfer", names)  # fmt: skip


def _volume(analysis: Analysis) -> Figure:
    """Bytes of a mean step of a rank by operation and size of the group, beside what a ring sends for them."""
    rows = in_complete_steps(analysis["volume"], analysis.run)
    known = rows[rows["bytes"].notna() & rows["ring_bytes"].notna() & rows["ranks_in_group"].notna()]
    if known.empty:
        raise NotMeasured("the run has no communication whose size and group are known")
    steps = len(rows[["rank", "step"]].drop_duplicates())
    sums = known.groupby(["op", "ranks_in_group"])[["bytes", "ring_bytes"]].sum().astype(float) / steps
    sums = sums.sort_values("bytes", ascending=False).head(CHANGES)
    names = [f"{op}, {counted(int(ranks), 'rank')}" for op, ranks in sums.index]
    values = {"bytes of the arrays": sums["bytes"].tolist(), "sent in a ring": sums["ring_bytes"].tolist()}
    return charts.beside(names, values, "bytes", "per rank and step")


def _phases(analysis: Analysis) -> Figure:
    return charts.parts(_per_rank(analysis, "pipeline", [part.column for part in PHASE_PARTS]), PHASE_PARTS)


def _bubble(analysis: Analysis) -> Figure:
    rows = analysis["pipeline"]
    if rows["must_ns"].isna().any():
        raise NotMeasured("the bubble's causes are told only where all forwards and backwards are known")
    means = in_complete_steps(rows, analysis.run)[[part.column for part in BUBBLE_PARTS]].astype(float).mean()
    words, kinds = [part.words for part in BUBBLE_PARTS], [part.colour for part in BUBBLE_PARTS]
    return charts.bars(words, means.tolist(), "ns", "bubble of a step", kinds)


def _whatif(analysis: Analysis) -> Figure:
    changes = analysis.whatif.changes
    worth = changes[changes["saved_frac"] >= WORTH_FRAC].head(CHANGES)
    if worth.empty:
        raise NotMeasured("nothing that could be mended would save more than a thousandth of the step")
    return charts.bars(worth["words"], worth["saved_ns"].tolist(), "ns", "saved per step")


def _path(analysis: Analysis) -> Figure:
    rows = analysis.whatif.path_shares
    return charts.bars(rows["what"], rows["length_ns"].tolist(), "ns", "on the critical path, per step",
                       [str(what).split(" ")[0] for what in rows["what"]])  # fmt: skip


def _memory(analysis: Analysis) -> Figure:
    rows = analysis["memory"]
    on_device = rows[rows["device"] != "cpu"]
    rows = rows if on_device.empty else on_device
    peaks = rows.groupby("rank", as_index=False)[["peak_allocated_bytes", "peak_reserved_bytes"]].max()
    told = peaks.assign(rest=(peaks["peak_reserved_bytes"] - peaks["peak_allocated_bytes"]).clip(lower=0))
    chosen = (
        Part("peak_allocated_bytes", "allocated at the peak", "compute"),
        Part("rest", "reserved beyond it", "idle"),
    )
    return charts.parts(told, chosen, "bytes")


def _memory_steps(analysis: Analysis) -> Figure:
    rows = analysis["memory"]
    return charts.heat(rows, "step", "rank", "peak_allocated_bytes", "bytes", "peak allocated", order(analysis))


def _launch_delay(analysis: Analysis) -> Figure:
    rows = analysis["host"]
    if rows["launch_delay_median_ns"].isna().all():
        raise NotMeasured("the run's traces tell no launches")
    return charts.heat(rows, "step", "rank", "launch_delay_median_ns", "ns", "median launch delay", order(analysis))


def _pipeline(analysis: Analysis) -> Figure:
    steps = steps_of(analysis.run)
    if not steps:
        raise NotMeasured("the run has no step: no ProfilerStep annotation and no device work")
    return gantt(analysis, steps[0])


def _steps(analysis: Analysis) -> Figure:
    rows = analysis["breakdown"]
    means = rows.groupby("step", as_index=False)[PARTS].mean()
    return charts.parts(means, charts.STEP_PARTS, by="step")


FIGURES: dict[str, Callable[[Analysis], Figure]] = {
    "breakdown": _breakdown, "steps": _steps, "overlap": _overlap, "exposed": _exposed, "idle": _idle,
    "stalls": _stalls, "own": _own, "waits": _waits, "own_grid": _own_grid, "waits_grid": _waits_grid, "blame": _blame,
    "kernels": _kernels, "bandwidth": _bandwidth, "sizes": _sizes, "matrix": _matrix, "link_speeds": _link_speeds,
    "volume": _volume, "pipeline": _pipeline, "phases": _phases, "bubble": _bubble, "whatif": _whatif, "path": _path,
    "memory": _memory, "memory_steps": _memory_steps, "launch_delay": _launch_delay,
}  # fmt: skip
