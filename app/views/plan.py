"""Which layout for this model on these GPUs: memory per GPU and the step, by arithmetic."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from tracekit import charts
from tracekit.analysis import Analysis
from tracekit.errors import TracekitError
from tracekit.plan import hardware, transformer
from tracekit.plan.explain import reasons
from tracekit.plan.memory import PRECISIONS
from tracekit.plan.search import Plans, Request, described, plans
from tracekit.report.lessons import STATE_PARTS
from tracekit.report.plan_json import prediction

from .. import parts

TITLE, ORDER, ALONE = "Plan", 13, True
GPUS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
BATCHES = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
BEST = 12


def show(_: Analysis | None) -> None:
    """The page."""
    columns = st.columns(3)
    model = columns[0].selectbox(
        "Model", sorted(transformer.PRESETS), index=_at("llama-7b"), key="model", bind="query-params"
    )
    cluster = columns[1].selectbox("GPU", sorted(hardware.NODES), index=_gpu(), key="gpu", bind="query-params")
    precision = columns[2].selectbox("Precision", list(PRECISIONS), key="precision", bind="query-params")
    gpus = st.select_slider("GPUs", GPUS, value=8, key="gpus", bind="query-params")
    batch = st.select_slider("Samples per step", BATCHES, value=256, key="batch", bind="query-params")
    try:
        found = _plans(model, cluster, precision, gpus, batch)
    except TracekitError as why:
        parts.absent(str(why), "No layout")
        return
    for reason in reasons(found):
        parts.text(reason)
    best = found.best[:BEST]
    rows = pd.DataFrame([{"layout": nth, **vars(one.memory)} for nth, one in enumerate(best, 1)])
    parts.draw("Memory of the fullest GPU", f"The best layouts, the quickest first; {len(found.best)} fit, "
               f"{len(found.too_big)} do not.", lambda: _bars(rows, found), "plan-memory")  # fmt: skip
    parts.table(pd.DataFrame([_row(nth, one) for nth, one in enumerate(best, 1)]), "plan")


@st.cache_data(max_entries=64, show_spinner="planning")
def _plans(model: str, cluster: str, precision: str, gpus: int, batch: int) -> Plans:
    return plans(Request(transformer.preset(model), hardware.preset(cluster, gpus), batch, PRECISIONS[precision]))


def _bars(rows: pd.DataFrame, found: Plans) -> charts.Figure:
    shown = charts.parts(rows, STATE_PARTS, "bytes", by="layout")
    factor, _ = charts.scale(float(rows.drop(columns="layout").sum(axis=1).max()), "bytes")
    return shown.add_hline(
        y=found.request.room / factor, line={"dash": "dash", "color": charts.INK}, annotation_text="usable memory"
    )


def _row(nth: int, one: object) -> dict[str, object]:
    told = prediction(one)
    columns = ("seconds", "tokens_per_second", "mfu", "bubble_frac")
    return {"layout": nth, "described": described(one.layout), **{name: told[name] for name in columns},
            "memory_bytes": told["memory_bytes"]["total"]}  # fmt: skip


def _at(name: str) -> int:
    return sorted(transformer.PRESETS).index(name)


def _gpu() -> int:
    names = sorted(hardware.NODES)
    return names.index("h100-80gb") if "h100-80gb" in names else 0
