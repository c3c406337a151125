"""The plan held to published runs: predicted FLOP/s per GPU beside what was measured.

    python -m benchmarks.published            writes the section `published` of docs/accuracy.md
    python -m benchmarks.published --print    to the screen only

Layouts, batches and throughput are those of the papers. What the papers do not say is chosen once for all rows:
micro-batch 1; two stages per rank where layers divide (three where they divide by three only). Links are the presets'.
One figure was fitted, the efficiency of matrix products, to one digit and on one row; all other rows test it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.sections import write_section
from tracekit.plan import hardware, transformer
from tracekit.plan.layout import Layout
from tracekit.plan.memory import PRECISIONS
from tracekit.plan.step import OVERLAPPED, Prediction, predict

DOCUMENT = Path(__file__).parent.parent / "docs" / "accuracy.md"
NARAYANAN = "Narayanan et al. 2021, table 1"
LLAMA = "Dubey et al. 2024, table 4"
FITTED = "megatron-145.6b"


@dataclass(frozen=True)
class Published:
    """A run of a paper: layout, samples per step, measured TFLOP/s per GPU, with what is computed again or without."""

    source: str
    model: str
    node: str
    tensor: int
    pipeline: int
    gpus: int
    batch: int
    tflops: float

    @property
    def data(self) -> int:
        """Replicas."""
        return self.gpus // (self.tensor * self.pipeline)

    @property
    def modern(self) -> bool:
        """Fused attention, sequence parallelism, no activation checkpointing, gradients reduced in backward."""
        return self.source == LLAMA

    def layout(self, stages_per_rank: int) -> Layout:
        """With so many stages per rank."""
        return Layout(
            data=self.data,
            tensor=self.tensor,
            pipeline=self.pipeline,
            zero_stage=1 if self.modern else 0,
            microbatches=self.batch // self.data,
            stages_per_rank=stages_per_rank,
            schedule="interleaved" if stages_per_rank > 1 else "1f1b",
            checkpointing="none" if self.modern else "full",
            sequence_parallel=self.modern,
            fused_attention=self.modern,
        )

    def stages(self) -> list[int]:
        """Stages per rank that the layers allow, up to four."""
        layers = -(-transformer.preset(self.model).layers // self.pipeline)
        return [1, *(stages for stages in (2, 3, 4) if self.pipeline > 1 and layers % stages == 0)]

    def predicted(self, stages_per_rank: int) -> Prediction:
        """The step."""
        return predict(
            transformer.preset(self.model),
            self.layout(stages_per_rank),
            hardware.preset(self.node, self.gpus),
            PRECISIONS["mixed-adam-fp32-gradients" if self.modern else "mixed-adam"],
            overlapped=OVERLAPPED if self.modern else OVERLAPPED - {"data"},
        )

    def error(self, stages_per_rank: int) -> float:
        """Predicted by measured throughput, less one."""
        plan = self.predicted(stages_per_rank)
        per_second = plan.model_flops_per_second if self.modern else plan.hardware_flops_per_second
        return per_second / (self.tflops * 1e12) - 1


def _narayanan(model: str, tensor: int, pipeline: int, gpus: int, batch: int, tflops: float) -> Published:
    return Published(NARAYANAN, f"megatron-{model}", "a100-80gb", tensor, pipeline, gpus, batch, tflops)


RUNS = (
    _narayanan("1.7b", 1, 1, 32, 512, 137),
    _narayanan("3.6b", 2, 1, 64, 512, 138),
    _narayanan("7.5b", 4, 1, 128, 512, 142),
    _narayanan("18.4b", 8, 1, 256, 1024, 135),
    _narayanan("39.1b", 8, 2, 512, 1536, 138),
    _narayanan("76.1b", 8, 4, 1024, 1792, 140),
    _narayanan("145.6b", 8, 8, 1536, 2304, 148),
    _narayanan("310.1b", 8, 16, 1920, 2160, 155),
    _narayanan("529.6b", 8, 35, 2520, 2520, 163),
    _narayanan("1008b", 8, 64, 3072, 3072, 163),
    Published(LLAMA, "llama3-405b", "h100-80gb", 8, 16, 8192, 2048, 430),
    Published(LLAMA, "llama3-405b", "h100-80gb", 8, 16, 16384, 2048, 400),
)


def main(argv: list[str] | None = None) -> int:
    """Writes the section, and says how far off the worst row is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--print", action="store_true", help="to the screen only")
    options = parser.parse_args(argv)
    text = section()
    print(text)
    if not options.print:
        write_section(DOCUMENT, "published", text)
    return 0


def section() -> str:
    """The table in Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    errors = [run.error(chosen(run)) for run in RUNS if run.model != FITTED]
    yield "## Plan: published runs"
    yield ""
    yield (
        f"`python -m benchmarks.published`. One figure is fitted: matrix products reach {hardware.EFFICIENCY:.0%} of "
        f"the peak, to one digit, on the row of {FITTED}; the same holds for all rows, on H100 too. The papers do not "
        "say the micro-batch (1 is taken) nor how many stages a rank has (v: the fewest above one that layers allow; "
        "the last column is the range over 1 to 4). GPT: FP16, full activation checkpointing, whose FLOPs the paper "
        "counts, gradients reduced in 16 bits after the backward. Llama 3: BF16, fused attention, no checkpointing, "
        "gradients reduced in 32 bits during the backward; its 126 layers make stages of eight, the last of six."
    )
    yield ""
    yield (
        "| model | source | GPUs | tensor × pipeline × data | batch | v | TFLOP/s measured | planned | error | over v |"
    )
    yield "|---|---|--:|---|--:|--:|--:|--:|--:|---|"
    for run in RUNS:
        stages = chosen(run)
        error, over = run.error(stages), [run.error(number) for number in run.stages()]
        yield (
            f"| {run.model} | {run.source} | {run.gpus:,} | {run.tensor} × {run.pipeline} × {run.data} | {run.batch:,} "
            f"| {stages} | {run.tflops:.0f} | {run.tflops * (1 + error):.0f} | {error:+.1%} "
            f"| {min(over):+.1%} to {max(over):+.1%} |"
        )
    yield ""
    yield (
        f"Of the {len(errors)} rows that nothing was fitted on, the mean absolute error is "
        f"{sum(map(abs, errors)) / len(errors):.1%}, the largest {max(errors, key=abs):+.1%}."
    )


def chosen(run: Published) -> int:
    """Stages per rank: the fewest above one that the layers allow, else one."""
    return next((stages for stages in run.stages() if stages > 1), 1)


if __name__ == "__main__":
    sys.exit(main())
