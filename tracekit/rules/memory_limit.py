"""A device whose memory is nearly full.

What it means: step after step PyTorch's caching allocator has taken nearly all of the device's memory. What it does not
manage (the CUDA context, NCCL's buffers, cuBLAS workspaces: one to some GB) has to fit beside it, so that the next
longer sequence or larger micro-batch ends in an out-of-memory error. Before that the allocator gives cached blocks back
and asks for them anew, and each of these `cudaFree` and `cudaMalloc` stops the device.
How to confirm: `tracekit explain memory`; `torch.cuda.memory_stats()`: `num_alloc_retries` above 0 says that it happens
already; `torch.cuda.memory._dump_snapshot()` shows what holds the memory.
What to do: if tensors hold it: smaller micro-batches, activation checkpointing, sharded states (FSDP, ZeRO); if much is
reserved but not allocated, it is fragmented: `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`.
Published: PyTorch's notes on CUDA semantics, "Memory management"; "Understanding CUDA Memory Usage" there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tracekit.errors import NotMeasured
from tracekit.evidence import by_rank, first_window, in_complete_steps, lasting
from tracekit.model import Finding, listed
from tracekit.replay.costs import Judged

CODE = "memory-limit"
MOST_FRAC = 0.92
"""Of the device's memory, reserved. What PyTorch does not manage takes 2 to 5 % of a device of 40 to 80 GB."""
FRAGMENTED_FRAC = 0.2
"""Of what is reserved, not allocated at the peak: so much is not the allocator's rounding."""


def check(asked: Judged) -> Iterator[Finding]:
    """One finding for the ranks whose device is nearly full; it costs the job nothing, as yet."""
    capacity = first_window(asked.run.ranks).set_index("rank")["device_memory_bytes"].dropna()
    if capacity.empty:
        raise NotMeasured("the traces do not tell how much memory the devices have")
    rows = in_complete_steps(asked["memory"], asked.run)
    rows = rows[rows["rank"].isin(capacity.index) & (rows["device"] != "cpu")]
    rows = rows.sort_values("peak_reserved_bytes").drop_duplicates(["rank", "step"], keep="last")  # the fullest device
    rows = rows.assign(frac=rows["peak_reserved_bytes"] / rows["rank"].map(capacity).astype(float))
    full = {rank: own for rank, own in by_rank(rows) if lasting(own["frac"] > MOST_FRAC)}
    if not full:
        return
    fullest = max(full, key=lambda rank: float(full[rank]["frac"].max()))
    peak = full[fullest].sort_values("frac").iloc[-1]
    unused = 1 - float(peak["peak_allocated_bytes"]) / float(peak["peak_reserved_bytes"])
    advice = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" if unused > FRAGMENTED_FRAC else (
        "smaller micro-batches, activation checkpointing, or sharded states"
    )  # fmt: skip
    yield Finding(
        CODE, "info", f"{_named(full)} nearly full: up to {peak['frac']:.0%} of the memory is reserved",
        tuple(full), (), None,
        (
            f"rank {fullest} reserves {_gib(peak['peak_reserved_bytes'])} of {_gib(capacity[fullest])}, and tensors "
            f"hold {_gib(peak['peak_allocated_bytes'])} of that at the peak",
            f"{unused:.0%} of what is reserved holds no tensor" + (": fragmentation" * (unused > FRAGMENTED_FRAC)),
        ),
        advice,
    )  # fmt: skip


def _named(ranks: Collection[int]) -> str:
    return f"the device of rank {next(iter(ranks))} is" if len(ranks) == 1 else f"devices of ranks {listed(ranks)} are"


def _gib(count: float) -> str:
    return f"{float(count) / (1 << 30):.1f} GiB"
