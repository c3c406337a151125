"""Does tracekit survive traces that no profiler would write, and does what it says of them hold together?

    python -m benchmarks.fuzz [--minutes 30] [--seed N] [--cases N] [--only reader|matching|replay|report|gate]

Each case is made from a seed of its own: a small run (simulated, drawn, or from `tests/data`) with a few changes by
structure (`benchmarks.fuzz_changes`), and a saved summary with a few of its own. Then it is read, measured, diagnosed,
replayed, reported, exported and judged against the healthy run (`benchmarks.fuzz_checks`). A failure is whatever is
raised but a TracekitError, a warning out of tracekit, an invariant that does not hold, more than 20 s of CPU, more than
500 MB for one case, or more than 150 MB more held after all cases than after the first 50. Its seed is printed and its
files are kept; `--seed N --cases 1` makes the same case again, as long as the changes and the bases stay as they are.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from types import FrameType

import msgspec
from isal import igzip

from benchmarks.fuzz_changes import changed
from benchmarks.fuzz_checks import PARTS, Case, examine
from benchmarks.fuzz_values import File, changed_values
from tests import lanes
from tracekit import analysis
from tracekit.analysis import Analysis
from tracekit.errors import TracekitError
from tracekit.gate.summary import Summary, summary_of
from tracekit.read.load import load
from tracekit.simulate import simulate
from tracekit.simulate.job import job_of

SECONDS_AT_MOST, STUCK_SECONDS = 20, 180
"""CPU seconds of a case, and by the clock, where it waits for something that does not come."""
HELD_BYTES_MORE, CASE_BYTES_MORE, SETTLED_AFTER = 150 * 10**6, 500 * 10**6, 50
ADDRESSES_BYTES = 12 << 30

PACKAGE = Path(analysis.__file__).parent
SAVED = 4
"""Changed summaries of each case."""
DATA = Path(__file__).parent.parent / "tests" / "data"
SMALL = {"layers": 2, "hidden": 256, "heads": 4, "sequence": 128, "vocabulary": 1000}
JOBS: tuple[dict[str, object], ...] = (
    {"layout": "dp 2", "steps": 6},
    {"layout": "fsdp 2", "steps": 2, "trace": {"calls_told_by": "order"}},
    {"layout": "tp 2", "steps": 2, "trace": {"calls_told_by": "seq", "named_groups": False}},
    {"layout": {"axes": "pp 2", "microbatches": 2}, "steps": 3},
    {"layout": "dp 2 x pp 2", "steps": 2, "noise": {"compute": 0.05, "ends_us": 5}},
    {"layout": "dp 3", "steps": 4, "faults": ["slow_device:1:1.5"], "host": {"sync_each_step": False}},
    {"layout": {"axes": "pp 2", "microbatches": 4}, "steps": 2, "faults": ["slow_host:1:60"]},
)
DRAWING = """
    step      ..00000000001111112222....
    0/main    abcd.e.SS.DDD.GG.fg.......
    0/7       C.CCC.CC!CC....CC..CC.CC..  by=abcd-efg
    0/20      ..NNN..NN....N......NN....  group=dp bytes=4000
    0/21      ...NN...............N.N...  group=tp op=all_gather
    0/9       .MM..MM.........MMM.......  bytes=4000
    0/memory  1.2..3...4....5...........
    1/main    abcd.e.SS.PPP.OO.fg.......
    1/7       C.CCC.CC!CC....CC..CC.CC..  by=abcd-efg
    1/20      ....N...N....N......NN....  group=dp bytes=4000
"""
ON_CPU = """
    step    0000000000001111111111
    0/main  CCCCNNNN.CC.CCCC..NNN.
    1/main  CCCC..NN.CC.CCCCCCCNN.
"""
BASES = (
    *(f"job {nth}" for nth in range(len(JOBS))), "drawing", "cpu drawing", "ddp", "pipeline",
    *(f"cases/{name}" for name in ("T1", "T2", "T4", "T5", "T7", "T8", "T9")),
)  # fmt: skip
WEIGHTS = tuple(3 if base.startswith("job") else 1 for base in BASES)


class TooLong(BaseException):
    """A case that does not come to an end in time; no part of tracekit may catch it."""


@dataclass(frozen=True)
class Failure:
    """What went wrong with which seed, where its files are, and what tells it apart from other kinds."""

    seed: int
    kind: str
    told: str


@cache
def base_files(base: str) -> tuple[File, ...]:
    """The traces that a case is made of."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if base.startswith("job"):
            simulate(job_of({"model": SMALL, **JOBS[int(base.split()[1])]}), folder)
            (folder / "truth.json").unlink()
        elif base.endswith("drawing"):
            lanes.kineto(ON_CPU if base.startswith("cpu") else DRAWING, folder)
        else:
            folder = DATA / base
        paths = [path for path in sorted(folder.iterdir()) if path.name != "run.json"]
        return tuple(_file(path) for path in paths)


def _file(path: Path) -> File:
    text = path.read_bytes()
    head = json.loads(igzip.decompress(text) if path.suffix == ".gz" else text)
    return File(path.name, head, head.pop("traceEvents"))


