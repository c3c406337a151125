"""From a command line to ranks: started here, or already started by torchrun.

Ranks are forked from a server process that has imported torch once (`multiprocessing`'s forkserver), since importing
it takes each of them seconds. This process imports no torch: it starts, watches and ends.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shlex
import signal
import socket
import sys
from collections.abc import Sequence
from multiprocessing import connection
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess

from . import catalog, options, rank
from .errors import WorkloadError, WrongUse

INTERRUPTED = 130
# Each rank's profiler starts and stops with lines on stderr about itself and about memory allocated before it.
QUIET = {"KINETO_LOG_LEVEL": "99", "TORCH_CPP_LOG_LEVEL": "ERROR"}


def main(arguments: Sequence[str]) -> int:
    """Run `NAME OPTIONS...`; the exit code: 0 done, 1 a rank failed, 2 wrong use, 130 interrupted."""
    try:
        _run(list(arguments))
    except WorkloadError as error:
        print(f"workloads: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("workloads: interrupted; all ranks were ended", file=sys.stderr)
        return INTERRUPTED
    return 0


def _run(arguments: list[str]) -> None:
    known = catalog.workloads()
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage(known))
        return
    name, *rest = arguments
    if name not in known:
        raise WrongUse(f"no workload {name!r}; there are {', '.join(known)}")
    if {"-h", "--help"} & set(rest):
        print(rank.parser_of(name).format_help())
        return
    command = shlex.join(["python", "-m", __package__ or "workloads", *arguments])
    if "RANK" in os.environ:
        rank.run(name, rest, command)
    else:
        _start(name, rest, command)


def _usage(known: dict[str, str]) -> str:
    rows = [f"  {name:<12} {title}" for name, title in known.items()]
    return "\n".join([f"usage: python -m {__package__} NAME --ranks N --out FOLDER ...", "", *rows])


def _start(name: str, arguments: list[str], command: str) -> None:
    given, _ = options.parser(name, "").parse_known_args(arguments)
    port = given.port or _free_port()
    context = _context(name)
    ranks = [_Rank(context, number, given.ranks, port, (name, arguments, command)) for number in range(given.ranks)]
    with _terminable():
        try:
            _watch(ranks)
        finally:
            for started in ranks:
                started.end()


class _Rank:
    """A rank's process, and the pipe on which it says why it failed."""

    def __init__(self, context: BaseContext, number: int, ranks: int, port: int, work: tuple[str, list[str], str]):
        self.number = number
        self.words, theirs = multiprocessing.Pipe(duplex=False)
        environment = {
            "RANK": str(number),
            "LOCAL_RANK": str(number),
            "WORLD_SIZE": str(ranks),
            "LOCAL_WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        self.process: BaseProcess = context.Process(  # type: ignore[attr-defined]
            target=rank.started, args=(theirs, environment, *work), name=f"rank{number}"
        )
        self.process.start()
        theirs.close()

    def failure(self) -> WorkloadError | None:
        """Why this rank failed, None if it has not."""
        if self.process.is_alive() or self.process.exitcode == 0:
            return None
        with contextlib.suppress(EOFError):
            if self.words.poll():
                return self.words.recv()
        return WorkloadError(f"rank {self.number} {_end_of(self.process.exitcode)}; the other ranks were ended")

    def end(self) -> None:
        """Leave no process."""
        self.process.kill()
        self.process.join()


def _end_of(code: int | None) -> str:
    if code is not None and code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def _watch(ranks: list[_Rank]) -> None:
    """Return when every rank is done; raise what the first that failed says."""
    running = {started.process.sentinel: started for started in ranks}
    while running:
        for sentinel in connection.wait(list(running)):
            started = running.pop(sentinel)  # type: ignore[call-overload]
            started.process.join()
            failure = started.failure()
            if failure:
                raise failure


def _context(name: str) -> BaseContext:
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    for variable, value in QUIET.items():
        os.environ.setdefault(variable, value)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["torch", "torch.distributed", "torch.profiler", "torch._dynamo", f"{__package__}.{name}"]
    )
    return context


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def _terminable():
    """Turn SIGTERM into an interrupt, so that ranks are ended here too."""
    try:
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
