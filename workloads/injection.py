"""Making the faults of a run happen on this rank, and noting when and how much.

Each fault is real: a rank that is to be slow does take the time. What is noted is what was measured to have happened,
so that a diagnosis can be held to it.
"""

from __future__ import annotations

import gc
import json
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from . import compute, samples
from .faults import KINDS, Fault
from .samples import Batch
from .transformer import Block


class Injection:
    """The faults of this rank. The harness calls `begin` at each step; the faults note what they did."""

    def __init__(self, faults: list[Fault], rank: int) -> None:
        self.faults = faults
        self.rank = rank
        self.step = 0
        self._lock = threading.Lock()
        self._noted: dict[str, dict[int, tuple[int, int]]] = defaultdict(dict)

    def begin(self, step: int) -> None:
        """From now on it is this step."""
        self.step = step

    def asked(self, *kinds: str) -> bool:
        """Is any of these faults in the run, on whatever rank?"""
        return any(fault.kind in kinds for fault in self.faults)

    def size(self, kind: str) -> float | None:
        """The size of this fault if it befalls this rank in this step, else None."""
        for fault in self.faults:
            if fault.kind == kind and fault.rank in (None, self.rank) and self.step >= fault.step:
                return fault.size
        return None

    def happened(self, kind: str, amount: int) -> None:
        """Note that the fault happened once, by this amount in its kind's unit."""
        with self._lock:  # links are slow on threads of their own
            times, total = self._noted[kind].get(self.step, (0, 0))
            self._noted[kind][self.step] = (times + 1, total + amount)

    def factor(self) -> float:
        """How many times as long compute takes now."""
        return (self.size("slow_device") or 1.0) * (self.size("throttle") or 1.0)

    def stretched(self, added_ns: int) -> None:
        """Note how much longer an operation took for `factor`."""
        if added_ns > 0:
            self.happened("slow_device" if self.size("slow_device") else "throttle", added_ns)

    def sleep(self, kind: str) -> None:
        """Sleep for as many milliseconds as this fault says, if it befalls this rank now."""
        milliseconds = self.size(kind)
        if milliseconds is not None:
            self.happened(kind, compute.sleep(milliseconds * 1e6))

    def noted(self) -> dict[str, list[dict[str, Any]]]:
        """What happened on this rank, by kind: step, times, and the amount under the kind's own unit."""
        return {
            kind: [
                {"step": step, "times": times, **({KINDS[kind].counted: amount} if KINDS[kind].counted else {})}
                for step, (times, amount) in sorted(steps.items())
            ]
            for kind, steps in self._noted.items()
        }


def into_compute(injection: Injection, emulated_flop_per_s: float | None) -> list[torch.library.Library]:
    """Set the pace of this rank's compute; keep the result as long as it shall last."""
    if emulated_flop_per_s is not None:
        return [compute.emulate(emulated_flop_per_s, injection.factor, injection.stretched)]
    if injection.asked("slow_device", "throttle"):  # on all ranks, so that they differ by the factor alone
        return [compute.stretch(injection.factor, injection.stretched)]
    return []


def into_layers(injection: Injection, synchronize: Callable[[], None]) -> None:
    """Faults around the forward of every layer of this process."""
    collect = _collector(injection)

    def before(module: nn.Module, _: Any) -> None:
        if isinstance(module, Block):
            injection.sleep("slow_host")
            collect()

    def after(module: nn.Module, _: Any, __: Any) -> None:
        if isinstance(module, Block) and injection.size("sync_points"):
            began_ns = time.perf_counter_ns()
            synchronize()
            injection.happened("sync_points", time.perf_counter_ns() - began_ns)

    nn.modules.module.register_module_forward_pre_hook(before)
    nn.modules.module.register_module_forward_hook(after)


def _collector(injection: Injection) -> Callable[[], None]:
    """A full collection, once in every second step, of as many objects as take the fault's milliseconds."""
    ballast: list[list[Any]] = []
    collected_in = -1

    def collect() -> None:
        nonlocal ballast, collected_in
        milliseconds = injection.size("gc")
        if milliseconds is None or injection.step % 2 or injection.step == collected_in:
            return
        collected_in = injection.step
        ballast = ballast or _objects_that_take(milliseconds * 1e6)
        injection.happened("gc", _collection_ns())

    return collect


def _objects_that_take(nanoseconds: float, probe: int = 100_000) -> list[list[Any]]:
    objects: list[list[Any]] = [[] for _ in range(probe)]
    return objects + [[] for _ in range(int(probe * nanoseconds / _collection_ns()) - probe)]


def _collection_ns() -> int:
    began_ns = time.perf_counter_ns()
    gc.collect()
    return time.perf_counter_ns() - began_ns


def into_samples(injection: Injection, seed: int, shard: int) -> Callable[[list[Tensor]], Batch]:
    """What collates a micro-batch, late or shortened where those faults befall this rank."""
    draw = random.Random(f"{seed} {shard}")

    def collate(sentences: list[Tensor]) -> Batch:
        injection.sleep("data_loader")
        batch = samples.collate(sentences)
        share = injection.size("length_imbalance")
        if share is None:
            return batch
        length = batch.inputs.shape[1]
        kept = max(1, round(length * (1 - share * draw.random())))
        injection.happened("length_imbalance", (length - kept) * len(sentences))
        return Batch(batch.inputs[:, :kept].contiguous(), batch.targets[:, :kept].contiguous())

    return collate


def into_clock(injection: Injection, trace: Path) -> None:
    """Shift all times of a written trace."""
    milliseconds = injection.size("clock_skew")
    if milliseconds is None:
        return
    shift_ns = round(milliseconds * 1e6)
    content = json.loads(trace.read_text(encoding="utf-8"))
    content["baseTimeNanoseconds"] = content.get("baseTimeNanoseconds", 0) + shift_ns
    trace.write_text(json.dumps(content), encoding="utf-8")
