"""The end of the screen: what is wrong with the job, what it costs a step, how one knows, and what to do."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tracekit.analysis import Analysis
from tracekit.errors import NotMeasured
from tracekit.evidence import LEAST_COST_FRAC, step_ns
from tracekit.model import Finding
from tracekit.wording import counted, duration, percent, plain

GRAVITY = {"error": "bold red", "warning": "yellow", "info": "dim"}
HEALTHY = f"nothing is wrong: no cause that is looked for costs {LEAST_COST_FRAC:.0%} of the step or more"
UNTOLD = f"none, of what this run can tell: no cause of that kind costs {LEAST_COST_FRAC:.0%} of the step or more"
NOTHING_TOLD = "none can be told: no step of the run is complete"
LACKING = ("cannot-tell", "incomplete-data")
"""Findings that say that silence is no clean bill of health."""


def findings_section(analysis: Analysis) -> Iterator[RenderableType]:
    """A paragraph for each finding, after a line that counts them and sums up what they cost."""
    found = analysis.findings
    whole_ns = _step_ns(analysis)
    yield Text(f"Findings: {summary(analysis)}", style="bold")
    table = Table.grid(padding=(0, 2, 0, 0))
    for finding in found:
        table.add_row(Text(finding.severity, style=GRAVITY[finding.severity]), _told(finding, whole_ns))
    if found:
        yield table


def summary(analysis: Analysis) -> str:
    """How many causes were found and what they cost together; or that nothing is wrong, or cannot be told."""
    costly = [finding.cost_ns for finding in analysis.findings if finding.cost_ns is not None]
    whole_ns = _step_ns(analysis)
    if not whole_ns:
        return NOTHING_TOLD
    if not costly:
        return UNTOLD if any(finding.code in LACKING for finding in analysis.findings) else HEALTHY
    cost_ns = sum(costly)
    causes = "1 cause that costs" if len(costly) == 1 else f"{counted(len(costly), 'cause')} that cost"
    return f"{causes} {duration(cost_ns)} a step, {percent(cost_ns, whole_ns)} of it"


def _told(finding: Finding, whole_ns: float) -> RenderableType:
    head = Text(plain(finding.code), style="bold")
    if finding.cost_ns is not None:
        head.append(f"  {duration(finding.cost_ns)} a step, {percent(finding.cost_ns, whole_ns)}", style="not bold")
    head.append(f"  {plain(finding.title)}", style="not bold")
    reasons = [Text(plain(reason), style="dim") for reason in finding.evidence]
    return Group(head, *(Padding(one, (0, 0, 0, 2)) for one in [*reasons, Text(f"do: {plain(finding.advice)}")]))


def _step_ns(analysis: Analysis) -> float:
    try:
        return step_ns(analysis.run)
    except NotMeasured:
        return 0.0
