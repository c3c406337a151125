"""`tracekit plan`: which layout for this model on these GPUs, and why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracekit.cli.analyze import STDOUT, analyzed, check_writable
from tracekit.errors import WrongUse

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracekit.plan.hardware import Cluster
    from tracekit.plan.layout import Layout
    from tracekit.plan.memory import Precision
    from tracekit.plan.search import Request
    from tracekit.plan.step import Prediction
    from tracekit.plan.transformer import Transformer
    from tracekit.report.plan_text import Operating

TOKENS_PER_STEP = 4_000_000
"""The batch, if none is given: LLaMA's (Touvron et al. 2023, table 2)."""
STORAGE_PER_NODE = 2e9
"""Bytes per second, if nothing is said."""


def plan(
    model: Annotated[
        str,
        typer.Argument(
            metavar="[MODEL]",
            help="A preset (llama-7b, gpt3-175b, ...) or numbers: layers=32,hidden=4096,heads=32,sequence=2048,"
            "vocabulary=32000[,kv_heads=8][,feed_forward=11008][,gated][,experts=8][,no-tied].",
        ),
    ] = "",
    gpus: Annotated[int, typer.Option("--gpus", help="How many GPUs there are.")] = 0,
    cluster: Annotated[str, typer.Option("--cluster", help="Kind of node: a100-80gb, h100-80gb, ...")] = "h100-80gb",
    gpus_per_node: Annotated[int, typer.Option("--gpus-per-node", help="Instead of the preset's.")] = 0,
    gpu_memory: Annotated[str, typer.Option("--gpu-memory", metavar="80GB", help="Instead of the preset's.")] = "",
    flops: Annotated[str, typer.Option("--flops", metavar="989T", help="Peak of a GPU, per second.")] = "",
    memory_bandwidth: Annotated[str, typer.Option("--memory-bandwidth", metavar="3.35TB/s", help="Of a GPU.")] = "",
    efficiency: Annotated[float, typer.Option("--efficiency", help="Share of it that products reach.")] = 0.0,
    inside: Annotated[str, typer.Option("--inside", metavar="360GB/s,2us", help="A GPU's link in its node.")] = "",
    between: Annotated[str, typer.Option("--between", metavar="40GB/s,4us", help="And to other nodes.")] = "",
    sweep: Annotated[str, typer.Option("--sweep", metavar="FILE", help="Links from a sweep's collectives.json.")] = "",
    batch: Annotated[int, typer.Option("--batch", help="Samples per step (default: 4 million tokens).")] = 0,
    sequence: Annotated[int, typer.Option("--sequence", help="Tokens of a sample, instead of the model's.")] = 0,
    precision: Annotated[str, typer.Option("--precision", help="mixed-adam, bf16-adam, fp32-adam, ...")] = "",
    trainable: Annotated[float, typer.Option("--trainable", help="Share of trained parameters (LoRA).")] = 1.0,
    unfused: Annotated[bool, typer.Option("--unfused-attention", help="Attention stores its scores.")] = False,
    no_sequence_parallel: Annotated[
        bool, typer.Option("--no-sequence-parallel", help="Tensor ranks hold norms and residuals whole.")
    ] = False,
    schedules: Annotated[str, typer.Option("--schedules", help="Pipeline schedules to choose from.")] = "",
    tensor: Annotated[int, typer.Option("--tensor", help="Only layouts with this degree; so below.")] = 0,
    pipeline: Annotated[int, typer.Option("--pipeline")] = 0,
    data: Annotated[int, typer.Option("--data")] = 0,
    context: Annotated[int, typer.Option("--context")] = 0,
    expert: Annotated[int, typer.Option("--expert")] = 0,
    zero: Annotated[int, typer.Option("--zero", help="ZeRO stage, 0 to 3.")] = -1,
    micro_batch: Annotated[int, typer.Option("--micro-batch")] = 0,
    microbatches: Annotated[int, typer.Option("--microbatches", help="Micro-batches a step.")] = 0,
    schedule: Annotated[str, typer.Option("--schedule", help="Only this one; see --schedules.")] = "",
    stages: Annotated[int, typer.Option("--stages", help="Stages per rank.")] = 0,
    checkpointing: Annotated[str, typer.Option("--checkpointing", help="none, selective or full.")] = "",
    storage: Annotated[str, typer.Option("--storage", metavar="100GB/s", help="Of checkpoints, for the job.")] = "",
    samples: Annotated[int, typer.Option("--samples", help="Of an epoch: tells its steps.")] = 0,
    base_batch: Annotated[int, typer.Option("--base-batch", help="Batch with a known learning rate.")] = 0,
    verify: Annotated[str, typer.Option("--verify", metavar="RUN", help="Set the plan beside a run's traces.")] = "",
    json: Annotated[str, typer.Option("--json", metavar="FILE|-", help="Write the plan as JSON.")] = "",
) -> None:
    """Say which layout to train a model with on so many GPUs, how quick it is, what it holds and sends, and why."""
    from tracekit.cli.quantities import link, number
    from tracekit.plan import hardware
    from tracekit.report.plan_text import Operating

    check_writable(json)
    fixed = _fixed(
        tensor=tensor, pipeline=pipeline, data=data, context=context, expert=expert, micro_batch=micro_batch,
        microbatches=microbatches, stages_per_rank=stages, schedule=schedule,
        sequence_parallel=False if no_sequence_parallel else None,
        zero_stage=zero if zero >= 0 else None, checkpointing=checkpointing,
    )  # fmt: skip

    def chosen_cluster(count: int) -> Cluster:
        chosen = hardware.preset(cluster, count)
        changes = {
            "gpus_per_node": gpus_per_node or None,
            "memory_bytes": number(gpu_memory, "--gpu-memory") if gpu_memory else None,
            "flops": number(flops, "--flops") if flops else None,
            "memory_bandwidth": number(memory_bandwidth, "--memory-bandwidth") if memory_bandwidth else None,
            "efficiency": efficiency or None,
            "inside": link(inside, "--inside") if inside else None,
            "between": link(between, "--between") if between else None,
        }
        chosen = replace(chosen, **{name: value for name, value in changes.items() if value is not None})  # type: ignore[arg-type]
        return hardware.with_sweep(chosen, sweep) if sweep else chosen

    if verify:
        _verify(verify, model, (*fixed, ("fused_attention", not unfused)), precision, sweep, json, chosen_cluster)
        return
    if not model or gpus < 1:
        raise WrongUse("tracekit plan takes a model and --gpus, as in: tracekit plan llama-7b --gpus 8")
    shape = _model(model, sequence)
    request = _request(shape, chosen_cluster(gpus), batch, precision, trainable, unfused, schedules or schedule, fixed)
    nodes = max(1, gpus // request.cluster.gpus_per_node)
    storage_bandwidth = number(storage, "--storage") if storage else STORAGE_PER_NODE * nodes
    _show(request, model, cluster, Operating(storage_bandwidth, samples=samples, base_batch=base_batch), json)


def _fixed(**given: int | str | None) -> tuple[tuple[str, object], ...]:
    """The layout's fields that were given: 0 and nothing mean open, except where these are values."""
    values = ("zero_stage", "sequence_parallel")
    return tuple((name, value) for name, value in given.items() if value or (name in values and value is not None))


def _model(text: str, sequence: int) -> Transformer:
    from tracekit.plan.described import model_of

    model = model_of(text)
    return replace(model, sequence=sequence) if sequence else model


def _precision(name: str) -> Precision:
    from tracekit.plan.memory import PRECISIONS

    if name and name not in PRECISIONS:
        raise WrongUse(f"--precision {name}: there are {', '.join(PRECISIONS)}")
    return PRECISIONS[name or "mixed-adam"]


def _request(
    model: Transformer,
    cluster: Cluster,
    batch: int,
    precision: str,
    trainable: float,
    unfused: bool,
    schedules: str,
    fixed: tuple[tuple[str, object], ...],
) -> Request:
    from tracekit.plan.pipeline import SCHEDULES
    from tracekit.plan.search import Request

    asked = tuple(name.strip() for name in schedules.split(",") if name.strip())
    for name in asked:
        if name not in SCHEDULES:
            raise WrongUse(f"--schedules {name}: there are {', '.join(SCHEDULES)}")
    request = Request(
        model,
        cluster,
        batch or _default_batch(model, cluster),
        _precision(precision),
        trainable,
        fused_attention=not unfused,
        fixed=fixed,
    )
    return replace(request, schedules=asked) if asked else request


def _default_batch(model: Transformer, cluster: Cluster) -> int:
    """About 4 million tokens, as a power of two of samples, so that it divides; at least one sample for each GPU."""
    samples = max(1, TOKENS_PER_STEP // model.sequence)
    power = 1 << (samples.bit_length() - 1)
    return power if power % cluster.gpus == 0 else cluster.gpus * max(1, power // cluster.gpus)


def _show(request: Request, model: str, cluster: str, operating: Operating, json: str) -> None:
    from shutil import get_terminal_size

    from tracekit.plan.scaling import scaling
    from tracekit.plan.search import plans
    from tracekit.report.plan_json import plan_document
    from tracekit.report.plan_text import plan_text

    found = plans(request)
    gpus = request.cluster.gpus
    counts = sorted({max(1, gpus // 8), max(1, gpus // 2), gpus, 2 * gpus})
    points = scaling(request, counts, [found.chosen])
    if json != STDOUT:
        width = get_terminal_size((100, 24)).columns
        print(plan_text(found, model, cluster, points, operating, width=width), end="")
    if json:
        _write(plan_document(found, points, operating), json)


def _write(document: dict[str, object], file: str) -> None:
    from tracekit.report.json import json_text

    if file == STDOUT:
        print(json_text(document), end="")
        return
    Path(file).write_text(json_text(document), encoding="utf-8")


def _verify(
    run: str,
    model: str,
    fixed: tuple[tuple[str, object], ...],
    precision: str,
    sweep: str,
    json: str,
    chosen_cluster: Callable[[int], Cluster],
) -> None:
    from tracekit.plan.described import described_run, run_file
    from tracekit.plan.hardware import with_sweep
    from tracekit.plan.search import described
    from tracekit.plan.step import predict
    from tracekit.report.verified import verified, verified_text

    known = None if model else run_file(run)
    if known is None and not model:
        raise WrongUse(f"{run} has no run.json of a reference workload: give the model and the layout (--tensor, ...)")
    analysis = analyzed([run])
    state_bytes = None
    if known is not None:
        facts = described_run(known)
        cluster = with_sweep(facts.cluster, sweep) if sweep else facts.cluster
        prediction = predict(facts.model, facts.layout, cluster, facts.precision)
        state_bytes = facts.state_bytes
    else:
        ranks = analysis.run.world_size
        if ranks is None:
            raise WrongUse(f"{run}: no file tells the job's world size, so it cannot be held against a plan")
        prediction = _given(_model(model, 0), fixed, ranks, precision, chosen_cluster)
    rows = verified(prediction, analysis, state_bytes)
    if json != STDOUT:
        print(f"{described(prediction.layout)}\n\n{verified_text(rows)}", end="")
    if json:
        from dataclasses import asdict

        _write({"schema": 1, "layout": asdict(prediction.layout), "rows": [asdict(row) for row in rows]}, json)


def _given(
    model: Transformer,
    fixed: tuple[tuple[str, object], ...],
    ranks: int,
    precision: str,
    chosen_cluster: Callable[[int], Cluster],
) -> Prediction:
    """The plan of a layout that was given; data takes what the other axes leave of the ranks."""
    from tracekit.plan.layout import Layout, check_model
    from tracekit.plan.step import predict

    given = dict(fixed)
    others = 1
    for name in ("tensor", "pipeline", "context"):
        value = given.get(name, 1)
        others *= value if isinstance(value, int) else 1
    if ranks % others:
        raise WrongUse(f"the run has {ranks} ranks, which tensor, pipeline and context of {others} do not divide")
    given.setdefault("data", ranks // others)
    given.setdefault("sequence_parallel", given.get("tensor", 1) != 1)
    layout: Layout = Layout(**given)  # type: ignore[arg-type]
    if layout.ranks != ranks:
        raise WrongUse(f"the layout has {layout.ranks} ranks, the run {ranks}")
    check_model(layout, model)
    return predict(model, layout, chosen_cluster(ranks), _precision(precision))
