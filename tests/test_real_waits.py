"""Who waits for whom in real jobs that others profiled, as was seen in them by eye or published."""

import pytest

from tracekit import Analysis, load

JOBS = (
    *("nanogpt_h100x8", "dlrm_x4", "dlrm_x8", "resnet18_ddp2", "megatron_tp2"),
    *("production_st", "production_ar"),
)


@pytest.fixture(scope="module")
def job(real_traces, tmp_path_factory):
    """Analyses by name, each made once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRACEKIT_CACHE", str(tmp_path_factory.mktemp("cache")))
        return {name: Analysis(load(real_traces / name)) for name in JOBS}.__getitem__


def blame_fracs(analysis):
    """The share of all waiting that each rank is blamed for."""
    by_rank = analysis["blame"].groupby("blamed_rank")["wait_ns"].sum()
    return by_rank / by_rank.sum()


def test_in_nanogpt_one_rank_waits_far_less_than_the_others_and_is_named(job):
    waits = job("nanogpt_h100x8")["ranks"].groupby("rank")["wait_ns"].sum().sort_values()
    assert waits.index[0] == 1
    assert waits.iloc[0] * 4 < waits.iloc[1]
    assert blame_fracs(job("nanogpt_h100x8"))[1] > 0.8


def test_in_dlrm_one_rank_is_late_again_and_again(job):
    assert blame_fracs(job("dlrm_x4"))[2] > 0.99
    last = job("dlrm_x4")["ranks"].groupby("step")["own_ns"].idxmax()
    assert set(job("dlrm_x4")["ranks"].loc[last, "rank"]) == {2}


def test_in_a_job_of_64_blame_goes_through_the_healthy_neighbours_to_the_slow_rank(job):
    assert blame_fracs(job("production_ar"))[0] >= 0.75


def test_in_a_job_of_8_blame_goes_to_the_last_stage(job):
    assert blame_fracs(job("production_st"))[[6, 7]].sum() >= 0.65


@pytest.mark.parametrize("name", JOBS)
def test_own_time_and_waits_are_the_step(job, name):
    rows = job(name)["ranks"].merge(job(name)["breakdown"], on=["rank", "step"])
    assert (rows["own_ns"] + rows["wait_ns"] == rows["step_ns"]).all()
    assert (rows[["own_ns", "wait_ns"]] >= 0).all(axis=None)
    assert (rows["wait_ns"] <= rows["exposed_comm_ns"]).all()


@pytest.mark.parametrize("name", JOBS)
def test_a_ranks_blame_is_its_waits(job, name):
    columns = ["wait_ns", "exposed_wait_ns"]
    waits = job(name)["waits"].groupby("rank")[columns].sum()
    blame = job(name)["blame"].groupby("rank")[columns].sum()
    assert blame.reindex(waits.index, fill_value=0).equals(waits)


@pytest.mark.parametrize("name", JOBS)
def test_each_call_is_matched_or_counted(job, name):
    calls, table = job(name).run.calls, job(name)["collectives"]
    members = calls[calls["match"].notna()].groupby("match")["rank"].size()
    assert len(members) == table["calls"].sum()
    alone = (calls["group_size"] == 1).fillna(False)
    assert table["unmatched"].sum() == (calls["match"].isna() & ~alone).sum()


def test_bandwidth_on_nvlink_is_below_what_the_link_can_do(job):
    rows = job("nanogpt_h100x8")["bandwidth"]
    large = rows[rows["from_bytes"] >= 16 << 20]
    assert large["busbw_gbs"].between(100, 450).all()
