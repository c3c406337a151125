"""Why a layout was chosen: what runs out, and what each choice's best alternative would cost.

Three things can run out. Time: the model fits one GPU, and more of them only make it quicker, so they share the data.
A layer too big: not even one layer's states and activations fit, so its matrices are split. Too many layers: each fits
and all together do not, so states are sharded (ZeRO) or layers are dealt out (pipeline). Every other choice is told by
comparison: the best layout without it takes so much longer, or does not fit.

Tensor parallelism stays inside a node, since it all-reduces activations in each layer, on the critical path, with
nothing to hide under: there a slow link is paid in full (Narayanan et al. 2021, 5.4.1, measured it).
"""

from __future__ import annotations

from dataclasses import replace

from tracekit.plan import collectives
from tracekit.plan.communication import activation_size
from tracekit.plan.hardware import Link
from tracekit.plan.layout import Layout
from tracekit.plan.memory import layer_held, peak
from tracekit.plan.search import Plans, Request

TIME, LAYER, LAYERS = "time", "a layer", "layers"
CHOICES = {
    "tensor": "tensor parallelism",
    "pipeline": "pipeline",
    "context": "context parallelism",
    "expert": "expert parallelism",
    "zero_stage": "ZeRO",
    "checkpointing": "checkpointing",
    "micro_batch": "micro-batch",
    "stages_per_rank": "stages per rank",
}


def runs_out(request: Request) -> tuple[str, str]:
    """What one GPU lacks (time, a layer or layers: what decides the strategy), and a sentence with the numbers."""
    alone = Layout(checkpointing="full", fused_attention=request.fused_attention)
    whole = peak(request.model, alone, request.precision, trainable=request.trainable).total
    room = request.room
    has = f"{room / 1e9:.0f} of a GPU's {request.cluster.memory_bytes / 1e9:.0f} GB can be planned with"
    if whole <= room:
        return TIME, f"Time runs out, not memory: training takes {whole / 1e9:.1f} GB at least, and {has}."
    one = replace(request.model, layers=1)
    layer = layer_held(one, alone).total * request.precision.per_parameter
    beside = peak(one, alone, request.precision, trainable=request.trainable).activations
    if layer + beside > room:
        return LAYER, (
            f"A layer is too big for a GPU: its states and activations take {(layer + beside) / 1e9:.1f} GB, and "
            f"{has}; so its matrices must be split (tensor parallelism)."
        )
    return LAYERS, (
        f"Memory runs out by the number of layers: one takes {layer / 1e9:.1f} GB, all {whole / 1e9:.1f} GB, and "
        f"{has}; so states are sharded over the data ranks (ZeRO) or layers dealt out (pipeline)."
    )


def reasons(plans: Plans) -> list[str]:
    """Sentences, one per choice: what runs out first, then each choice against its best alternative."""
    layout = plans.chosen.layout
    told = [runs_out(plans.request)[1]]
    for name, called in CHOICES.items():
        sentence = _against(plans, name, called)
        if sentence:
            told.append(sentence)
    if layout.tensor > 1:
        told.append(tensor_in_node(plans))
    return told


def _against(plans: Plans, name: str, called: str) -> str | None:
    """A choice against the best layout that has another value there; None where there is no other."""
    chosen = plans.chosen
    value = getattr(chosen.layout, name)
    other = next((plan for plan in plans.best if getattr(plan.layout, name) != value), None)
    neutral = value == _off(name)
    if other is None:
        least = plans.least_memory_with(**{name: _off(name)})
        if neutral or least is None:
            return None
        return (
            f"{_is(name, called, value)}: without it nothing fits; {least / 1e9:.1f} GB would be needed at least, of "
            f"{plans.request.room / 1e9:.1f}."
        )
    without = plans.best_with(**{name: _off(name)})
    least = plans.least_memory_with(**{name: _off(name)})
    slower = other.seconds / chosen.seconds - 1
    alternative = f"{_is(name, called, getattr(other.layout, name))} {_longer(slower)}"
    if neutral or without is other:
        return f"{_is(name, called, value)}: {alternative}."
    if without is None and least is not None:
        return f"{_is(name, called, value)}: without it nothing fits ({least / 1e9:.1f} GB at least); {alternative}."
    if without is not None:
        return f"{_is(name, called, value)}: without it a step {_longer(without.seconds / chosen.seconds - 1)}."
    return f"{_is(name, called, value)}: {alternative}."


def _off(name: str) -> object:
    return {"zero_stage": 0, "checkpointing": "none"}.get(name, 1)


def _is(name: str, called: str, value: object) -> str:
    if name == "zero_stage":
        return f"ZeRO-{value}" if value else "no ZeRO"
    if name == "checkpointing":
        return f"{value} checkpointing" if value != "none" else "no checkpointing"
    return f"{called} {value}" if value != 1 or name in ("micro_batch", "stages_per_rank") else f"no {called}"


def _longer(frac: float) -> str:
    """`takes 4.2 % longer`; what is simpler may be chosen over what is a little quicker."""
    if abs(frac) < 0.0005:
        return "takes as long"
    if frac > 1:
        return f"takes {1 + frac:.1f} times as long"
    return f"takes {frac:.1%} longer" if frac > 0 else f"would save {-frac:.1%}, and is less simple or holds more"


def tensor_in_node(plans: Plans) -> str:
    """What one of tensor parallelism's all-reduces takes inside a node and over two."""
    request, layout = plans.request, plans.chosen.layout
    size = activation_size(request.model, layout, request.precision)
    inside, between = request.cluster.inside, request.cluster.between
    across = Link(min(inside.bandwidth, max(1, layout.tensor // 2) * between.bandwidth), between.latency)
    here = collectives.quickest("all_reduce", layout.tensor, size, inside)[1]
    there = collectives.quickest("all_reduce", layout.tensor, size, across)[1]
    per_node = request.cluster.gpus_per_node
    sentence = (
        f"Each layer all-reduces {size / 1e6:.0f} MB of activations four times per micro-batch, with nothing to hide "
        f"under: {1e3 * here:.2f} ms inside a node, {1e3 * there:.2f} ms over two."
    )
    if layout.inside_node("tensor", request.cluster):
        return f"{sentence} So a tensor group of {layout.tensor} stays in its node of {per_node}."
    return f"{sentence} A tensor group of {layout.tensor} does not fit into a node of {per_node} and pays the latter."
