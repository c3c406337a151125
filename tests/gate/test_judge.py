import numpy as np
import pytest

from tracekit.gate.judge import ALPHA, RUN_NOISE, all_judged
from tracekit.gate.metrics import Series

STEP = "breakdown.step_ns"


def times(*ms):
    return Series("ns", "down", tuple(1e6 * one for one in ms))


def verdict(base, new, limit_frac=0.01, **options):
    """On step times in ms, one list a run."""
    sides = [[{STEP: times(*run)} for run in side] for side in (base, new)]
    mean = float(np.mean([np.mean(run) for run in base])) * 1e6 if base else 1.0
    [one] = all_judged(*sides, {STEP: limit_frac * mean}, mean, gated=True, **options)
    return one


STEADY = [100, 101, 99, 100, 102, 98, 100, 101, 99, 100]


def by(factor, values=STEADY):
    return [factor * value for value in values]


def test_the_same_run_is_the_same():
    one = verdict([STEADY], [STEADY])
    assert (one.outcome, one.change, one.blind) == ("same", 0, False)


def test_much_slower_is_worse_and_much_quicker_is_better():
    slower, quicker = verdict([STEADY], [by(1.3)]), verdict([STEADY], [by(0.7)])
    assert (slower.outcome, quicker.outcome) == ("worse", "better")
    assert slower.changed_frac == pytest.approx(0.3)
    assert slower.low < slower.change < slower.high
    assert slower.chance < ALPHA
    assert slower.superiority == 1
    assert "assumed" in slower.noise


def test_a_little_slower_in_single_runs_is_unsure_and_says_what_would_settle_it():
    one = verdict([STEADY], [by(1.03)])
    assert one.outcome == "unsure"
    assert "may be chance" in one.why
    assert "more runs on each side" in one.settle


def test_what_runs_cannot_tell_for_noise_of_steps_more_steps_would():
    rng = np.random.default_rng(1)
    noisy = [rng.normal(100, 12, 12).tolist(), rng.normal(107, 12, 12).tolist()]
    one = verdict(noisy[:1], noisy[1:], noise_frac=0.001)
    assert one.outcome == "unsure"
    assert "more steps on each side" in one.settle


def test_repeats_that_agree_tell_what_single_runs_cannot():
    base, new = ([by(factor * shift) for shift in (0.999, 1, 1.001, 1.0005, 0.9995)] for factor in (1, 1.03))
    one = verdict(base, new)
    assert (one.outcome, one.noise) == ("worse", "measured, 10 runs")


def test_repeats_that_disagree_say_so():
    base, new = ([by(factor * shift) for shift in (0.9, 1, 1.1, 1.05)] for factor in (1, 1.03))
    assert verdict(base, new).outcome in ("unsure", "same")


def test_a_few_repeats_tell_no_less_than_none():
    """Four base runs that differ by 5 %: alone, four degrees of freedom would ask for a change of half the step."""
    wobbly = [[ms * factor * (1 + 0.06 * (-1) ** n) for n, ms in enumerate(STEADY)] for factor in (1, 1.05, 0.95, 1.02)]
    assert verdict(wobbly[:1], [by(1.35, wobbly[0])]).outcome == "worse"
    assert verdict(wobbly, [by(1.35, wobbly[0])]).outcome == "worse"


def test_one_run_given_several_times_is_one_run():
    one = verdict([STEADY] * 5, [by(1.03)] * 5)
    assert (one.runs, one.outcome) == ((1, 1), "unsure")


@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_one_step_is_no_sample(factor):
    one = verdict([[100]], [[100 * factor]])
    assert (one.outcome, one.blind) == ("unsure", True)
    assert "no sample" in one.why


def test_one_step_in_each_of_many_runs_is_one():
    base, new = ([[factor * ms] for ms in (100, 101, 99, 100.5, 99.5)] for factor in (1, 1.2))
    assert verdict(base, new).outcome == "worse"


def test_zero_variance_is_not_certainty():
    assert verdict([[100] * 5], [[102] * 5]).outcome == "unsure"  # runs differ by more than their steps tell
    assert verdict([[100] * 5], [[110] * 5]).outcome == "worse"
    assert verdict([[100] * 5], [[100] * 5]).outcome == "same"


def test_a_side_that_did_not_measure_it_is_no_pass():
    one = verdict([STEADY], [])
    assert (one.outcome, one.blind, one.why) == ("unsure", True, "the new run did not measure it")


def test_noise_that_hides_everything_is_no_pass():
    wild = [100, 300, 50, 220, 90, 400]
    one = verdict([wild], [wild[::-1]])
    assert one.outcome == "unsure"
    assert "too noisy" in one.why


def test_a_single_outlier_does_not_fail():
    assert verdict([STEADY], [[*STEADY[:9], 600]]).outcome != "worse"


def test_a_change_below_the_limit_never_fails_however_sure():
    steady = [[100 + 0.001 * one for one in range(run, run + 10)] for run in range(6)]
    slower = [by(1.009, run) for run in steady]
    assert verdict(steady, slower).outcome == "same"
    assert verdict(steady, slower, limit_frac=0.005).outcome == "worse"


def test_noise_that_is_given_replaces_what_is_assumed():
    assert verdict([STEADY * 4], [by(1.03) * 4], noise_frac=0.001).outcome == "worse"
    assert verdict([STEADY], [by(1.3)], noise_frac=0.2).outcome != "worse"
    assert RUN_NOISE["step"] == 0.01


@pytest.mark.parametrize(("new", "outcome"), [(50, "same"), (51, "worse"), (40, "better")])
def test_counts_that_repeat_exactly_need_no_statistics(new, outcome):
    sides = [[{"counts.kernels": Series("count", "down", (float(count),) * 3)}] for count in (50, new)]
    [one] = all_judged(*sides, {"counts.kernels": 0.0}, 1.0, gated=True)
    assert one.outcome == outcome


def test_higher_is_better_for_some():
    sides = [[{"b": Series("GB/s", "up", tuple(factor * one for one in STEADY))}] for factor in (1, 0.5)]
    [one] = all_judged(*sides, {"b": 5.0}, 1.0, gated=True)
    assert one.outcome == "worse"


def test_many_metrics_are_allowed_for():
    names = [f"m{number}" for number in range(40)]
    sides = [[{name: times(*by(factor)) for name in names}] for factor in (1, 1)]
    one = [{**sides[1][0], "m0": times(*by(1.12))}]
    alone = all_judged(sides[0], one, {"m0": 1e6}, 1e8, gated=True)[0]
    among = all_judged(sides[0], one, dict.fromkeys(names, 1e6), 1e8, gated=True)[0]
    assert among.chance == pytest.approx(40 * alone.chance)
    assert among.detectable > alone.detectable
