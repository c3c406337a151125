"""What HolisticTraceAnalysis says of a rank: its launches, its queues and the kernels that follow one another."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any
from weakref import WeakKeyDictionary

import pandas as pd
import streamlit as st

from tracekit.analysis import Analysis
from tracekit.errors import TracekitError
from tracekit.export.hta import to_hta

from .. import parts

TITLE, ORDER, NEEDS = "HTA", 15, "hta"
SOURCE = (
    "Computed by [HolisticTraceAnalysis](https://github.com/facebookresearch/HolisticTraceAnalysis) (HTA), by its "
    "definitions and in its whole microseconds, on what tracekit read. Like HTA, it leaves out the last step."
)
_last: WeakKeyDictionary[Analysis, tuple[int, Any]] = WeakKeyDictionary()
LENGTHS = {"cpu_duration": "launching call", "gpu_duration": "kernel", "launch_delay": "launch delay"}


def show(analysis: Analysis) -> None:
    """The page."""
    st.caption(SOURCE)
    rank = int(st.selectbox("Rank", sorted(set(analysis.run.ranks["rank"].tolist())), key="hta_rank"))
    st.markdown("##### Launches")
    st.caption("How long do calls that launch work take, and how long after them does it start, in µs?")
    launches = _asked(lambda: _launches(analysis, rank))
    if launches is not None:
        parts.table(
            launches[list(LENGTHS)].describe().rename(columns=LENGTHS).T.reset_index(names="µs"), "hta_launches"
        )
        parts.folded(f"each of {len(launches):,} launches", "hta_each_launch", launches)
    st.markdown("##### Queues")
    st.caption("How many pieces of work wait on each stream when that changes?")
    queues = _asked(lambda: _queues(analysis, rank))
    if queues is not None:
        parts.table(queues, "hta_queues")
    st.markdown("##### Frequent sequences")
    st.caption("Which kernels follow one another under an operator, and how often?")
    operator = st.text_input("Operators whose names hold", "aten::", key="hta_operator")
    if st.button("Find sequences", key="hta_find"):
        sequences = _asked(lambda: _sequences(analysis, rank, operator))
        if sequences is not None:
            parts.table(sequences, "hta_sequences")


def _asked(ask: Callable[[], pd.DataFrame | None]) -> pd.DataFrame | None:
    """HTA's answer; where it has none or fails, which it does in many ways, a sentence."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows = ask()
    except TracekitError as why:
        parts.failed(why)
        return None
    except Exception as why:
        parts.absent(f"HTA fails with {type(why).__name__}: {why}")
        return None
    if rows is None or rows.empty:
        parts.absent("HTA finds nothing of it on this rank")
        return None
    return rows


def _filled(analysis: Analysis, rank: int) -> Any:
    """HTA's analysis of the rank, made once while the rank is looked at."""
    kept = _last.get(analysis)
    if kept is None or kept[0] != rank:
        kept = _last[analysis] = rank, to_hta(analysis.run, ranks=[rank])
    return kept[1]


def _launches(analysis: Analysis, rank: int) -> pd.DataFrame:
    return _filled(analysis, rank).get_cuda_kernel_launch_stats(ranks=[rank], visualize=False)[rank]


def _queues(analysis: Analysis, rank: int) -> pd.DataFrame | None:
    rows = _filled(analysis, rank).get_queue_length_summary(ranks=[rank])
    return None if rows is None else rows["queue_length"].reset_index().drop(columns="rank")


def _sequences(analysis: Analysis, rank: int, operator: str) -> pd.DataFrame:
    hta = to_hta(analysis.run, ranks=[rank])
    frame = hta.t.traces[rank]
    frame["dur"] = frame["dur"].clip(lower=0)  # HTA's call stacks do not bear the -1 that its rounding gives
    with TemporaryDirectory() as folder:
        return hta.get_frequent_cuda_kernel_sequences(operator, folder, rank=rank, visualize=False)
