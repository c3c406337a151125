"""HTA's own objects, filled from the tables; the only module that needs HTA to be installed."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from hta.common.trace import Trace, transform_correlation_to_index
from hta.common.trace_symbol_table import TraceSymbolTable
from hta.configs.parser_config import ParserConfig
from hta.trace_analysis import TraceAnalysis

from tracekit.export.hta_rows import PROFILER, events_of, head_of, rows_of
from tracekit.model import Run
from tracekit.waiting import with_waits

_STEP = re.compile(r"ProfilerStep\s*#\s*(\d+)")


def filled(run: Run, files: dict[int, str], window: int, include_last_profiler_step: bool) -> TraceAnalysis:
    """HTA's analysis of the ranks whose files are given."""
    trace = Trace(trace_files={}, trace_dir="")
    trace.trace_files = files
    for rank in files:
        trace.traces[rank] = _frame(rows_of(run, rank, window), trace.symbol_table)
        trace.meta_data[rank] = head_of(run, rank, window)
    trace.align_and_filter_trace(include_last_profiler_step)
    trace.traces = {rank: frame.set_index("index", drop=False) for rank, frame in trace.traces.items()}
    for frame in trace.traces.values():
        frame.index.name = None
    trace.is_parsed = True
    trace.get_raw_trace_for_one_rank = lambda rank=0: _raw(run, rank, window)  # its events are numbered as these are
    analysis = TraceAnalysis.__new__(TraceAnalysis)  # its __init__ reads files
    analysis.t = trace
    return analysis


def _raw(run: Run, rank: int, window: int) -> dict[str, Any]:
    """What HTA draws its findings into: the rank's whole trace, as it would stand in a file."""
    calls = with_waits(run).rank(rank, window).calls
    events = [json.loads(event) for event in events_of(rows_of(run, rank, window), calls)]
    return {**head_of(run, rank, window), "traceEvents": events}


def _frame(rows: pd.DataFrame, symbols: TraceSymbolTable) -> pd.DataFrame:
    """The rows with the columns that HTA's parser makes, what it takes from events' arguments included."""
    rows = rows[rows["cat"] != PROFILER]
    ts = -(-rows["start_ns"] // 1000)
    end = rows["end_ns"] // 1000
    length_ns = (rows["end_ns"] - rows["start_ns"]).clip(lower=1)
    frame = pd.DataFrame(
        {
            "index": rows.index,
            "cat": _encoded(rows["cat"], symbols),
            "name": _encoded(rows["name"], symbols),
            **{name: rows[name] for name in ("pid", "tid", "stream", "correlation", "bytes")},
            **{"ts": ts, "dur": end - ts, "end": end},
            "memory_bw_gbps": (rows["bytes"] / length_ns).where(rows["bytes"] >= 0, 0.0),
        },
        index=rows.index,
    )
    for arg in ParserConfig.get_default_cfg().get_args():
        if arg.name not in frame:
            frame[arg.name] = arg.default_value
    frame = pd.DataFrame(transform_correlation_to_index(frame, symbols))
    return frame.assign(iteration=_iterations(frame, rows))


def _encoded(column: pd.Series, symbols: TraceSymbolTable) -> npt.NDArray[np.int64]:
    """HTA's numbers of the column's texts, which it learns where they are new to it."""
    column = column.cat.remove_unused_categories()
    symbols.add_symbols(column.cat.categories.tolist())
    known = symbols.get_sym_id_map()
    numbers = np.array([known[text] for text in column.cat.categories], dtype="int64")
    return numbers[column.cat.codes.to_numpy()]


def _iterations(frame: pd.DataFrame, rows: pd.DataFrame) -> npt.NDArray[np.int64]:
    """The step in which host events begin and that launched work; -1 for none."""
    ts, end = frame["ts"].to_numpy(), frame["end"].to_numpy()
    found = {name: _STEP.match(name) for name in rows["name"].cat.categories}
    steps = rows["name"].isin([name for name, step in found.items() if step]) & (rows["cat"] != "gpu_user_annotation")
    iterations = np.full(len(frame), -1)
    for place in np.flatnonzero(steps).tolist():
        step = found[rows["name"].iat[place]]
        iterations[(ts >= ts[place]) & (ts < end[place])] = int(step[1]) if step else -1
    launch = frame.index.get_indexer(pd.Index(frame["index_correlation"]))
    of_launch = np.where(frame["index_correlation"] > 0, iterations[launch], -1)
    return np.where(frame["stream"] >= 0, of_launch, iterations)
