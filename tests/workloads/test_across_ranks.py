"""What workloads did, as tracekit finds it in their traces: pipelines' bubbles, waits for a slow rank, a wrong clock.

Whatever else runs on the machine takes time away, and never gives any: the least disturbed of a few runs counts.
"""

import json
import shutil

import pytest

from tests.workloads import traces
from tests.workloads.traces import EMULATED
from tracekit import Analysis, load
from tracekit.intervals import intersect, length, union
from tracekit.waiting import with_waits

TRIES = 3
PIPELINE = (
    *("pipeline", "--ranks", "4", "--microbatches", "8", "--width", "64", "--sequence", "32", "--vocabulary", "16"),
    *("--batch", "4", "--device", "emulated", "--emulated-flops", "5.2e7", "--wait", "0", "--warmup", "0"),
    *("--active", "1"),
)  # products and attention take 20 ms or more
SCHEDULES = {"gpipe": (1, 1), "1f1b": (1, 1), "interleaved": (2, 2), "zbv": (2, 6)}
"""Stages on each rank, and how many times as short as GPipe's its ramps are."""


def tried(attempt, holds):
    """The first of a few attempts that holds, else the last."""
    for _ in range(TRIES):
        if holds(found := attempt()):
            break
    return found


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_bubble_is_as_large_as_in_theory(tmp_path, schedule):
    per_rank, shorter = SCHEDULES[schedule]
    theory = 3 / (8 * shorter + 3)

    def measured():
        traces.run(tmp_path, *PIPELINE, "--schedule", schedule, "--layers", str(4 * per_rank))
        return Analysis(load(tmp_path, cache=False))["pipeline"]

    rows = tried(measured, lambda rows: (abs(rows["bubble_frac"] - theory) < 0.05).all())
    assert set(rows["schedule"]) == {schedule}
    assert rows[["rank", "stage", "ranks", "microbatches", "stages_per_rank"]].values.tolist() == [
        [rank, rank, 4, 8, per_rank] for rank in range(4)
    ]
    assert rows["theory_frac"].tolist() == pytest.approx([theory] * 4)
    assert rows["bubble_frac"].tolist() == pytest.approx([theory] * 4, abs=0.05)


def test_the_healthy_rank_waits_for_as_long_as_the_other_was_slowed(tmp_path):
    def measured():
        written = traces.run(tmp_path, "ddp", "--ranks", "2", *EMULATED, "--fault", "slow_device:1:2")
        analysis = Analysis(load(tmp_path, cache=False))
        steps = sorted(set(analysis["ranks"]["step"]))
        put_in_ns = [one["ns"] for one in written.facts["faults"][0]["happened"] if one["step"] in steps]
        return analysis, put_in_ns

    def waited_ns(analysis, rank):
        rows = analysis["ranks"]
        return rows.loc[rows["rank"] == rank, "wait_ns"].tolist()

    analysis, put_in_ns = tried(measured, lambda found: waited_ns(found[0], 0) == pytest.approx(found[1], rel=0.1))
    assert len(put_in_ns) == 3
    assert waited_ns(analysis, 0) == pytest.approx(put_in_ns, rel=0.1)
    assert sum(waited_ns(analysis, 1)) < 0.1 * sum(put_in_ns)
    blame = analysis["blame"].groupby("blamed_rank")["exposed_wait_ns"].sum()
    assert blame[1] > 0.9 * blame.sum()


def test_nothing_computes_while_a_rank_waits_for_a_tensor(tmp_path):
    written = traces.run(tmp_path, "tensor", "--ranks", "2", *traces.SMALL, "--sequence-parallel", "--active", "1")
    run = load(tmp_path, cache=False)
    for rank in (0, 1):
        base_ns, compute = written.trace(rank)["baseTimeNanoseconds"], run.rank(rank).busy("compute")
        waits = traces.named(written.events(rank), "_c10d_functional::wait_tensor")
        spans = [base_ns + round(at * 1000) for wait in waits for at in (wait["ts"], traces.end(wait))]
        assert len(spans) > 20
        assert length(intersect(compute, union(spans[::2], spans[1::2]))) == 0


def test_a_pipelines_ranks_wait_as_long_as_its_program_was_seen_to(tmp_path):
    sizes = ("--ranks", "2", "--layers", "2", "--batch", "2", "--microbatches", "4", "--width", "32", "--active", "1")
    written = traces.run(tmp_path, "pipeline", "--schedule", "1f1b", *sizes, "--vocabulary", "16", "--sequence", "16")
    run = load(tmp_path, cache=False)
    exposed_ns = Analysis(run)["breakdown"].groupby("rank")["exposed_comm_ns"].sum()
    for rank in (0, 1):
        [step] = traces.steps(written.events(rank))
        assert exposed_ns[rank] == pytest.approx(1000 * traces.total(traces.named(step, "wait:")), abs=100)
    assert run.calls["match"].notna().all()
    assert run.calls["arrival_ns"].notna().all()


SKEW_NS = 5_000_000


def shifted(written, folder, ahead_ns):
    """A copy of a run of two ranks, the second one's clock put ahead by so much more."""
    folder.mkdir()
    for rank in (0, 1):
        trace = written.trace(rank)
        trace["baseTimeNanoseconds"] += ahead_ns if rank else 0
        (folder / f"rank{rank}.json").write_text(json.dumps(trace))
    return load(folder, cache=False)


def test_a_wrong_clock_is_found_within_its_error_bar_and_changes_no_wait(tmp_path):
    """Below a millisecond the ends of gloo's calls tell nothing of the clock, which processes of one host share."""

    def measured():
        shutil.rmtree(tmp_path)
        asked = ("--bucket-mb", "0.02", "--active", "6", "--fault", "clock_skew:1:5")
        written = traces.run(tmp_path / "written", "ddp", "--ranks", "2", *EMULATED, *asked)
        moves_ns = {SKEW_NS: 0, -SKEW_NS: -2 * SKEW_NS, 137_000: 137_000 - SKEW_NS, 0: -SKEW_NS}
        return {ahead_ns: shifted(written, tmp_path / str(ahead_ns), ns) for ahead_ns, ns in moves_ns.items()}

    def found(runs):
        return all(
            abs(runs[ahead_ns].ranks["clock_offset_ns"][1] - ahead_ns) <= runs[ahead_ns].ranks["clock_error_ns"][1]
            for ahead_ns in (SKEW_NS, -SKEW_NS)
        )

    runs = tried(measured, found)
    assert found(runs)
    assert runs[SKEW_NS].calls["match"].notna().all()
    for ahead_ns in (137_000, 0):
        assert runs[ahead_ns].ranks[["clock_offset_ns", "clock_error_ns"]].values.tolist() == [[0, 0], [0, 0]]
    right_ns = with_waits(runs[0]).calls["wait_ns"]
    for ahead_ns in (SKEW_NS, -SKEW_NS):
        waits_ns = with_waits(runs[ahead_ns]).calls["wait_ns"]
        assert (waits_ns - right_ns).abs().max() <= runs[ahead_ns].ranks["clock_error_ns"][1]
