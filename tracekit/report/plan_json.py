"""A plan as JSON for scripts: seconds, bytes and FLOP/s, shares from 0 to 1, null for unknown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict

from tracekit.plan import operations
from tracekit.plan.explain import reasons, runs_out
from tracekit.plan.scaling import Point
from tracekit.plan.search import Plans, Request, described
from tracekit.plan.step import Prediction
from tracekit.report.plan_text import Operating

SCHEMA = 1
MOST = 20
"""So many layouts are written, the best first."""


def plan_document(plans: Plans, points: Sequence[Point], operating: Operating) -> dict[str, object]:
    """Everything on the screen, and more layouts."""
    request = plans.request
    return {
        "schema": SCHEMA,
        "model": {**asdict(request.model), "parameters": request.model.parameters},
        "cluster": asdict(request.cluster),
        "batch": request.batch,
        "precision": asdict(request.precision),
        "runs_out": runs_out(request)[0],
        "why": reasons(plans),
        "chosen": prediction(plans.chosen),
        "layouts": [prediction(plan) for plan in plans.best[:MOST]],
        "fitting": len(plans.best),
        "too_big": len(plans.too_big),
        "scaling": [_point(point) for point in points],
        "operations": _operations(request, operating),
    }


def prediction(plan: Prediction) -> dict[str, object]:
    """One layout with its step."""
    return {
        "layout": asdict(plan.layout),
        "described": described(plan.layout),
        "seconds": plan.seconds,
        "tokens_per_second": plan.tokens_per_second,
        "mfu": plan.mfu,
        "model_flops_per_second": plan.model_flops_per_second,
        "hardware_flops_per_second": plan.hardware_flops_per_second,
        "compute_seconds": plan.compute,
        "exposed_seconds": dict(plan.exposed),
        "bubble_seconds": plan.bubble,
        "bubble_frac": plan.bubble_frac,
        "optimizer_seconds": plan.optimizer,
        "memory_bytes": {**asdict(plan.memory), "total": plan.memory.total},
        "communication": [
            {**asdict(call), "sent_bytes": call.sent_bytes, "link": plan.link(call)} for call in plan.traffic
        ],
    }


def _point(point: Point) -> dict[str, object]:
    plan = point.plan
    return {
        "gpus": point.gpus,
        "speedup": point.speedup,
        "seconds": plan.seconds if plan else None,
        "described": described(plan.layout) if plan else None,
    }


def _operations(request: Request, operating: Operating) -> dict[str, object]:
    size = operations.checkpoint_bytes(request.model.parameters, request.precision, trainable=request.trainable)
    writing = operations.checkpoint_seconds(size, operating.storage_bandwidth)
    mean = operations.seconds_between_failures(request.cluster.gpus, operating.failures_per_gpu_day)
    interval = operations.daly_interval(writing, mean)
    return {
        "checkpoint_bytes": size,
        "checkpoint_seconds": writing,
        "failures_per_day": operations.failures_per_day(request.cluster.gpus, operating.failures_per_gpu_day),
        "interval_seconds": None if math.isinf(interval) else interval,
        "goodput": None if math.isinf(interval) else operations.goodput(interval, writing, mean, operating.restart_s),
    }
