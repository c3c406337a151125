"""Verdicts of each kind, made of typed step times."""

from functools import cache

from tests.gate.made import FACTS, summary
from tracekit.gate.check import check

STEADY = [100, 101, 99, 100, 102, 98, 100, 101, 99, 100]
NASTY = "</sub><script>alert(1)</script> [click](http://x) | injected | @everyone\n### a\x1b[31m ::error::b%0A"


def by(factor):
    return [factor * ms for ms in STEADY]


@cache
def same():
    return check([summary(STEADY)], [summary(STEADY)])


@cache
def slower():
    return check([summary(STEADY)], [summary(by(1.3))])


@cache
def better():
    return check([summary(by(1.3))], [summary(STEADY)])


@cache
def unsure():
    return check([summary(STEADY)], [summary(by(1.03))])


@cache
def blind():
    return check([summary([100])], [summary([100])])


@cache
def not_comparable():
    return check([summary(STEADY)], [summary(STEADY, facts={**FACTS, "world size": "4"})])


@cache
def drifting():
    runs = [summary([ms, ms + 0.2, ms - 0.2, ms + 0.1]) for ms in (100 + 0.5 * n for n in range(14))]
    return check(runs[:-1], runs[-1:], drifts=True)


@cache
def hostile():
    """A trace whose names try to get out of their place."""
    base = summary(STEADY, kernels={NASTY: 1.0}, findings=[])
    finding = (NASTY, "error", NASTY, (), 5e8)
    return check([base], [summary(by(1.3), kernels={NASTY: 1.0}, findings=[finding])])
