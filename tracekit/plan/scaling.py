"""Speed-up against the number of GPUs: when 8 times becomes 3 times.

Two questions. `data_parallel_speedup` answers by hand: N ranks each compute c seconds a step, on N times the samples,
and e seconds of the gradients' all-reduce are exposed; N·c / (c + e) times the samples of one GPU per second. Eight
GPUs are three times as quick where e is 5/3 of c. `scaling` plans anew for each number of GPUs with the same samples
per step, which is what adding GPUs to a job means (strong scaling): replicas get fewer micro-batches, so bubble and
exposed communication grow beside the compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tracekit.plan import collectives
from tracekit.plan.hardware import Link
from tracekit.plan.search import Impossible, Request, plans
from tracekit.plan.step import Prediction


def data_parallel_speedup(gpus: int, compute_s: float, exposed_s: float) -> float:
    """Samples per second by those of one GPU, each GPU having as many per step."""
    return gpus * compute_s / (compute_s + exposed_s)


def exposed_all_reduce(gpus: int, gradient_bytes: float, link: Link, backward_s: float, *, buckets: int = 25) -> float:
    """Seconds of the gradients' all-reduce that a backward does not hide; the last of the buckets never hides."""
    whole = collectives.quickest("all_reduce", gpus, gradient_bytes, link)[1]
    return max(whole / buckets, whole - backward_s) if gpus > 1 else 0.0


@dataclass(frozen=True)
class Point:
    """The best plan on so many GPUs, and how many times as quick as the first point it is; None where nothing fits."""

    gpus: int
    plan: Prediction | None
    speedup: float | None


def scaling(request: Request, counts: Sequence[int], known: Sequence[Prediction] = ()) -> list[Point]:
    """The best plan for each number of GPUs, for the request's batch; speed-up against the smallest that fits.

    `known` are best plans that have been made for this request on other numbers of GPUs.
    """
    made = {plan.cluster.gpus: plan for plan in known}
    told = [
        (gpus, made.get(gpus) or _best(replace(request, cluster=replace(request.cluster, gpus=gpus))))
        for gpus in counts
    ]
    base = next((plan.seconds for _, plan in told if plan), None)
    return [Point(gpus, plan, base / plan.seconds if plan and base else None) for gpus, plan in told]


def _best(request: Request) -> Prediction | None:
    try:
        return plans(request).chosen
    except Impossible:
        return None
