"""All rules together: the findings of a run, which share one step's time among them.

A finding costs no more than what is left of the mean step after those that cost more, so that costs never add up to
more than the step. Below 1 % of the step nothing is said; from 3 % on a finding is a warning, from 10 % on an error.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import ModuleType

from tracekit import rules
from tracekit.errors import NotMeasured, WrongUse
from tracekit.evidence import LEAST_COST_FRAC, step_ns
from tracekit.model import Finding, Severity
from tracekit.replay.costs import Judged

WARNING_FRAC, ERROR_FRAC = 0.03, 0.1


def rule_modules() -> dict[str, ModuleType]:
    """All rules by their code, in its order: every file in `tracekit/rules` is one."""
    found = (importlib.import_module(f"{rules.__name__}.{one.name}") for one in pkgutil.iter_modules(rules.__path__))
    return {module.CODE: module for module in sorted(found, key=lambda module: str(module.CODE))}


def rule_module(code: str) -> ModuleType:
    """The rule with this code, its docstring its manual page; WrongUse where there is none."""
    known = rule_modules()
    if code not in known:
        raise WrongUse(f"no rule is named {code!r}; there are {', '.join(known)}")
    return known[code]


def findings_of(asked: Judged) -> tuple[Finding, ...]:
    """The findings, the costliest first, then what costs nothing."""
    found = [finding for module in rule_modules().values() for finding in _checked(module, asked)]
    try:
        left_ns = round(step_ns(asked.run))
    except NotMeasured:
        left_ns = 0
    return (*_shared(found, left_ns), *(finding for finding in found if finding.cost_ns is None))


def _checked(module: ModuleType, asked: Judged) -> Iterator[Finding]:
    """What a rule finds; nothing where the run lacks what it needs."""
    try:
        yield from module.check(asked)
    except NotMeasured:
        return


def _shared(found: Sequence[Finding], step_ns: int) -> Iterator[Finding]:
    """The findings that cost something, none of the step's nanoseconds claimed twice."""
    left_ns = step_ns
    for finding in sorted(found, key=lambda one: -(one.cost_ns or 0)):
        cost_ns = min(finding.cost_ns or 0, left_ns)
        if cost_ns < max(LEAST_COST_FRAC * step_ns, 1):
            continue
        left_ns -= cost_ns
        yield replace(finding, cost_ns=cost_ns, severity=_severity(cost_ns / step_ns))


def _severity(cost_frac: float) -> Severity:
    return "error" if cost_frac >= ERROR_FRAC else "warning" if cost_frac >= WARNING_FRAC else "info"
