"""A large trace made up for benchmarks, for where no real ones are at hand."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from pathlib import Path

STEPS, LAYERS, KERNELS_PER_LAYER = 12, 96, 28
_ARGS = (
    '"External id": {id}, "queued": 0, "device": 0, "context": 1, "stream": {stream}, "correlation": {id},'
    ' "registers per thread": 168, "shared memory": 98304, "blocks per SM": 2.4, "warps per SM": 19.2,'
    ' "grid": [32, 8, 1], "block": [128, 1, 1], "est. achieved occupancy %": 19'
)
_OPERATOR = (
    '"External id": {id}, "Record function id": 0, "Ev Idx": {id}, "Concrete Inputs": ["", "", "1", "1"],'
    ' "Input type": ["c10::BFloat16", "c10::BFloat16", "Scalar", "Scalar"], "Input Dims": [[8192, 4096], [4096]]'
)


def write(path: Path) -> Path:
    """Writes the trace (about 40 MB of JSON, laid out as Kineto lays it out) and gives its path."""
    with gzip.open(path, "wt", compresslevel=6) as file:
        file.write('{\n  "schemaVersion": 1,\n  "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1},\n')
        file.write('  "traceEvents": [\n')
        file.write(",\n".join(_events()))
        file.write('\n  ],\n  "traceName": "made.json",\n  "baseTimeNanoseconds": 1711964646000000000\n}\n')
    return path


def _events() -> Iterator[str]:
    rng, number, now_us = random.Random(0), 0, 1000.0
    names = [f"ampere_bf16_s16816gemm_bf16_128x{32 << (k % 3)}_ldg8_f2f_stages_32x{k}_tn" for k in range(60)]
    for step in range(STEPS):
        begin_us = now_us
        for layer in range(LAYERS):
            for kernel in range(KERNELS_PER_LAYER):
                number, now_us = number + 1, now_us + 20.0
                lasts_us = rng.uniform(4, 19)
                comm = kernel == 0
                name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL" if comm else names[(layer + kernel) % len(names)]
                stream = 20 if comm else 7
                yield _span("cpu_op", "aten::mm", 900, 900, now_us, 12.0, _OPERATOR.format(id=number))
                yield _span("cuda_runtime", "cudaLaunchKernel", 900, 900, now_us + 4, 5.5, f'"correlation": {number}')
                yield _span("kernel", name, 0, stream, now_us + 30, lasts_us, _ARGS.format(id=number, stream=stream))
                yield _arrow("s", number, 900, 900, now_us + 4)
                yield _arrow("f", number, 0, stream, now_us + 30)
        yield _span(
            "user_annotation", f"ProfilerStep#{step}", 900, 900, begin_us, now_us - begin_us, '"External id": 0'
        )


def _span(category: str, name: str, pid: int, tid: int, start_us: float, lasts_us: float, args: str) -> str:
    return (
        f'  {{\n    "ph": "X", "cat": "{category}", "name": "{name}", "pid": {pid}, "tid": {tid},\n'
        f'    "ts": {start_us:.3f}, "dur": {lasts_us:.3f},\n    "args": {{\n      {args}\n    }}\n  }}'
    )


def _arrow(phase: str, number: int, pid: int, tid: int, time_us: float) -> str:
    return (
        f'  {{\n    "ph": "{phase}", "id": {number}, "pid": {pid}, "tid": {tid}, "ts": {time_us:.3f},\n'
        f'    "cat": "ac2g", "name": "ac2g", "bp": "e"\n  }}'
    )
