"""Models and layouts from outside: what a person types, and the run.json of a reference workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec

from tracekit.errors import Unreadable, WrongUse
from tracekit.plan import transformer
from tracekit.plan.hardware import Cluster, Link
from tracekit.plan.layout import Layout
from tracekit.plan.memory import PRECISIONS, Precision
from tracekit.plan.transformer import Transformer

RUN_FILE = "run.json"
SHORT = {"dp": "data", "tp": "tensor", "pp": "pipeline", "cp": "context", "ep": "expert"}
LOOPBACK = Link(1e9, 200e-6)
"""gloo between processes of one machine, roughly; `python -m workloads collectives` measures it."""


def model_of(text: str) -> Transformer:
    """A model by preset name or as numbers: `layers=32,hidden=4096,heads=32,sequence=2048,vocabulary=32000,gated`.

    Names are those of `Transformer`; one without `=` is switched on, with `no-` before it off. WrongUse, with what
    would be right, for anything else.
    """
    if "=" not in text:
        return transformer.preset(text)
    given = dict(_field(part.strip()) for part in text.split(",") if part.strip())
    lacking = [name for name in ("layers", "hidden", "heads", "sequence", "vocabulary") if name not in given]
    if lacking:
        raise WrongUse(f"the model {text!r} lacks {', '.join(lacking)}")
    return Transformer(**given)


def _field(part: str) -> tuple[str, Any]:
    name, equals, value = part.partition("=")
    known = {field.name: str(field.type) for field in fields(Transformer)}
    plain = name.removeprefix("no-").replace("-", "_")
    if plain not in known:
        raise WrongUse(f"a model has no {name!r}; there are {', '.join(known)}")
    if known[plain] == "bool":
        if equals:
            raise WrongUse(f"{name} is switched on by {plain!r} and off by 'no-{plain}', without a value")
        return plain, not name.startswith("no-")
    try:
        return plain, int(value)
    except ValueError:
        raise WrongUse(f"{name} takes a whole number, not {value!r}") from None


class Described(msgspec.Struct):
    """A run as its run.json has it."""

    model: Transformer
    layout: Layout
    cluster: Cluster
    precision: Precision
    state_bytes: float | None


def run_file(folder: str | Path) -> Path | None:
    """The run.json beside a run's traces, if there is one."""
    path = Path(folder)
    path = (path if path.is_dir() else path.parent) / RUN_FILE
    return path if path.is_file() else None


def described_run(path: Path) -> Described:
    """What a run.json of a reference workload says; Unreadable where it is none.

    These models have separate matrices without biases in attention, an output layer of their own, no dropout, and
    attention that never stores its scores; embedding and output layer are not split; they train in 32 bits with AdamW.
    The emulated device takes its stated time for products alone; other devices are taken to be as quick as it is by
    default, until told.
    """
    try:
        facts = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        shape, batch = facts["model"], facts["batch"]
        experts = facts["layout"].get("experts") or 1
        model = Transformer(
            shape["layers"], shape["width"], shape["heads"], shape["sequence"], shape["vocabulary"],
            tied=False, attention_biases=False, dropout=False,
            experts=experts, experts_per_token=min(experts, facts["layout"].get("top_k") or 1),
        )  # fmt: skip
        return Described(model, _layout(facts, batch), _cluster(facts), PRECISIONS["fp32-adam"], _states(facts))
    except OSError as why:
        raise Unreadable(f"{path}: {why.strerror}") from why
    except (msgspec.MsgspecError, KeyError, TypeError, AttributeError, ValueError) as why:
        raise Unreadable(f"{path} is not a run.json of a reference workload: {why!r}") from why


def _layout(facts: Mapping[str, Any], batch: Mapping[str, int]) -> Layout:
    told = facts["layout"]
    axes = {SHORT[axis["name"]]: int(axis["size"]) for axis in told["axes"]}
    if "expert" in axes:
        axes["data"] = axes.get("data", 1) * axes["expert"]
    stages, pipeline = int(told.get("virtual_stages") or 1), axes.get("pipeline", 1)
    return Layout(
        **axes,
        zero_stage=_zero_stage(str(told.get("sharding") or "")) if axes.get("data", 1) > 1 else 0,
        micro_batch=int(batch["per_device"]),
        microbatches=int(batch["accumulation"]),
        stages_per_rank=stages,
        schedule=str(told.get("schedule") or "1f1b"),
        checkpointing="full" if facts.get("activation_checkpointing") else "none",
        sequence_parallel=bool(told.get("sequence_parallel")),
        fused_attention=True,
        split_vocabulary=False,
        reduce_each="--no-sync" not in str(facts.get("command")) and int(batch["accumulation"]) > 1 and pipeline == 1,
    )


def _zero_stage(sharding: str) -> int:
    """The stage that a workload's words name; `all states over dp` is FSDP's."""
    return next((stage for stage in (1, 2, 3) if f"ZeRO-{stage}" in sharding), 3 if "all states" in sharding else 0)


def _cluster(facts: Mapping[str, Any]) -> Cluster:
    ranks = int(facts["world_size"])
    per_node = max(1, ranks // max(1, len(facts["host"]["names"])))
    flops = float(facts.get("emulated_flop_per_s") or 1e9)
    return Cluster(ranks, per_node, 1e18, flops, 1.0, LOOPBACK, LOOPBACK)


def _states(facts: Mapping[str, Any]) -> float | None:
    sizes = [rank["parameter_bytes"] + rank["gradient_bytes"] + rank["optimizer_bytes"] for rank in facts["ranks"]]
    return float(max(sizes)) if sizes else None
