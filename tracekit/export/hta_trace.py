"""HTA's own objects, filled from the tables; the only module that needs HTA to be installed."""

from __future__ import annotations

import json
import re
import warnings
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


class Frame(pd.DataFrame):
    """A frame, and what is made of it, with two ways of older pandas that HTA 0.5's call stacks and critical path need.

    `drop` bears an axis beside columns' names, and a column of which `replace` leaves only numbers is one of numbers.
    """

    @property
    def _constructor(self) -> type[Frame]:
        return Frame

    def drop(self, labels: Any = None, *, axis: Any = 0, columns: Any = None, **more: Any) -> Any:
        """As pandas does it."""
        axes = {"axis": axis} if columns is None else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # it is HTA that drops in place
            return super().drop(labels, columns=columns, **axes, **more)

    def replace(self, *args: Any, **more: Any) -> Any:
        """As pandas does it."""
        replaced = super().replace(*args, **more)
        return None if replaced is None else replaced.infer_objects()


_STEP = re.compile(r"ProfilerStep\s*#\s*(\d+)")


def filled(run: Run, files: dict[int, str], window: int, include_last_profiler_step: bool) -> TraceAnalysis:
    """HTA's analysis of the ranks whose files are given."""
    analysis = TraceAnalysis.__new__(TraceAnalysis)  # its __init__ makes a Trace of its own
    analysis.t = FilledTrace(run, files, window)
    analysis.t.load_traces(include_last_profiler_step)
    return analysis


class FilledTrace(Trace):  # type: ignore[misc]
    """HTA's trace, which takes from a run what it would else read from files."""

    def __init__(self, run: Run, files: dict[int, str], window: int) -> None:
        super().__init__(trace_files={}, trace_dir="")
        self.trace_files = files
        self._run, self._window = run, window

    def parse_traces(self, max_ranks: int = -1, **_: Any) -> None:
        """Fills the ranks' frames; HTA's TraceDiff does so again."""
        ranks = sorted(self.trace_files)
        for rank in ranks if max_ranks < 0 else ranks[:max_ranks]:
            self.traces[rank] = _frame(rows_of(self._run, rank, self._window), self.symbol_table)
            self.meta_data[rank] = head_of(self._run, rank, self._window)

    def get_raw_trace_for_one_rank(self, rank: int = 0) -> dict[str, Any]:
        """What HTA draws its findings into: the rank's whole trace; the frame's index counts its events."""
        calls = with_waits(self._run).rank(rank, self._window).calls
        events = [json.loads(event) for event in events_of(rows_of(self._run, rank, self._window), calls)]
        return {**head_of(self._run, rank, self._window), "traceEvents": events}


def _frame(rows: pd.DataFrame, symbols: TraceSymbolTable) -> Frame:
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
    frame = transform_correlation_to_index(frame, symbols)
    return _small(Frame(frame.assign(iteration=_iterations(frame, rows))))


def _small(frame: Frame) -> Frame:
    """Whole numbers as narrow as HTA keeps them, but for times, which are counted together."""
    for name in frame.select_dtypes("integer").columns.difference(["ts", "dur", "end"]):
        frame[name] = pd.to_numeric(frame[name], downcast="integer")
    return frame


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
