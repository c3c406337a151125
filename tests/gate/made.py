"""Summaries whose step times are typed in."""

from dataclasses import replace

from tracekit.compare import Account, Part, RankPart
from tracekit.gate.metrics import Series
from tracekit.gate.summary import SCHEMA, STEP, Found, Summary

MS = 1e6
FACTS = {"world size": "2", "device": "H100", "layout": "data 2", "model layers": "2"}


def summary(
    steps_ms, *, facts=FACTS, findings=None, commit="abc", saved_at="2026-01-01T00:00:00", kernels=None, **metrics
):
    """A run with these step times; `metrics` are other series, by name, as (unit, better, values)."""
    told = {name.replace("__", "."): Series(*series) for name, series in metrics.items()}
    steps = tuple(ms * MS for ms in steps_ms)
    mean = sum(steps) / len(steps) if steps else 0.0
    found = None if findings is None else tuple(Found(*one) for one in findings)
    return Summary(
        SCHEMA, "0", saved_at, commit, "made", len(steps), dict(facts), {STEP: Series("ns", "down", steps), **told},
        account(mean, kernels or {"gemm": 1.0}), found,
    )  # fmt: skip


def account(step_ns, kernels):
    """An account that is nothing but these kernels, by their share of the step."""
    parts = tuple(Part("compute", name, "", 1.0, share * step_ns, share * step_ns) for name, share in kernels.items())
    rank = RankPart(0, step_ns, step_ns, 0.0, 0.0, 0.0, step_ns, 1.0)
    return Account(step_ns, parts, (rank,))


def with_schema(one, schema):
    return replace(one, schema=schema)
