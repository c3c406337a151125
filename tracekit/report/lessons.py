"""What is often believed about distributed training, each with a picture by arithmetic that shows otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tracekit import charts
from tracekit.charts import Figure, Part
from tracekit.plan import collectives, hardware, operations, transformer
from tracekit.plan import pipeline as schedules
from tracekit.plan.layout import Layout
from tracekit.plan.memory import Precision, peak
from tracekit.plan.step import Prediction, predict

MODEL, CLUSTER = "llama-7b", "h100-80gb"
GPUS = (1, 2, 4, 8, 16, 32, 64)
STATE_PARTS = (
    Part("weights", "weights", "data"),
    Part("gradients", "gradients", "wait"),
    Part("optimizer", "optimizer states", "optimizer"),
    Part("activations", "activations", "forward"),
    Part("gathered", "gathered parameters", "exposed"),
)
GRADIENT_BYTES = 1 << 30


@dataclass(frozen=True)
class Lesson:
    """A belief, what is so instead, and the picture."""

    belief: str
    truth: str
    picture: Callable[[], Figure]


def memory_bars(layouts: dict[str, Layout], names: str = "GPUs") -> Figure:
    """Memory of the fullest GPU, part by part, for each layout; keys are numbers."""
    model = transformer.preset(MODEL)
    rows = [{names: int(name), **vars(peak(model, layout))} for name, layout in layouts.items()]
    figure = charts.parts(pd.DataFrame(rows), STATE_PARTS, "bytes", by=names)
    return figure.update_xaxes(type="category", dtick=None)


def _ddp() -> Figure:
    return memory_bars({str(gpus): Layout(data=gpus) for gpus in GPUS})


def _fsdp() -> Figure:
    return memory_bars({str(gpus): Layout(data=gpus, zero_stage=3) for gpus in GPUS})


def _ring() -> Figure:
    rows = [
        (what, gpus, collectives.sent_bytes(op, gpus, GRADIENT_BYTES))
        for what, op in (("all-reduce, 1 GiB", "all_reduce"), ("reduce-scatter, 1 GiB", "reduce_scatter"))
        for gpus in GPUS
    ]
    table = pd.DataFrame(rows, columns=["what", "GPUs in the ring", "sent"])
    figure = charts.lines(table, "GPUs in the ring", "sent", "what", "bytes", "sent by each GPU")
    return figure.update_xaxes(type="log", tickvals=list(GPUS))


def _samples() -> Figure:
    layouts = {
        "DDP": Layout(data=8), "FSDP": Layout(data=8, zero_stage=3), "tensor parallel": Layout(tensor=8),
        "pipeline": Layout(pipeline=8),
    }  # fmt: skip
    return charts.bars(
        layouts, [float(one.batch) for one in layouts.values()], "samples", "in one micro-batch step of 8 GPUs"
    )


def _bubble() -> Figure:
    rows = [
        (f"{ranks} stages", count, 100 * schedules.bubble_of_makespan(schedules.ONE_F_ONE_B, ranks, count))
        for ranks in (2, 4, 8, 16)
        for count in (1, 2, 4, 8, 16, 32, 64)
    ]
    table = pd.DataFrame(rows, columns=["stages", "micro-batches", "bubble"])
    figure = charts.lines(table, "micro-batches", "bubble", "stages", "%", "idle by 1F1B")
    return figure.update_xaxes(type="log", tickvals=[1, 2, 4, 8, 16, 32, 64])


def _across_nodes() -> Figure:
    rows = [
        (what, gpus, _predicted(layout).tokens_per_second / gpus)
        for gpus in (1, 2, 4, 8, 16, 32)
        for what, layout in (
            ("tensor parallel", Layout(tensor=gpus, micro_batch=1, microbatches=8, sequence_parallel=gpus > 1)),
            ("data parallel (FSDP)", Layout(data=gpus, zero_stage=3, micro_batch=1, microbatches=8)),
        )
    ]
    table = pd.DataFrame(rows, columns=["what", "GPUs (8 in a node)", "tokens"])
    figure = charts.lines(table, "GPUs (8 in a node)", "tokens", "what", "tokens/s", "by each GPU")
    return figure.update_xaxes(type="log", tickvals=[1, 2, 4, 8, 16, 32])


def _predicted(layout: Layout) -> Prediction:
    model = transformer.preset(MODEL)
    return predict(model, layout, hardware.preset(CLUSTER, layout.ranks))


def _accumulation() -> Figure:
    layouts = [Layout(microbatches=count, checkpointing="full") for count in (1, 2, 4, 8)]
    rows = [("8 samples on 8 GPUs", 8, _predicted(Layout(data=8, checkpointing="full")).seconds * 1e9)]
    rows += [("accumulated on 1 GPU", one.microbatches, _predicted(one).seconds * 1e9) for one in layouts]
    table = pd.DataFrame(rows, columns=["what", "samples per step", "ns"])
    return charts.lines(table, "samples per step", "ns", "what", "ns", "step")


def _checkpointing() -> Figure:
    model, precision = transformer.preset(MODEL), Precision()
    kept = peak(model, Layout(micro_batch=4), precision)
    again = peak(model, Layout(micro_batch=4, checkpointing="full"), precision)
    sizes = {
        "activations in memory": kept.activations,
        "… with activation checkpointing": again.activations,
        "a checkpoint on disk": operations.checkpoint_bytes(model.parameters, precision),
    }
    return charts.bars(sizes, list(sizes.values()), "bytes", "size", ["forward", "forward", "optimizer"])


def _replicas() -> Figure:
    """Two replicas of a small least-squares problem, each with samples of its own, with and without averaging."""
    apart = {"gradients averaged": _distances(average=True), "each by itself": _distances(average=False)}
    rows = [(what, step, value) for what, values in apart.items() for step, value in enumerate(values)]
    table = pd.DataFrame(rows, columns=["what", "step", "distance"])
    return charts.lines(table, "step", "distance", "what", "", "distance between the replicas' weights")


def _distances(*, average: bool, steps: int = 40, size: int = 8) -> Iterable[float]:
    draw = np.random.default_rng(0)
    weights = np.zeros((2, size))
    for _ in range(steps):
        yield float(np.linalg.norm(weights[0] - weights[1]))
        inputs = draw.normal(size=(2, 4, size))
        wrong = np.einsum("rbs,rs->rb", inputs, weights) - inputs.sum(axis=2) + draw.normal(size=(2, 4))
        gradients = np.einsum("rb,rbs->rs", wrong, inputs) / 4
        weights = weights - 0.05 * (gradients.mean(axis=0, keepdims=True) if average else gradients)


LESSONS: Sequence[Lesson] = (
    Lesson(
        "DDP lets a model train that is too big for one GPU.",
        "It does not: each GPU holds all weights, gradients and optimizer states, however many GPUs there are.", _ddp,
    ),
    Lesson(
        "FSDP is a kind of model parallelism.",
        "It is data parallelism: states are sharded, but each GPU computes all layers of samples of its own.", _samples,
    ),
    Lesson(
        "Sharding states saves nothing.",
        "With FSDP the states of each GPU shrink with the number of GPUs; activations do not.", _fsdp,
    ),
    Lesson(
        "More GPUs in a ring mean that each sends more.",
        "Each sends 2(n−1)/n of the array in an all-reduce: never more than twice it. Only latency grows with n.",
        _ring,
    ),
    Lesson(
        "A pipeline is free.",
        "While it fills and drains stages are idle: (p−1)/(m+p−1) of the time. More micro-batches make it less.",
        _bubble,
    ),
    Lesson(
        "Tensor parallelism scales across nodes as data parallelism does.",
        "It talks in each layer and hides nothing, so beyond the node its links decide.", _across_nodes,
    ),
    Lesson(
        "Gradient accumulation is a parallelism.",
        "It does one micro-batch after the other on the same GPU: a larger batch, in as much more time.", _accumulation,
    ),
    Lesson(
        "Checkpointing is for restarts.",
        "The word has two meanings: activation checkpointing computes activations again to save memory; a checkpoint "
        "on disk is there to restart from.", _checkpointing,
    ),
    Lesson(
        "Replicas that start alike stay alike.",
        "Only because gradients are averaged in each step: without that, different samples drive them apart.",
        _replicas,
    ),
)  # fmt: skip
