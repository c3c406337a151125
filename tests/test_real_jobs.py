"""Layout, pipelines and exposed communication of real jobs, whose split their makers tell (`traces/SOURCES.md`)."""

from functools import cache

import pytest

from tracekit import Analysis, load
from tracekit.measures.layout import shape

SHAPES = {
    "production_st": "dp 2 × pp 4",
    "production_ar": "dp 4 × tp 4 × pp 4",
    "nanogpt_h100x8": "dp 8",
    "megatron_tp2": "tp 2",
}
PIPELINES = {
    "production_st": ["0 2 4 6", "1 3 5 7"],
    "production_ar": ["0 16 32 48", "4 20 36 52", "8 24 40 56", "12 28 44 60"],
}
MICROBATCHES = {"production_st": 4, "production_ar": 32}


@pytest.fixture(scope="module")
def analysed(real_traces):
    return cache(lambda name: Analysis(load(real_traces / name, cache=False)))


@pytest.mark.parametrize("name", SHAPES)
def test_the_layout_is_found(analysed, name):
    table = analysed(name)["layout"]
    assert shape(table) == SHAPES[name]
    assert (table["confidence"] >= 0.6).all()


@pytest.mark.parametrize("name", PIPELINES)
def test_pipelines_in_the_order_of_their_stages(analysed, name):
    table = analysed(name)["layout"].set_index("axis")
    assert table.loc["pipeline", "groups"].split("; ") == PIPELINES[name]
    rows = analysed(name)["pipeline"]
    assert sorted(set(rows["group"]), key=PIPELINES[name].index) == PIPELINES[name]
    assert all(row.group.split()[row.stage] == str(row.rank) for row in rows.itertuples())


@pytest.mark.parametrize("name", PIPELINES)
def test_p_m_and_schedule_are_found(analysed, name):
    rows, m = analysed(name)["pipeline"], MICROBATCHES[name]
    assert set(rows["schedule"]) == {"1f1b"}
    assert set(rows["ranks"]) == {4}
    assert set(rows["microbatches"]) == {m}
    assert set(rows["theory_frac"]) == {3 / (m + 3)}


@pytest.mark.parametrize("name", PIPELINES)
def test_a_bubble_adds_up(analysed, name):
    rows = analysed(name)["pipeline"]
    assert (rows["busy_ns"] + rows["bubble_ns"] == rows["window_ns"]).all()
    assert (rows[["warmup_ns", "steady_ns", "cooldown_ns"]].sum(axis=1) == rows["bubble_ns"]).all()
    causes = rows[["must_ns", "imbalance_ns", "jitter_ns", "transfer_ns"]].sum(axis=1)
    mean_ns = rows.groupby(["group", "step"])["bubble_ns"].transform("mean")
    assert ((causes - mean_ns).abs() <= 2).all()


def test_the_slow_last_stage_and_the_slow_worker_stand_out(analysed):
    stages = analysed("production_st")["stages"].groupby("stage")["forward_each_ns"].mean()
    assert (stages.idxmax(), stages.max() > 1.5 * stages.drop(3).max()) == (3, True)
    ranks = analysed("production_ar")["stages"].groupby("rank")["backward_each_ns"].mean()
    assert (ranks.idxmax(), ranks.max() > 1.5 * ranks.drop(0).max()) == (0, True)


@pytest.mark.parametrize("name", SHAPES)
def test_exposed_parts_sum_to_the_breakdowns(analysed, name):
    parts = analysed(name)["exposed"].groupby(["rank", "step"])["exposed_ns"].sum()
    whole = analysed(name)["breakdown"].set_index(["rank", "step"])["exposed_comm_ns"]
    assert (parts.reindex(whole.index, fill_value=0) == whole).all()
