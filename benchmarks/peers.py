"""What do tracekit and its peers do, and how fast are those that can be installed here, on the same files?

    python -m benchmarks.peers [TRACE ...] [--repeat 3] [--hta PYTHON] [--msprof PYTHON] [--features] [--write]

The features are kept in `benchmarks/features.py`. Timed are load, breakdown and overlap, after imports, of each tool in
turn, each time in a process of its own; told are medians as ratios, tracekit's to the peer's. Default traces: of the
real ones those nearest to three sizes, else one made up; and a simulated job of eight ranks. `--hta` is another Python
for HTA, one with pandas 2, since it fails on some files with pandas 3. `--msprof` is one with msprof-analyze 26.2.0,
which reads one uncompressed file at a time: it is given the text, the others the compressed files.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from benchmarks import features, made_trace, reading
from benchmarks.reading import Answer
from benchmarks.sections import write_section

DOCUMENT = Path(__file__).parent.parent / "docs" / "peers.md"
NEAR_BYTES = (80_000, 1_000_000, 10_000_000)  # compressed
RANKS, EVENTS, STEPS = 8, 20_000, 4

Medians = dict[str, Answer]


def to_hta(trace: str) -> Answer:
    """Loads the trace from tracekit's cache, then makes HTA's object of it."""
    from tracekit import load
    from tracekit.export.hta import to_hta as handed_over

    handed_over(load(trace))  # imports what is imported late
    started = time.perf_counter()
    run = load(trace)
    loaded = time.perf_counter()
    handed_over(run)
    done = time.perf_counter()
    return {"seconds": done - started, "hand_over_seconds": done - loaded}


def msprof(trace: str) -> Answer:
    """Reads each rank's uncompressed file with msprof-analyze: compute, exposed communication, idle time."""
    from msprof_analyze.compare_tools.compare_backend.disaggregate.overall_perf_interface import OverallPerfInterface

    started = time.perf_counter()
    for file in sorted(Path(trace).iterdir()):
        if not OverallPerfInterface(str(file)).run():
            sys.exit(f"msprof-analyze told nothing of {file.name}")
    return {"seconds": time.perf_counter() - started}


def with_workers(contender: Callable[[str], Answer]) -> Callable[[str], Answer]:
    """The contender, with the peak memory of its largest worker process told, too."""

    def answer(trace: str) -> Answer:
        told = contender(trace)
        if "loky" in sys.modules:
            sys.modules["loky"].get_reusable_executor().shutdown(wait=True)
        multiprocessing.active_children()  # waits for those that have ended, so that they count
        return {**told, "worker_bytes": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024}

    return answer


CONTENDERS = {"tracekit": reading.tracekit, "to_hta": to_hta, "hta": reading.hta, "msprof": msprof}
OTHERS = ("hta", "msprof")


def measured(trace: Path, text: Path, repeat: int, pythons: dict[str, str]) -> Medians:
    """Each contender's medians of some turns; a peer that fails on the trace, or has no Python, is left out."""
    answers: dict[str, list[Answer]] = {}
    racing = [one for one in CONTENDERS if one not in OTHERS or pythons[one]]
    for _ in range(repeat):
        with tempfile.TemporaryDirectory() as cache:
            for contender in tuple(racing):
                given, python = (text if contender == "msprof" else trace), pythons.get(contender, sys.executable)
                try:
                    answer = reading.in_own_process(contender, given, cache, module="benchmarks.peers", python=python)
                except reading.Failed as why:
                    print(why, file=sys.stderr)
                    racing.remove(contender)
                    answers.pop(contender, None)
                else:
                    answers.setdefault(contender, []).append(answer)
    return {name: _median(turns) for name, turns in answers.items()}


def _median(turns: list[Answer]) -> Answer:
    return {key: median(turn[key] for turn in turns) for key in turns[0]}


def default_traces(folder: Path) -> Iterator[Path]:
    """Real traces of three sizes, else one made up; then a simulated job, written into the folder."""
    from benchmarks.scale import simulated

    root = Path(os.environ.get("TRACEKIT_REAL_TRACES", "../shared/traces"))
    real = sorted(root.rglob("*.json.gz")) if root.is_dir() else []
    for near in NEAR_BYTES if real else ():
        yield min(real, key=lambda file: abs(math.log(file.stat().st_size / near)))
    if not real:
        yield made_trace.write(folder / "made.json.gz")
    job = folder / f"simulated, {RANKS} ranks"
    simulated(str(job), RANKS, EVENTS, STEPS)
    for other in [path for path in job.iterdir() if not path.name.startswith("rank")]:
        other.unlink()  # HTA takes all files of a folder for ranks
    yield job


