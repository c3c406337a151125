"""How metrics, their values and changes read, in every form in which a verdict is told."""

from __future__ import annotations

from tracekit.gate.check import Verdict
from tracekit.gate.judge import Judged
from tracekit.gate.metrics import HEADLINES, KEYED_HEADLINES
from tracekit.wording import duration, plain, size

_NAMES = {metric: name for names in (HEADLINES, KEYED_HEADLINES) for name, metric in names.items()}
HEADLINE = {
    "worse": "worse than the base", "better": "better than the base", "same": "no worse than the base",
    "unsure": "cannot be told for sure", "not comparable": "the runs cannot be compared",
}  # fmt: skip


def metric_name(metric: str, limit: int = 60) -> str:
    """A metric as people name it: `step`, `exposed_comm[data]`."""
    stem, bracket, key = metric.partition("[")
    return plain(f"{_NAMES.get(stem, stem)}{bracket}{key}", limit)


def value(unit: str, number: float | None) -> str:
    """A metric's value with its unit; `-` where it is not known."""
    if number is None:
        return "-"
    if unit == "ns":
        return ("-" if number < 0 else "") + duration(abs(number))
    if unit == "bytes":
        return ("-" if number < 0 else "") + size(abs(number))
    if unit == "frac":
        return f"{100 * number:.1f} %"
    return f"{number:,.4g}{' GB/s' if unit == 'GB/s' else ''}"


def signed(unit: str, number: float | None) -> str:
    """A change with its sign; shares change by points."""
    if number is None:
        return "-"
    sign = "+" if number >= 0 else "-"
    if unit == "frac":
        return f"{sign}{100 * abs(number):.1f} points"
    return sign + value(unit, abs(number))


def change(one: Judged) -> str:
    """The change, as a share where that says more: `+5.2 %`, `+2.0 points`."""
    if one.unit == "frac" or one.changed_frac is None:
        return signed(one.unit, one.change)
    return f"{100 * one.changed_frac:+.1f} %"


def interval(one: Judged) -> str:
    """The 95 % interval of the change in the same terms as `change`; "" where there is none."""
    if one.low is None or one.high is None:
        return ""
    if one.unit == "frac":
        return f"{100 * one.low:+.1f} to {100 * one.high:+.1f}"
    if not one.base:
        return f"{signed(one.unit, one.low)} to {signed(one.unit, one.high)}"
    return f"{100 * one.low / abs(one.base):+.1f} to {100 * one.high / abs(one.base):+.1f} %"


def limit(one: Judged) -> str:
    """The limit in the same terms."""
    if one.unit == "frac":
        return f"{100 * one.limit:.1f} points"
    if not one.base or one.limit > abs(one.base):
        return value(one.unit, one.limit)
    return f"{100 * one.limit / abs(one.base):.1f} %"


def first_line(verdict: Verdict) -> str:
    """The verdict in a line: `worse than the base: step +51.8 %, 2 new findings`."""
    told = [f"{metric_name(one.metric)} {change(one)}" for one in verdict.gated if one.outcome == verdict.outcome]
    if verdict.outcome == "same":
        told = [f"{metric_name(one.metric)} {change(one)}" for one in verdict.gated]
    fresh = verdict.new_findings or ()
    told += [f"{len(fresh)} new {'finding' if len(fresh) == 1 else 'findings'}"] if fresh else []
    if verdict.outcome == "worse" and verdict.drift is not None and not told:
        told.append(drift_told(verdict))
    if verdict.outcome == "not comparable":
        told = [f"{one.allow} differs" for one in verdict.differs]
    return HEADLINE[verdict.outcome] + (f": {', '.join(told)}" if told else "")


def drift_told(verdict: Verdict) -> str:
    """How the step time drifts over the history; "" where it does not."""
    if verdict.drift is None:
        return ""
    one = verdict.drift
    return f"the step drifts: {100 * one.per_run_frac:+.2f} % a run, {100 * one.whole_frac:+.1f} % over {one.runs} runs"


def sides(verdict: Verdict) -> str:
    """What was compared: how many runs and steps on each side, and their commits."""
    told = []
    for summaries in (verdict.base, verdict.new):
        steps, commits = sum(one.steps for one in summaries), [one.commit[:9] for one in summaries if one.commit]
        of = f" at {commits[-1]}" if commits else ""
        told.append(f"{len(summaries)} {'run' if len(summaries) == 1 else 'runs'}, {steps} steps{of}")
    return f"base: {told[0]}; new: {told[1]}"
