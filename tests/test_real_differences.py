"""Two real runs of one model, other GPUs: parts that sum to the difference, and HTA's TraceDiff on the same pair."""

import logging

import pytest

from tracekit import Analysis, load
from tracekit.cli import main
from tracekit.compare import difference
from tracekit.compare.account import KINDS
from tracekit.gate.check import check
from tracekit.gate.summary import summary_of

NAMES = ("diff_control", "diff_test")


@pytest.fixture(scope="module")
def pair(real_traces):
    return [Analysis(load(real_traces / name, cache=False)) for name in NAMES]


@pytest.fixture(scope="module")
def summaries(pair):
    return [summary_of(one, commit=name) for one, name in zip(pair, NAMES, strict=True)]


@pytest.fixture(scope="module")
def told(summaries):
    return difference(*(one.account for one in summaries))


def test_the_parts_sum_to_the_difference_of_the_steps(pair, told):
    base, new = (one["breakdown"][["step_ns", *KINDS.values()]].mean() for one in pair)
    assert sum(part.changed_ns for part in told.parts) == pytest.approx(new["step_ns"] - base["step_ns"], abs=1)
    for kind, column in KINDS.items():
        assert told.by_kind()[kind] == pytest.approx(new[column] - base[column], abs=1)


def test_every_kernel_stands_in_one_part(pair, told):
    for side, one in zip(("base", "new"), pair, strict=True):
        calls = one["kernels"].query("kind != 'comm'")["calls"].sum() / 6  # six complete steps
        held = sum(getattr(part, side).calls for part in told.parts if part.kind in ("compute", "memory"))
        assert held == pytest.approx(calls)


def test_other_devices_are_not_comparable(summaries):
    verdict = check(*([one] for one in summaries))
    assert verdict.exit_code == 3
    assert {one.allow for one in verdict.differs} == {"device", "world size"}
    allowed = check(*([one] for one in summaries), allow=["device", "world size"])
    assert (allowed.outcome, allowed.exit_code) == ("worse", 1)


def test_a_run_is_no_worse_than_itself(summaries):
    assert check(summaries[:1], summaries[:1]).exit_code == 0


def test_on_the_command_line(real_traces, capsys):
    assert main(["compare", *(str(real_traces / name) for name in NAMES)]) == 0
    assert "step 77.53 ms → 117.7 ms" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::Warning:hta")
def test_hta_sees_the_same_kernels(real_traces, pair):
    """TraceDiff counts whole kernels of one iteration: calls and durations by name, of those that run in it."""
    trace_diff = pytest.importorskip("hta.trace_diff", reason="the extra `hta` is not installed")
    logging.getLogger("hta").setLevel(logging.ERROR)
    theirs = trace_diff.TraceDiff.compare_traces(
        *(trace_diff.LabeledTrace(label=name, trace_dir=str(real_traces / name)) for name in NAMES),
        control_iteration=[1010, 1011], test_iteration=[1010, 1011], device_type=trace_diff.DeviceType.GPU,
    )  # fmt: skip
    ours = [_by_name(one, (1010, 1011)) for one in pair]
    for side, counts in zip(NAMES, ours, strict=True):
        columns = theirs[[f"{side}_counts", f"{side}_total_duration"]]
        for name, (calls, us) in counts.items():
            assert columns.loc[name, f"{side}_counts"] == calls, name
            assert columns.loc[name, f"{side}_total_duration"] == pytest.approx(us, abs=0.5), name


def _by_name(analysis, steps):
    """Calls and microseconds of compute kernels that the given steps launched."""
    rank = int(analysis.run.ranks["rank"].iloc[0])
    work = analysis.run.rank(rank).work
    work = work[work["step"].isin(steps) & (work["kind"] == "compute")]
    lengths = (work["end_ns"] - work["start_ns"]) / 1000
    groups = lengths.groupby(work["name"].astype("str"))
    return {name: (len(values), values.sum()) for name, values in groups}
