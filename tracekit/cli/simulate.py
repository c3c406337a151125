"""`tracekit simulate`: traces of a described job, with the exact truth beside them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracekit.cli import progress
from tracekit.errors import WrongUse
from tracekit.wording import plain

if TYPE_CHECKING:
    from tracekit.simulate import Simulated


def simulate(
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Where the traces and truth.json go.")],
    job: Annotated[str, typer.Argument(metavar="[JOB.yaml]", help="The job; options below change what it says.")] = "",
    layout: Annotated[
        str, typer.Option("--layout", metavar="TEXT", help="As in 'dp 2 x tp 2 x pp 4'; fsdp is ZeRO stage 3.")
    ] = "",
    model: Annotated[str, typer.Option("--model", metavar="NAME", help="A model's preset.")] = "",
    cluster: Annotated[str, typer.Option("--cluster", metavar="NAME", help="A cluster's preset.")] = "",
    schedule: Annotated[str, typer.Option("--schedule", metavar="NAME", help="Of the pipeline.")] = "",
    microbatches: Annotated[int | None, typer.Option("--microbatches", metavar="N", help="Per step.")] = None,
    stages_per_rank: Annotated[
        int | None, typer.Option("--stages-per-rank", metavar="N", help="Of the pipeline.")
    ] = None,
    steps: Annotated[int | None, typer.Option("--steps", metavar="N", help="How many; 3, if nothing is said.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", metavar="N", help="Of all that is drawn at random.")] = None,
    noise: Annotated[
        float | None, typer.Option("--noise", metavar="SHARE", help="How much kernels and transfers vary, as in 0.05.")
    ] = None,
    fault: Annotated[
        list[str] | None, typer.Option("--fault", metavar="KIND[:rank][:size][@step]", help="Repeatable.")
    ] = None,
) -> None:
    """Simulate a training job: one Kineto trace per rank, and truth.json with what an analysis should find."""
    from tracekit.simulate import simulate as simulated
    from tracekit.simulate.job import job_of, layout_of, plain_job

    if Path(out).is_file():
        raise WrongUse(f"--out {out}: this is a file, not a folder")
    told = plain_job(job) if job else {}
    split: dict[str, Any] = dict(_split(told.get("layout", {})))
    split |= layout_of(layout) if layout else {}
    options = {"schedule": schedule, "microbatches": microbatches, "stages_per_rank": stages_per_rank}
    split |= {name: value for name, value in options.items() if value not in (None, "")}
    told = {**told, "layout": split}
    options = {"model": model, "cluster": cluster, "steps": steps, "seed": seed}
    told |= {name: value for name, value in options.items() if value not in (None, "")}
    told |= {"noise": {**told.get("noise", {}), "compute": noise, "transfer": noise}} if noise is not None else {}
    told |= {"faults": [*told.get("faults", []), *fault]} if fault else {}
    with progress.shown("simulating") as follow:
        try:
            done = simulated(job_of(told, job or "the job"), out, progress=follow)
        except OSError as why:
            raise WrongUse(f"--out {out}: {why.strerror}") from why
    print(account(done), end="")


def _split(told: Any) -> dict[str, Any]:
    from tracekit.simulate.job import layout_of

    if isinstance(told, str):
        return layout_of(told)
    if not isinstance(told, dict):
        raise WrongUse(f"layout must have keys and values, not {told!r}")
    return told


def account(done: Simulated) -> str:
    """What was written, and the truth in short."""
    truth = done.truth
    means = truth.steps[["step_ns", "compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns"]].mean()
    shares = {name: f"{means[f'{name}_ns'] / means['step_ns']:.0%}" for name in PARTS}
    lines = [
        f"{plain(str(done.folder))}: {done.files:,} traces, {done.events:,} events, and truth.json",
        f"step {truth.step_ns / 1e6:,.2f} ms: " + ", ".join(f"{PARTS[name]} {share}" for name, share in shares.items()),
    ]
    if truth.theory is not None:
        whole = truth.pipeline["bubble_ns"].sum() / truth.pipeline["window_ns"].sum()
        theory = truth.theory
        lines.append(
            f"bubble {whole:.1%} of the makespan; in theory {theory['of_makespan']:.1%} ({theory['schedule']})"
        )
    for one in truth.faults:
        lines.append(f"{one.fault}: cause {one.cause}, costs {one.cost_ns / 1e6:,.2f} ms a step")  # noqa: PERF401
    return "\n".join(lines) + "\n"


PARTS = {"compute": "compute", "exposed_comm": "exposed comm", "exposed_memory": "exposed memory", "idle": "idle"}
