"""A small simulation to play with, and common misconceptions, each disproved by a picture."""

from __future__ import annotations

from dataclasses import replace
from tempfile import TemporaryDirectory

import streamlit as st

from tracekit.analysis import Analysis
from tracekit.errors import TracekitError
from tracekit.measures.breakdown import PARTS
from tracekit.plan import hardware, pipeline
from tracekit.plan.hardware import Link
from tracekit.plan.layout import Layout
from tracekit.plan.transformer import Transformer
from tracekit.read.load import load
from tracekit.report.figures import figure
from tracekit.report.html import TITLES
from tracekit.report.lessons import LESSONS
from tracekit.simulate.faults import Fault
from tracekit.simulate.job import Job
from tracekit.simulate.run import simulate

from .. import parts

TITLE, ORDER, ALONE = "Learn", 14, True
MODEL = Transformer(layers=8, hidden=1024, heads=16, sequence=1024, vocabulary=8000)
SCHEDULES = (pipeline.ONE_F_ONE_B, pipeline.GPIPE, pipeline.INTERLEAVED)


def show(_: Analysis | None) -> None:
    """The page."""
    st.subheader("Try it")
    st.caption("A small model on simulated GPUs. Move something and see what it does to the step.")
    try:
        analysis = _simulated(*_sliders())
    except TracekitError as why:
        parts.failed(why)
    else:
        _shown(analysis)
    st.subheader("Often believed, and not so")
    for nth, lesson in enumerate(LESSONS):
        with st.container(border=True):
            parts.draw(f"“{lesson.belief}”", lesson.truth, lesson.picture, f"lesson-{nth}")


def _sliders() -> tuple[int, int, int, int, str, int, int, float]:
    """Stages p, micro-batches m, stages per rank v, replicas, schedule, bucket, link speed, a straggler."""
    left, middle, right = st.columns(3)
    options = {"bind": "query-params"}
    stages = left.select_slider("Pipeline ranks, p", (1, 2, 4), value=4, key="p", **options)
    microbatches = left.select_slider("Micro-batches, m", (1, 2, 4, 8, 16), value=8, key="m", **options)
    schedule = middle.selectbox("Schedule", SCHEDULES, key="schedule", **options)
    per_rank = middle.select_slider("Stages per rank, v (interleaved)", (1, 2), value=1, key="v", **options)
    replicas = middle.select_slider("Data-parallel replicas", (1, 2), value=1, key="replicas", **options)
    bucket = right.select_slider("Gradient bucket, MB", (1, 5, 25, 100), value=25, key="bucket", **options)
    link = right.select_slider("Link, GB/s", (1, 5, 25, 100, 450), value=100, key="link", **options)
    slow = right.select_slider("Last rank slower by", (1.0, 1.2, 1.5, 2.0), value=1.0, key="slow", **options)
    return stages, microbatches, per_rank, replicas, schedule, bucket, link, slow


@st.cache_resource(max_entries=24, show_spinner="simulating")
def _simulated(
    stages: int, microbatches: int, per_rank: int, replicas: int, schedule: str, bucket: int, link: int, slow: float
) -> Analysis:
    layout = Layout(
        data=replicas, pipeline=stages, microbatches=microbatches, stages_per_rank=per_rank, schedule=schedule
    )
    cluster = hardware.preset("h100-80gb", layout.ranks)
    links = {"inside": Link(link * 1e9, cluster.inside.latency), "between": Link(link * 1e9, cluster.between.latency)}
    faults = (Fault("slow_device", layout.ranks - 1, slow),) if slow > 1 else ()
    job = Job(MODEL, layout, replace(cluster, **links), steps=2, bucket_mb=float(bucket), faults=faults)
    with TemporaryDirectory(prefix="tracekit-learn-") as folder:
        simulate(job, folder)
        return Analysis(load(folder, cache=False))


def _shown(analysis: Analysis) -> None:
    means = analysis["breakdown"][["step_ns", *PARTS]].mean()
    columns = st.columns(3)
    columns[0].metric("Step", f"{means['step_ns'] / 1e6:,.2f} ms")
    columns[1].metric("Compute", f"{means['compute_ns'] / means['step_ns']:.0%}")
    try:
        rows = analysis["pipeline"]
        told = f"{rows['bubble_frac'].mean():.0%}, in theory {rows['theory_frac'].mean():.0%}"
    except TracekitError:
        told = "no pipeline"
    columns[2].metric("Bubble", told)
    parts.draw(*TITLES["pipeline"], lambda: figure(analysis, "pipeline"), "learn-pipeline")
    parts.draw(*TITLES["breakdown"], lambda: figure(analysis, "breakdown"), "learn-breakdown")
