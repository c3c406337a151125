"""The options that every workload has. Imports no torch: the launcher reads them before any rank is started."""

from __future__ import annotations

import argparse
import math
from typing import NoReturn

from .errors import WrongUse

# With the default model, each operation of a layer takes 20 ms or more.
EMULATED_FLOP_PER_S = 8e8


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
    group.add_argument("--ranks", type=_one_or_more, default=2, help="processes to start (not under torchrun)")
    group.add_argument("--out", required=True, help="folder for rank{r}.json.gz and run.json")
    group.add_argument("--port", type=int, default=None, help="port where the ranks meet (default: a free one)")
    group.add_argument("--device", default="auto", help="auto, cpu, emulated, or an accelerator by name, such as cuda")
    group.add_argument("--backend", default=None, help="how ranks communicate (default: the device's own)")
    group.add_argument(
        "--emulated-flops", type=positive, default=EMULATED_FLOP_PER_S, help="FLOP per second of the emulated device"
    )
    group.add_argument("--fault", action="append", default=[], help="KIND[:rank][:size][@step], repeatable")


def _add_model(parser: Parser) -> None:
    group = parser.add_argument_group("model and batch")
    group.add_argument("--layers", type=_one_or_more, default=2, help="transformer blocks")
    group.add_argument("--width", type=_one_or_more, default=128, help="features per token")
    group.add_argument("--heads", type=_one_or_more, default=4, help="attention heads")
    group.add_argument("--vocabulary", type=_one_or_more, default=256, help="different tokens")
    group.add_argument("--sequence", type=_one_or_more, default=64, help="tokens per sample")
    group.add_argument("--batch", type=_one_or_more, default=8, help="samples per device and micro-batch")
    group.add_argument("--accumulation", type=_one_or_more, default=1, help="micro-batches per optimizer step")
    group.add_argument("--learning-rate", type=positive, default=1e-3)
    group.add_argument("--seed", type=int, default=0)
    group.add_argument(
        "--activation-checkpointing", action="store_true", help="keep no activations inside layers: compute them again"
    )
    group.add_argument(
        "--checkpoint-step", type=_zero_or_more, default=None, help="write a fault-tolerance checkpoint in this step"
    )


def _add_profile(parser: Parser) -> None:
    group = parser.add_argument_group("profiler schedule, in steps")
    group.add_argument("--wait", type=_zero_or_more, default=1, help="steps before the profiler is prepared")
    group.add_argument("--warmup", type=_zero_or_more, default=1, help="steps profiled and thrown away")
    group.add_argument("--active", type=_one_or_more, default=3, help="steps in the trace")


def positive(text: str) -> float:
    """A number above 0, as argparse's `type`."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number


def _one_or_more(text: str) -> int:
    return _at_least(1, text)


def _zero_or_more(text: str) -> int:
    return _at_least(0, text)


def _at_least(least: int, text: str) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {least} or more")
    return int(text)