def written_out(trace: Path, folder: Path) -> int:
    """Writes the trace's uncompressed files into the folder; their bytes in all."""
    from tracekit.read.sources import opened, trace_files

    folder.mkdir()
    for number, source in enumerate(trace_files([str(trace)])):
        with opened(source) as stream, (folder / f"rank{number}.json").open("wb") as file:
            while block := stream.read(1 << 20):
                file.write(block)
    return sum(file.stat().st_size for file in folder.iterdir())


def row(name: str, size: int, found: Medians) -> list[str]:
    """A trace's cells: what it is, then times and memory beside each peer's; "-" where a peer told nothing."""
    ours = found["tracekit"]
    cells = [name, f"{size / 1e6:.1f}", f"{ours['events']:,.0f}", *_beside(ours, found.get("hta"))]
    if "hta" in found and "to_hta" in found:
        theirs = found["hta"]["load_seconds"]
        cells.append(f"{(ours['load_seconds'] + found['to_hta']['hand_over_seconds']) / theirs:.2f}")
        cells.append(f"{found['to_hta']['seconds'] / theirs:.2f}")
    else:
        cells += ["-", "-"]
    return [*cells, *_beside(ours, found.get("msprof"))]


def _beside(ours: Answer, peer: Answer | None) -> list[str]:
    if peer is None:
        return ["-", "-"]
    return [f"{ours['seconds'] / peer['seconds']:.2f}", f"{_memory(ours) / _memory(peer):.2f}"]


def _memory(answer: Answer) -> float:
    return answer["peak_bytes"] + answer["worker_bytes"]


HEAD = (
    "trace", "JSON MB", "events", "time / HTA's", "memory / HTA's", "load and `to_hta` / HTA's load",
    "from the cache", "time / msprof-analyze's", "memory / msprof-analyze's",
)  # fmt: skip


def section(rows: list[list[str]], repeat: int, hta: str) -> str:
    """Speed and memory as Markdown."""
    lines = ["| " + " | ".join(HEAD) + " |", "|---|" + "--:|" * (len(HEAD) - 1)]
    lines += ["| " + " | ".join(one) + " |" for one in rows]
    about = f"""\
tracekit's figure divided by the peer's, so below 1 tracekit needs less: medians of {repeat}, each tool in turn and in
a process of its own. The machine was loaded with other work, which touches all tools, but not evenly: differences of a
tenth say nothing. Time: load, breakdown and overlap, after imports; tracekit also writes its cache. Memory: peak of the
process, imports included, and of its largest worker. HTA ran with {hta}; with pandas 3 it fails on files with more
events than correlations have numbers. `to_hta` hands a run to HTA without HTA's parsing: after tracekit's own load, and
of a run read before (from the cache), beside HTA's load alone. msprof-analyze gets the uncompressed text and tells the
breakdown of each file. "-": the peer fails on the trace (msprof-analyze where all compute is on stream 0), or was not
there. Not timed: TraceLens, which the package index does not have (what has its name there is another project), and
Perfetto, which does not measure these."""
    return "\n".join(["## Speed and memory", "", about, "", *lines])


def timed(traces: list[Path], repeat: int, pythons: dict[str, str]) -> str:
    """The section of speed and memory of the traces, or of the default ones."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for number, trace in enumerate(traces or default_traces(Path(folder))):
            text = Path(folder) / f"text{number}"
            size = written_out(trace, text)
            name = trace.name if trace.is_dir() else f"{trace.parent.name}/{trace.name.partition('.')[0]}"
            rows.append(row(name, size, measured(trace, text, repeat, pythons)))
    return section(rows, repeat, _pandas(pythons["hta"]))


def _pandas(python: str) -> str:
    asked = [python, "-c", "import pandas; print('pandas', pandas.__version__)"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    """Prints the sections, or writes them; as a contender's own process prints its answer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", type=Path, metavar="TRACE")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--hta", default=sys.executable, metavar="PYTHON", help="a Python that has HTA")
    parser.add_argument("--msprof", default="", metavar="PYTHON", help="a Python that has msprof-analyze")
    parser.add_argument("--features", action="store_true", help="only the table of features, nothing timed")
    parser.add_argument("--write", action="store_true", help="put the sections into docs/peers.md")
    parser.add_argument("--contender", choices=CONTENDERS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.contender:
        reading.tell(with_workers(CONTENDERS[asked.contender]), str(asked.traces[0]))
        return
    sections = {"features": features.section()}
    if not asked.features:
        sections["speed"] = timed(asked.traces, asked.repeat, {"hta": asked.hta, "msprof": asked.msprof})
    for name, text in sections.items():
        print(text, end="\n\n")
        if asked.write:
            write_section(DOCUMENT, name, text)


if __name__ == "__main__":
    main()
