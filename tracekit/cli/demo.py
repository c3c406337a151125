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
from tracekit.errors import TracekitError, WrongUse

WORKLOADS = ("workloads", "tracekit_workloads")
"""The reference workloads as a checkout and as the wheel name them."""


def demo(
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Keep the traces here.")] = "",
    ranks: Annotated[int, typer.Option("--ranks", min=1, help="How many processes train.")] = 2,
) -> None:
    """Profile a small data-parallel training on this machine's CPU, then say where its steps went."""
    package = workloads_package()
    if out:
        shown(package, Path(out), ranks)
        return
    with TemporaryDirectory(prefix="tracekit-demo-") as folder:
        shown(package, Path(folder), ranks)


def workloads_package() -> str:
    """The name under which the workloads can be run; WrongUse where they or PyTorch are missing."""
    if find_spec("torch") is None:
        raise WrongUse("the demo trains with PyTorch, which is missing: pip install 'tracekit-torch[workloads]'")
    for name in WORKLOADS:
        if find_spec(name) is not None and find_spec(f"{name}.ddp") is not None:
            return name
    raise WrongUse("the demo runs tracekit's reference workloads, which this installation lacks")


def shown(package: str, folder: Path, ranks: int) -> None:
    """Profiles the workload into the folder and prints the account of its traces."""
    folder.mkdir(parents=True, exist_ok=True)
    print(f"tracekit: profiling a DDP training of {ranks} ranks into {folder}", file=sys.stderr)
    command = [sys.executable, "-m", package, "ddp", "--ranks", str(ranks), "--out", str(folder)]
    code = subprocess.run(command, stdout=sys.stderr.fileno(), check=False).returncode
    if code != 0:
        raise TracekitError(f"the workload ended with code {code}; it told why above: {' '.join(command)}")
    print(account(analyzed([str(folder)], cache=False)), end="")
