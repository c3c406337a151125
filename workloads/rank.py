"""The process of one rank: its options, its errors, and what ends it."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import traceback
from multiprocessing import connection, parent_process
from multiprocessing.connection import Connection
from typing import Any

from . import catalog, options
from .errors import WorkloadError


def module_of(name: str) -> Any:
    """The module of a workload; importing it takes seconds, for torch."""
    return importlib.import_module(f".{name}", __package__)


def parser_of(name: str) -> options.Parser:
    """The parser of all options of a workload: shared ones and its own."""
    parser = options.parser(name, catalog.title(name))
    module_of(name).add_options(parser)
    return parser


def run(name: str, arguments: list[str], command: str) -> None:
    """Run this rank; who it is comes from the environment."""
    harness = importlib.import_module(".harness", __package__)
    harness.run(name, module_of(name), parser_of(name).parse_args(arguments), command)


def started(words: Connection, environment: dict[str, str], name: str, arguments: list[str], command: str) -> None:
    """What a process started by `launch` does: run, and on failure tell the launcher why and exit non-zero."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the launcher hears Ctrl-C too, and ends all ranks
    threading.Thread(target=_end_with_launcher, daemon=True).start()
    os.environ.update(environment)
    try:
        run(name, arguments, command)
    except WorkloadError as error:
        words.send((error.exit_code, str(error)))
        sys.exit(error.exit_code)
    except Exception:
        words.send((WorkloadError.exit_code, f"rank {environment['RANK']} failed:\n{traceback.format_exc()}"))
        sys.exit(WorkloadError.exit_code)


def _end_with_launcher() -> None:
    launcher = parent_process()
    assert launcher is not None
    connection.wait([launcher.sentinel])
    os._exit(1)
