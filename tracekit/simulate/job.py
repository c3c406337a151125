"""What is simulated: model, layout, hardware, steps, noise, faults; from YAML or from flags, checked.

model: megatron-1.7b                # a preset's name, or its numbers: {layers: 4, hidden: 1024, ...}
layout: dp 2 x pp 4                 # or {data: 2, pipeline: 4, microbatches: 8, schedule: 1f1b, ...}
cluster: h100-80gb                  # a preset's name, or {preset: h100-80gb, gpus_per_node: 4, inside: {...}}
precision: mixed-adam               # or {weight_bytes: 2, gradient_bytes: 4, ...}
steps: 3
seed: 1
noise: {compute: 0.02, transfer: 0.05, ends_us: 2}
host: {dispatch_us: 6, sync_each_step: true}
trace: {calls_told_by: id}
faults: [slow_device:3:1.2]
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import msgspec
import yaml

from tracekit.errors import Unreadable, WrongUse
from tracekit.plan import hardware, transformer
from tracekit.plan.hardware import Cluster
from tracekit.plan.layout import Layout, check_model
from tracekit.plan.memory import PRECISIONS, Precision
from tracekit.plan.transformer import Transformer
from tracekit.simulate.faults import EVEN_LENGTHS, Fault, parse

MODEL, CLUSTER, PRECISION = "megatron-1.7b", "h100-80gb", "mixed-adam"
SHORT = {"dp": "data", "fsdp": "data", "tp": "tensor", "pp": "pipeline", "cp": "context", "ep": "expert"}
_AXIS = re.compile(r"([a-z]+)\s*[=:]?\s*(\d+)")

Made = TypeVar("Made")


@dataclass(frozen=True)
class Noise:
    """How much times vary: standard deviations as a share of each kernel's, transfer's and host call's time.

    `ends_us` is how far members of one collective may end apart.
    """

    compute: float = 0.0
    transfer: float = 0.0
    host: float = 0.0
    ends_us: float = 0.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 <= value < (1 if name != "ends_us" else 1e6):
                raise WrongUse(f"noise {name} cannot be {value}")


@dataclass(frozen=True)
class Host:
    """The host thread.

    Micro-seconds of an operator that launches work (`dispatch_us`), of the launching call at its end (`call_us`), and
    from that call's start to the earliest start on the device (`latency_us`); data loading per micro-batch; whether it
    reads the loss, and so waits for the device, in each step.
    """

    dispatch_us: float = 6.0
    call_us: float = 2.0
    latency_us: float = 4.0
    load_ms: float = 0.1
    sync_each_step: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.call_us <= self.dispatch_us or self.latency_us < 0 or self.load_ms < 0:
            raise WrongUse("host times are above 0, and a launching call is part of its operator")


@dataclass(frozen=True)
class Trace:
    """What the files tell.

    How calls can be known again (`id`: Comms Id and Seq; `seq`: Seq; `order`: neither), whether groups are named for
    their axis, and whether allocations are recorded.
    """

    calls_told_by: Literal["id", "seq", "order"] = "id"
    named_groups: bool = True
    memory: bool = True


@dataclass(frozen=True)
class Job:
    """A job that can be simulated; WrongUse where its parts do not fit each other."""

    model: Transformer = field(default_factory=lambda: transformer.preset(MODEL))
    layout: Layout = field(default_factory=Layout)
    cluster: Cluster = field(default_factory=lambda: hardware.preset(CLUSTER, 1))
    precision: Precision = field(default_factory=Precision)
    steps: int = 3
    seed: int = 0
    noise: Noise = field(default_factory=Noise)
    host: Host = field(default_factory=Host)
    trace: Trace = field(default_factory=Trace)
    bucket_mb: float = 25.0
    faults: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        check_model(self.layout, self.model)
        if self.steps < 1 or self.seed < 0 or self.bucket_mb <= 0:
            raise WrongUse("a job has at least 1 step, a seed of at least 0 and buckets above 0 MB")
        if self.layout.context > 1 or self.layout.expert > 1:
            raise WrongUse("context and expert parallelism are not simulated: data, tensor and pipeline are")
        if self.cluster.gpus < self.layout.ranks:
            raise WrongUse(f"the layout has {self.layout.ranks} ranks, the cluster {self.cluster.gpus} GPUs")
        for fault in self.faults:
            self._check(fault)

    def _check(self, fault: Fault) -> None:
        if fault.step >= self.steps:
            raise WrongUse(f"fault {fault} begins after the last of {self.steps} steps")
        if fault.kind == "stage_imbalance" and self.layout.pipeline == 1:
            raise WrongUse(f"fault {fault}: only a pipeline has stages")
        if fault.kind in ("slow_link", "late_start", "degraded_link") and self.ranks == 1:
            raise WrongUse(f"fault {fault}: it takes two ranks to see it")

    @property
    def ranks(self) -> int:
        """All of them."""
        return self.layout.ranks

    def without(self, *faults: Fault) -> Job:
        """The same job with some of its faults mended: removed, or where samples differ in length, these made alike."""
        left = tuple(fault for fault in self.faults if fault not in faults)
        even = tuple(replace(fault, kind=EVEN_LENGTHS) for fault in faults if fault.kind == "length_imbalance")
        return replace(self, faults=(*left, *even))


KEYS = tuple(one.name for one in dataclasses.fields(Job))


def read_job(path: str | Path) -> Job:
    """The job that a YAML file describes; Unreadable where it is no YAML, WrongUse where it describes none."""
    return job_of(plain_job(path), str(path))


def plain_job(path: str | Path) -> dict[str, Any]:
    """What a YAML file says, as plain values; Unreadable where it is no YAML, WrongUse where it says no keys."""
    try:
        told = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as why:
        raise Unreadable(f"{path}: {why.strerror}") from why
    except (yaml.YAMLError, UnicodeDecodeError) as why:
        raise Unreadable(f"{path} is not YAML: {' '.join(str(why).split())}") from why
    return dict(_mapping(told or {}, str(path)))


def job_of(told: Any, where: str = "the job") -> Job:
    """The job that plain values describe, as a YAML file holds them; WrongUse where they describe none."""
    known = _only(KEYS, told, where)
    model = _model(known.get("model", MODEL))
    layout = _layout(known.get("layout", {}))
    cluster = _cluster(known.get("cluster", CLUSTER), layout.ranks)
    precision = _precision(known.get("precision", PRECISION))
    parts = {"noise": Noise, "host": Host, "trace": Trace}
    made: dict[str, Any] = {name: _made(kind, known[name], name) for name, kind in parts.items() if name in known}
    plain = {name: _plain(known[name], kind, name) for name, kind in _PLAIN.items() if name in known}
    steps = plain.get("steps", Job.steps)
    texts = _plain(known.get("faults", []), list[str], "faults")
    faults = tuple(parse(text, layout.ranks, steps) for text in texts)
    return Job(model, layout, cluster, precision, faults=faults, **made, **plain)


_PLAIN: Mapping[str, Any] = {"steps": int, "seed": int, "bucket_mb": float}


def layout_of(text: str) -> dict[str, Any]:
    """The degrees that a text such as `dp 2 x pp 4` names; `fsdp` is data parallel with ZeRO stage 3."""
    parts = [part for part in re.split(r"[x×,*]|\s{2,}", text.strip().lower()) if part.strip()]
    degrees: dict[str, Any] = {}
    for part in parts:
        found = _AXIS.fullmatch(part.strip())
        if found is None or found[1] not in SHORT:
            raise WrongUse(f"no layout {text!r}: it is written as dp 2 x tp 2 x pp 4, with {', '.join(SHORT)}")
        if SHORT[found[1]] in degrees:
            raise WrongUse(f"layout {text!r} names one axis twice")
        degrees[SHORT[found[1]]] = int(found[2])
        if found[1] == "fsdp":
            degrees["zero_stage"] = 3
    return degrees


def _model(told: Any) -> Transformer:
    if isinstance(told, str):
        return transformer.preset(told)
    given = dict(_mapping(told, "model"))
    if "preset" in given:
        given = {**msgspec.to_builtins(transformer.preset(str(given.pop("preset")))), **given}
    return _made(Transformer, given, "model")


def _layout(told: Any) -> Layout:
    if isinstance(told, str):
        told = layout_of(told)
    given = dict(_mapping(told, "layout"))
    if "axes" in given:
        given = {**layout_of(str(given.pop("axes"))), **given}
    return _made(Layout, given, "layout")


def _precision(told: Any) -> Precision:
    if not isinstance(told, str):
        return _made(Precision, told, "precision")
    if told not in PRECISIONS:
        raise WrongUse(f"no precision is named {told!r}; there are {', '.join(PRECISIONS)}")
    return PRECISIONS[told]


def _cluster(told: Any, ranks: int) -> Cluster:
    if isinstance(told, str):
        return hardware.preset(told, ranks)
    given = dict(_mapping(told, "cluster"))
    base = msgspec.to_builtins(hardware.preset(str(given.pop("preset", CLUSTER)), ranks))
    for name in ("inside", "between"):
        if name in given:
            given[name] = {**base[name], **_only(tuple(base[name]), given[name], f"cluster.{name}")}
    return _made(Cluster, {**base, **_only(tuple(base), given, "cluster")}, "cluster")


def _made(kind: type[Made], told: Any, where: str) -> Made:
    """A dataclass of plain values; WrongUse for a key that it does not have, or a value of another type."""
    names = tuple(one.name for one in dataclasses.fields(cast(Any, kind)))
    return cast(Made, _plain(_only(names, told, where), kind, where))


def _plain(value: Any, kind: Any, where: str) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as why:
        raise WrongUse(f"{where}: {why}") from why


def _only(names: Sequence[str], told: Any, where: str) -> dict[str, Any]:
    given = _mapping(told, where)
    unknown = [key for key in given if key not in names]
    if unknown:
        raise WrongUse(f"{where} has no key {str(unknown[0])!r}; there are {', '.join(names)}")
    return dict(given)


def _mapping(told: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(told, Mapping):
        raise WrongUse(f"{where} must have keys and values, not {told!r}")
    return told
