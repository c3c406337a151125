"""From a command line to ranks: started here, or already started by torchrun.

Ranks are forked from a server process that has imported torch once (`multiprocessing`'s forkserver), since importing it
takes each of them seconds. This process imports no torch: it starts, watches and ends. Whatever ends it, no rank is
left: it ends them, and if it is killed itself, each of them sees that and goes too (`rank`).
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shlex
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import connection
from pathlib import Path
from typing import Any

from . import catalog, faults, options, picture, rank
from .errors import WorkloadError, WrongUse

INTERRUPTED = 130
# Ranks that lose a peer fail too, and may be seen to end before it; the first cause is looked for among all of these.
GRACE_S = 0.5
PRELOADED = ("torch", "torch.distributed.checkpoint", "torch.distributed.tensor", "torch.profiler", "torch._dynamo")
# Each rank's profiler starts and stops with lines on stderr about itself and about memory allocated before it.
QUIET = {"KINETO_LOG_LEVEL": "99", "TORCH_CPP_LOG_LEVEL": "ERROR"}


def main(arguments: Sequence[str]) -> int:
    """Run `NAME OPTIONS...`; the exit code: 0 done, 1 a rank failed, 2 wrong use, 130 interrupted."""
    try:
        _run(list(arguments))
    except WorkloadError as error:
        # Under torchrun each rank comes here, with the same to say about the options.
        if os.environ.get("RANK", "0") == "0" or not isinstance(error, WrongUse):
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
    if arguments == ["faults"]:
        print(faults.markdown({name: rank.module_of(name) for name in known}))
        return
    name, *rest = arguments
    if name == "picture" and len(rest) == 1:
        print(picture.draw(Path(rest[0])))
        return
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
    rows += ["", "  faults       Print which faults can happen in which workload on which device."]
    rows += ["  picture DIR  Draw the first recorded step of a run as text."]
    return "\n".join([f"usage: python -m {__package__} NAME --ranks N --out FOLDER ...", "", *rows])


def _start(name: str, arguments: list[str], command: str) -> None:
    given, _ = options.parser(name, "").parse_known_args(arguments)
    port = given.port or _free_port()
    context = _context(name)
    ranks: list[_Rank] = []
    with _terminable():
        try:
            for number in range(given.ranks):
                environment = _environment(number, given.ranks, port)
                ranks.append(_Rank.start(context, number, environment, name, arguments, command))
            _watch(ranks)
        finally:
            for started in ranks:
                started.end()


def _environment(number: int, ranks: int, port: int) -> dict[str, str]:
    """What torchrun would set, for ranks that are all on this host."""
    return {
        "RANK": str(number),
        "LOCAL_RANK": str(number),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


@dataclass(frozen=True)
class _Rank:
    """A rank's process, and the pipe on which it says why it failed."""

    number: int
    process: Any  # a Process of the context's kind
    words: connection.Connection

    @classmethod
    def start(cls, context: Any, number: int, *work: Any) -> _Rank:
        words, theirs = context.Pipe(duplex=False)
        process = context.Process(target=rank.started, args=(theirs, *work), name=f"rank{number}")
        process.start()
        theirs.close()
        return cls(number, process, words)

    def failure(self) -> tuple[bool, WorkloadError] | None:
        """Whether this rank was killed, and what its end comes to; None while it runs or is well. To be asked once."""
        code = self.process.exitcode
        if code is None or code == 0:
            return None
        if code < 0:
            return True, WorkloadError(f"rank {self.number} was killed by {_signal(-code)}; {OTHERS_ENDED}")
        with contextlib.suppress(EOFError, OSError):
            if self.words.poll():
                return False, _error(*self.words.recv())
        return False, WorkloadError(f"rank {self.number} ended with exit code {code}; {OTHERS_ENDED}")

    def end(self) -> None:
        """Leave no process."""
        self.process.kill()
        self.process.join()


OTHERS_ENDED = "the other ranks were ended"


def _signal(number: int) -> str:
    return signal.Signals(number).name if number in {known.value for known in signal.Signals} else f"signal {number}"


def _error(code: int, message: str) -> WorkloadError:
    return WrongUse(message) if code == WrongUse.exit_code else WorkloadError(message)


def _watch(ranks: list[_Rank]) -> None:
    """Return when every rank is done; raise what the first cause says when one has failed."""
    running = {started.process.sentinel: started for started in ranks}
    while running:
        for sentinel in connection.wait(list(running)):
            started = running.pop(sentinel)
            started.process.join()
            if started.process.exitcode != 0:
                time.sleep(GRACE_S)
                raise _first_cause(ranks, started)


def _first_cause(ranks: list[_Rank], seen: _Rank) -> WorkloadError:
    """A rank that was killed comes before one that was seen to fail, which may be for the other's end."""
    ordered = [seen, *(started for started in ranks if started is not seen)]
    failures = [failure for started in ordered if (failure := started.failure())]
    return next((error for killed, error in failures if killed), failures[0][1])


def _context(name: str) -> Any:
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    for variable, value in QUIET.items():
        os.environ.setdefault(variable, value)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*PRELOADED, f"{__package__}.{name}"])
    return context


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Take SIGTERM for an interrupt, so that ranks are ended then too."""
    try:
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
