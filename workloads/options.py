"""The options that every workload has. Imports no torch: the launcher reads them before any rank is started."""

from __future__ import annotations

import argparse
from typing import NoReturn

from .errors import WrongUse


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `WrongUse` instead of printing and exiting."""

    def error(self, message: str) -> NoReturn:
        """Raise WrongUse with argparse's own sentence."""
        raise WrongUse(message)


def parser(workload: str, title: str) -> Parser:
    """A parser with the options that every workload shares; the workload's own are added to it."""
    shared = Parser(prog=f"python -m workloads {workload}", description=title, allow_abbrev=False)
    _add_run(shared)
    _add_model(shared)
    _add_profile(shared)
    return shared


def _add_run(parser: Parser) -> None:
    group = parser.add_argument_group("run")
    group.add_argument("--ranks", type=_positive, default=2, help="processes to start (not under torchrun)")
    group.add_argument("--out", required=True, help="folder for rank{r}.json.gz and run.json")
    group.add_argument("--port", type=int, default=None, help="port where the ranks meet (default: a free one)")
    group.add_argument("--device", default="auto", help="auto, cpu, or an accelerator by name")


def _add_model(parser: Parser) -> None:
    group = parser.add_argument_group("model and batch")
    group.add_argument("--layers", type=_positive, default=2, help="transformer blocks")
    group.add_argument("--width", type=_positive, default=128, help="features per token")
    group.add_argument("--heads", type=_positive, default=4, help="attention heads")
    group.add_argument("--vocabulary", type=_positive, default=256, help="different tokens")
    group.add_argument("--sequence", type=_positive, default=64, help="tokens per sample")
    group.add_argument("--batch", type=_positive, default=8, help="samples per device and micro-batch")
    group.add_argument("--accumulation", type=_positive, default=1, help="micro-batches per optimizer step")
    group.add_argument("--learning-rate", type=float, default=1e-3)
    group.add_argument("--seed", type=int, default=0)


def _add_profile(parser: Parser) -> None:
    group = parser.add_argument_group("profiler schedule, in steps")
    group.add_argument("--wait", type=_count, default=1, help="steps before the profiler is prepared")
    group.add_argument("--warmup", type=_count, default=1, help="steps profiled and thrown away")
    group.add_argument("--active", type=_positive, default=3, help="steps in the trace")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{number} is less than 0")
    return number
