"""The command line: one file per command. The only place that prints, and the only one that catches."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

import typer

from tracekit.cli import analyze, check, compare, demo, explain, export, history, plan, report, simulate, whatif
from tracekit.cli.app import app as app_command
from tracekit.cli.telling import LONGEST, warned
from tracekit.errors import TracekitError
from tracekit.wording import plain

USAGE, INTERRUPTED, BROKEN_PIPE, INTERNAL = 2, 130, 141, 70
"""Exit codes beside those that errors carry: shells give 130 and 141 to whom Ctrl-C or a closed pipe ended."""

app = typer.Typer(
    name="tracekit",
    help="Says where the time of a distributed PyTorch training goes, from the Kineto traces of all its ranks.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = (
    *(analyze.analyze, report.report, whatif.whatif, plan.plan, simulate.simulate),
    *(compare.compare, check.check, history.history),
    *(export.export, explain.explain, demo.demo),
    app_command,
)
for command in COMMANDS:
    app.command(short_help=command.__doc__)(command)


@app.callback(invoke_without_command=True)
def tracekit(
    context: typer.Context, version: bool = typer.Option(False, "--version", help="Print the version.")
) -> None:
    """What stands before a command."""
    if version:
        print(f"tracekit {_version()}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line and returns its exit code; every failure is one line on stderr."""
    try:
        code = int(app(args=argv, prog_name="tracekit", standalone_mode=False) or 0)
        sys.stdout.flush()
    except (TracekitError, typer.TyperException) as why:
        return _failed(_sentence(why), getattr(why, "exit_code", USAGE))
    except (BrokenPipeError, SystemExit):  # inside a command typer makes the first into the second
        return _closed_pipe()
    except OSError as why:
        return _failed(str(why), USAGE)
    except KeyboardInterrupt:
        return _failed("interrupted", INTERRUPTED)
    return _failed("interrupted", code) if code == INTERRUPTED else code


def run() -> None:
    """The console script. A defect shows its traceback and exits with 70, since 1 means that the gate says worse."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        code = main()
    except Exception:
        print("\n".join(plain(line, LONGEST) for line in traceback.format_exc().splitlines()), file=sys.stderr)
        code = INTERNAL
    sys.exit(code)


def _sentence(why: TracekitError | typer.TyperException) -> str:
    return why.format_message() if isinstance(why, typer.TyperException) else str(why)


def _failed(sentence: str, code: int) -> int:
    warned(sentence)
    return code


def _closed_pipe() -> int:
    """Nobody reads the result any more: leave quietly, also when the interpreter flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE


def _version() -> str:
    from tracekit import __version__

    return __version__