@cache
def healthy_summary(base: str) -> Summary:
    """What a run that was not changed is summarised as; another's where it has no step."""
    with tempfile.TemporaryDirectory() as name:
        for file in base_files(base):
            file.write(Path(name))
        try:
            return summary_of(Analysis(load(name, cache=False)), commit="healthy")
        except TracekitError:
            return healthy_summary(BASES[0])


@cache
def steady_summary() -> Summary:
    """The summary of a run with so many steps that the gate can tell."""
    noise = {"compute": 0.01, "transfer": 0.01, "host": 0.01}
    with tempfile.TemporaryDirectory() as name:
        simulate(job_of({"model": SMALL, "layout": "dp 2", "steps": 10, "noise": noise}), name)
        return summary_of(Analysis(load(name, cache=False)), commit="steady")


def case_of(seed: int, folder: Path) -> Case:
    """The seed's case, its files written into an empty folder."""
    dice = Random(seed)
    [base] = dice.choices(BASES, WEIGHTS)
    for file in changed(base_files(base), dice):
        file.write(folder)
    healthy = healthy_summary(base)
    saved = [changed_values(msgspec.to_builtins(steady_summary()), dice) for _ in range(SAVED)]
    return Case(folder, healthy, steady_summary(), saved)


def failure_of(seed: int, parts: tuple[str, ...] = tuple(PARTS), keep: Path | None = None) -> Failure | None:
    """Examines the seed's case; what failed, if something did. `keep` is where the files of failures go."""
    with tempfile.TemporaryDirectory() as name:
        traces, scratch = Path(name, "traces"), Path(name, "scratch")
        traces.mkdir()
        scratch.mkdir()
        case = case_of(seed, traces)
        peak = _peak_bytes()
        try:
            with _limits(), _strict_warnings():
                examine(case, scratch, parts)
            more = _peak_bytes() - peak
            assert more < CASE_BYTES_MORE, f"one case took {more / 1e6:.0f} MB"
            return None
        except (Exception, TooLong) as why:
            if keep:
                shutil.rmtree(keep / str(seed), ignore_errors=True)
                shutil.copytree(name, keep / str(seed))
            return Failure(seed, _kind(why), "".join(traceback.format_exception(why)))


def _kind(why: BaseException) -> str:
    """The error and the last place in tracekit that it passed through."""
    frames = traceback.extract_tb(why.__traceback__)
    inside = [one for one in frames if one.filename.startswith(str(PACKAGE))] or list(frames)
    place = inside[-1]
    return f"{type(why).__name__} in {Path(place.filename).stem}.{place.name}:{place.lineno}: {str(why)[:120]}"


@contextlib.contextmanager
def _limits() -> Iterator[None]:
    """TooLong after so much time of the processor or, where it only waits, of the clock; at last the process ends."""

    def stop(number: int, _: FrameType | None) -> None:
        raise TooLong(f"{signal.Signals(number).name}: {SECONDS_AT_MOST} s of CPU, or {STUCK_SECONDS} s")

    before = {number: signal.signal(number, stop) for number in (signal.SIGPROF, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_PROF, SECONDS_AT_MOST)
    signal.setitimer(signal.ITIMER_REAL, STUCK_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _strict_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("error", module="tracekit")
        yield


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _held_bytes() -> int:
    """What the process holds now; its peak where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return _peak_bytes()


def run(first: int, minutes: float, cases: int, parts: tuple[str, ...], keep: Path) -> int:
    """Case after case from the first seed on, until time or cases are used up; how many failed."""
    begin, kinds, done, settled = time.monotonic(), Counter[str](), 0, 0
    while done < cases and time.monotonic() - begin < 60 * minutes:
        failure = failure_of(first + done, parts, keep)
        done += 1
        settled = _held_bytes() if done == SETTLED_AFTER else settled
        if done % SETTLED_AFTER == 0:
            print(f"{done:,} cases, {kinds.total()} failed, {_held_bytes() / 1e6:.0f} MB held", flush=True)
        if failure:
            kinds[failure.kind] += 1
            print(f"seed {failure.seed}: {failure.kind}\n  files: {keep / str(failure.seed)}", flush=True)
            if kinds[failure.kind] == 1:
                print(failure.told, flush=True)
    grown = _held_bytes() - settled if settled else 0
    print(f"{done:,} cases from seed {first} in {(time.monotonic() - begin) / 60:.1f} min, {kinds.total()} failed")
    print(f"memory held: {grown / 1e6:+.0f} MB since case {SETTLED_AFTER}" if settled else "too few cases for memory")
    for kind, count in kinds.most_common():
        print(f"  {count:4} {kind}")
    return kinds.total() + (grown > HELD_BYTES_MORE)


def main() -> int:
    """Fuzzes for a while; 1 if something failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=None, help="of the first case; later ones count on from it")
    parser.add_argument("--cases", type=int, default=10**9, help="so many at most")
    parser.add_argument("--only", choices=PARTS, help="one part besides reading")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir(), "tracekit-fuzz"), metavar="DIR")
    asked = parser.parse_args()
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    first = random.SystemRandom().randrange(10**9) if asked.seed is None else asked.seed
    print(f"from seed {first}", flush=True)
    parts = (asked.only,) if asked.only else tuple(PARTS)
    return 1 if run(first, asked.minutes, asked.cases, parts, asked.keep) else 0


if __name__ == "__main__":
    sys.exit(main())
