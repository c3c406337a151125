"""What tracekit and its peers do with the traces of a job of several ranks: facts, each a row of docs/peers.md.

HolisticTraceAnalysis (HTA) is judged by the source of its version 0.5.0: what backs a "yes" or "part" is in `hta`, as
MODULE:NAME. msprof-analyze is judged by the source of 26.2.0, TraceLens and Perfetto by their public documentation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Cell = Literal["yes", "part", "no", "?"]
COLUMNS = ("tracekit", "HTA", "TraceLens", "msprof-analyze", "Perfetto")
ANALYSIS, COMMON = "hta.trace_analysis:TraceAnalysis", "hta.common"


@dataclass(frozen=True)
class Feature:
    """One row: who has it (in the order of `COLUMNS`), where they differ, and what of HTA backs its cell."""

    question: str
    cells: tuple[Cell, Cell, Cell, Cell, Cell]
    remark: str = ""
    hta: str = ""


FEATURES = (
    Feature(
        "reads Kineto `.json` and `.json.gz`",
        ("yes", "yes", "yes", "part", "yes"),
        "msprof-analyze: one uncompressed file, to compare a GPU with an NPU",
        hta=f"{COMMON}.trace_file:read_trace",
    ),
    Feature("reads `.zst`", ("yes", "no", "no", "no", "yes"), "Perfetto: from v58 on"),
    Feature("reads cut-off and broken files", ("yes", "no", "no", "no", "?"), "tracekit notes what lacks"),
    Feature(
        "reads other profilers' formats",
        ("no", "no", "yes", "yes", "yes"),
        "TraceLens: JAX, rocprofv3; msprof-analyze: Ascend, MindSpore; Perfetto: many",
    ),
    Feature(
        "NPU profiles",
        ("part", "no", "no", "yes", "part"),
        "better: msprof-analyze, made for Ascend's own files; tracekit and Perfetto take NPUs' JSON traces",
    ),
    Feature(
        "matches a collective's members by its number",
        ("yes", "no", "part", "part", "no"),
        "TraceLens: by order in the group; msprof-analyze: sends and receives by rank pair and order",
    ),
    Feature(
        "one clock for all ranks, with error bars",
        ("yes", "no", "no", "?", "part"),
        "Perfetto: offsets given by hand; HTA subtracts the earliest time of all files",
    ),
    Feature(
        "waits of each rank for others",
        ("yes", "no", "yes", "yes", "no"),
        "TraceLens: on the files' clocks; msprof-analyze: as the NPU records them",
    ),
    Feature(
        "names stragglers",
        ("yes", "yes", "yes", "yes", "no"),
        "HTA and TraceLens: by who comes last; msprof-analyze: by a test for outliers",
        hta=f"{ANALYSIS}.get_potential_stragglers",
    ),
    Feature("blame passed on from rank to rank", ("yes", "no", "no", "no", "no")),
    Feature(
        "time by compute, communication, idle",
        ("yes", "yes", "yes", "yes", "no"),
        "tracekit: per step; HTA: of the whole file",
        hta=f"{ANALYSIS}.get_temporal_breakdown",
    ),
    Feature(
        "overlap per process group",
        ("yes", "part", "part", "yes", "no"),
        "HTA and TraceLens: of all communication together",
        hta=f"{ANALYSIS}.get_comm_comp_overlap",
    ),
    Feature("bandwidth of collectives", ("yes", "no", "yes", "yes", "no")),
    Feature(
        "pipeline bubble beside theory",
        ("yes", "no", "no", "part", "no"),
        "msprof-analyze: measured bubble and a chart of stages",
    ),
    Feature(
        "idle time by cause",
        ("yes", "yes", "yes", "yes", "no"),
        "TraceLens tells more causes of one rank's gaps",
        hta=f"{ANALYSIS}.get_idle_time_breakdown",
    ),
    Feature(
        "causes with cost and advice",
        ("yes", "no", "part", "yes", "no"),
        "TraceLens: by an agent with a language model; msprof-analyze's advisor has more rules, for Ascend",
    ),
    Feature("what-if by replay of the job", ("yes", "no", "no", "no", "no")),
    Feature("critical path across ranks", ("yes", "no", "no", "no", "no")),
    Feature(
        "critical path within a rank, with stream events",
        ("part", "yes", "no", "no", "no"),
        "better: HTA, down to operators (fails with pandas 3, but on what `to_hta` gives); tracekit: lanes and kernels",
        hta=f"{ANALYSIS}.critical_path_analysis",
    ),
    Feature(
        "comparison of two runs",
        ("yes", "yes", "yes", "yes", "no"),
        "better at code changes: TraceLens, which compares operator trees",
        hta="hta.trace_diff:TraceDiff.compare_traces",
    ),
    Feature("gate for CI that allows for noise", ("yes", "no", "no", "no", "no")),
    Feature(
        "merged timeline of ranks",
        ("yes", "part", "yes", "part", "yes"),
        "HTA: a plot of GPU kernels; msprof-analyze: of pipeline stages",
        hta="hta.analyzers.timeline:plot_timeline_gpu_kernels_from_trace",
    ),
    Feature(
        "memory",
        ("yes", "part", "?", "part", "part"),
        "HTA: plots PyTorch's memory timeline file; Perfetto: shows the events",
        hta="hta.memory_analysis:MemoryAnalysis.plot_memory_timeline",
    ),
    Feature(
        "roofline and performance models of kernels",
        ("no", "no", "yes", "part", "no"),
        "better: TraceLens; msprof-analyze: FLOPs utilisation of operators",
    ),
    Feature("replay of single operators", ("no", "no", "yes", "no", "no"), "better: TraceLens"),
    Feature(
        "call stacks and operator trees",
        ("no", "yes", "yes", "yes", "part"),
        "better: HTA and TraceLens; Perfetto: slices within slices",
        hta=f"{COMMON}.call_stack:CallStackGraph.get_path_to_root",
    ),
    Feature(
        "CUPTI counters by operator",
        ("no", "yes", "?", "no", "no"),
        "better: HTA",
        hta=f"{ANALYSIS}.get_cupti_counter_data_with_operators",
    ),
    Feature(
        "launch queue length",
        ("part", "yes", "?", "no", "no"),
        "better: HTA, over time and by stream; tracekit: the median",
        hta=f"{ANALYSIS}.get_queue_length_time_series",
    ),
    Feature(
        "frequent kernel sequences",
        ("no", "yes", "?", "part", "no"),
        "better: HTA; tracekit's app shows HTA's where it is installed",
        hta=f"{ANALYSIS}.get_frequent_cuda_kernel_sequences",
    ),
    Feature("layout planner", ("yes", "no", "no", "no", "no")),
    Feature("simulated traces with known truth", ("yes", "no", "no", "no", "no")),
    Feature(
        "tables in Python",
        ("yes", "yes", "yes", "part", "yes"),
        "HTA's API for notebooks has more ways into single events; msprof-analyze writes files and SQLite",
        hta=ANALYSIS,
    ),
    Feature("any question, in SQL", ("no", "no", "no", "part", "yes"), "better: Perfetto"),
    Feature("viewer of all events", ("no", "no", "no", "no", "yes"), "better: Perfetto; tracekit and TraceLens export"),
    Feature(
        "dashboard",
        ("yes", "part", "part", "part", "part"),
        "HTA: plots in notebooks; TraceLens: workbooks, examples of dashboards; msprof-analyze: HTML and workbooks",
        hta=f"{ANALYSIS}.get_gpu_kernel_breakdown",
    ),
)

INTRODUCTION = """\
What one may ask of the traces of a job of several ranks, and who answers. "part": something of it, see the last column;
"no": nothing like it in the source or the documentation; "?": not to be known from them.

HTA: source of 0.5.0. msprof-analyze: source of 26.2.0, on Ascend's own profiles unless told otherwise; of Kineto it
reads single files, for their breakdown and to compare. TraceLens: [AMD's](https://github.com/AMD-AGI/TraceLens), by its
[documentation](https://rocm.docs.amd.com/projects/tracelens/en/latest/); it is installed from GitHub, `TraceLens` on
PyPI is another project. Perfetto: by its [documentation](https://perfetto.dev/docs/), without queries that one would
have to write."""


def section() -> str:
    """The table of features as Markdown, with what its cells rest on."""
    head = ["", *COLUMNS, "where they differ"]
    lines = ["| " + " | ".join(head) + " |", "|---|" + ":-:|" * len(COLUMNS) + "---|"]
    lines += ["| " + " | ".join([one.question, *one.cells, one.remark]) + " |" for one in FEATURES]
    return "\n".join(["## What they do", "", INTRODUCTION, "", *lines])
