"""A verdict as JSON for scripts."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from tracekit.compare import Changed, Difference
from tracekit.gate.check import Verdict
from tracekit.gate.summary import Summary

SCHEMA = 1


def verdict_document(verdict: Verdict) -> dict[str, Any]:
    """The verdict as dicts, lists, text, numbers and None."""
    told = {
        "schema": SCHEMA,
        "outcome": verdict.outcome,
        "exit_code": verdict.exit_code,
        "base": [_side(one) for one in verdict.base],
        "new": [_side(one) for one in verdict.new],
        "gated": [{**asdict(one), "changed_frac": one.changed_frac} for one in verdict.gated],
        "watched": [{**asdict(one), "changed_frac": one.changed_frac} for one in verdict.watched],
        "new_findings": None if verdict.new_findings is None else [asdict(one) for one in verdict.new_findings],
        "gone_findings": [asdict(one) for one in verdict.gone_findings],
        "differs": [asdict(one) for one in verdict.differs],
        "allowed": [asdict(one) for one in verdict.allowed],
        "reasons": [asdict(one) for one in verdict.reasons],
        "drift": None if verdict.drift is None else {**asdict(verdict.drift), "whole_frac": verdict.drift.whole_frac},
        "changed": None if verdict.changed is None else difference_document(verdict.changed),
        "notes": list(verdict.notes),
    }
    return _finite(told)  # type: ignore[no-any-return]


def difference_document(changed: Difference) -> dict[str, Any]:
    """A difference: `parts` add up to `changed_ns`, and so do `by_kind`."""
    told = {
        "base_step_ns": changed.base.step_ns,
        "new_step_ns": changed.new.step_ns,
        "changed_ns": changed.changed_ns,
        "by_kind": changed.by_kind(),
        "parts": [_part(one) for one in changed.parts],
        "gaps": [_part(one) for one in changed.gaps],
        "ranks": [
            {"rank": one.rank, **{f"base_{name}": value for name, value in asdict(one.base).items() if name != "rank"},
             **{f"new_{name}": value for name, value in asdict(one.new).items() if name != "rank"}}
            for one in changed.ranks
        ],
    }  # fmt: skip
    return _finite(told)  # type: ignore[no-any-return]


def _side(one: Summary) -> dict[str, Any]:
    return {"label": one.label, "commit": one.commit, "saved_at": one.saved_at, "steps": one.steps, "facts": one.facts}


def _part(one: Changed) -> dict[str, Any]:
    sides = {
        f"{side}_{name}": getattr(part, name)
        for side, part in (("base", one.base), ("new", one.new))
        for name in ("calls", "ns", "total_ns")
    }
    return {
        "kind": one.kind, "name": one.name, "shape": one.shape, "how": one.how, "changed_ns": one.changed_ns,
        "by_calls_ns": one.by_calls_ns, "by_each_ns": one.by_each_ns, "nth": list(one.nth), **sides,
    }  # fmt: skip


def _finite(value: Any) -> Any:
    """The value with null for what strict JSON cannot hold, and no half of a surrogate pair."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {str(key): _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value
