"""`tracekit demo`: profile a small real training here, then analyse its traces."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from tracekit.cli.analyze import account, analyzed
from tracekit.cli.telling import warned
from tracekit.errors import TracekitError, WrongUse

WORKLOADS = ("workloads", "tracekit_workloads")
"""The reference workloads as a checkout and as the wheel name them."""


EMULATED = ("--device", "emulated", "--emulated-flops", "3e9", "--wait", "0", "--warmup", "1", "--active", "2")
RUNS = (
    ("ddp", "data parallelism, 2 ranks; rank 1 is half as fast", ("--ranks", "2", "--fault", "slow_device:1:2")),
    ("pipeline", "a pipeline of 4 stages, 1F1B", ("--ranks", "4", "--schedule", "1f1b", "--microbatches", "8")),
)
"""Workload, what it shows, and its options. The emulated device computes asleep, so that two cores are enough."""


def demo(
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Keep the traces here.")] = "",
) -> None:
    """Profile small distributed trainings on this machine's CPU, then say where their steps went."""
    package = workloads_package()
    if out:
        all_shown(package, Path(out))
        return
    with TemporaryDirectory(prefix="tracekit-demo-") as folder:
        all_shown(package, Path(folder))


def workloads_package() -> str:
    """The name under which the workloads can be run; WrongUse where they or PyTorch are missing."""
    if find_spec("torch") is None:
        raise WrongUse("the demo trains with PyTorch, which is missing: pip install 'tracekit-torch[workloads]'")
    for name in WORKLOADS:
        if find_spec(name) is not None and find_spec(f"{name}.ddp") is not None:
            return name
    raise WrongUse("the demo runs tracekit's reference workloads, which this installation lacks")


def all_shown(package: str, folder: Path) -> None:
    """Profiles each workload into a folder of its own and prints the account of its traces."""
    for workload, shows, options in RUNS:
        into = folder / workload
        into.mkdir(parents=True, exist_ok=True)
        warned(f"profiling {shows} (into {into})")
        profile([sys.executable, "-m", package, workload, *options, *EMULATED, "--out", str(into)])
        print(account(analyzed([str(into)], cache=False)))


def profile(command: list[str]) -> None:
    """Runs a workload; TracekitError where it fails."""
    code = subprocess.run(command, stdout=sys.stderr.fileno(), check=False).returncode
    if code != 0:
        raise TracekitError(f"the workload ended with code {code}; it told why above: {' '.join(command)}")
