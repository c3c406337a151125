"""What changed between two runs, for people: the largest first, parts that add up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from tracekit.compare import Changed, Difference
from tracekit.compare.account import KINDS
from tracekit.gate.facts import Differs
from tracekit.gate.reasons import Reason
from tracekit.report.screen import screen_text
from tracekit.wording import duration, kernel_name, plain, time_unit

ROWS = 15
KIND_NAMES = {"compute": "compute", "comm": "exposed comm", "memory": "exposed memory", "idle": "idle"}


def difference_text(
    changed: Difference,
    differs: Sequence[Differs] = (),
    why: Sequence[Reason] = (),
    *,
    width: int = 100,
    colour: bool = False,
    rows: int = ROWS,
) -> str:
    """The difference as text of at most `width` columns, its largest `rows` parts by name."""
    return screen_text(_screen(changed, differs, why, width, rows), width=width, colour=colour)


def _screen(
    changed: Difference, differs: Sequence[Differs], why: Sequence[Reason], width: int, rows: int
) -> Iterator[RenderableType]:
    base, new = changed.base.step_ns, changed.new.step_ns
    frac = f" ({100 * changed.changed_ns / base:+.1f} %)" if base else ""
    yield Text(f"step {duration(base)} → {duration(new)}{frac}", style="bold")
    if differs:
        told = "; ".join(f"{one.allow}: {plain(one.base, 50)} → {plain(one.new, 50)}" for one in differs)
        yield Text(f"the runs differ in more than code: {plain(told, 400)}", style="yellow")
        if "world size" in {one.allow for one in differs}:
            yield Text("all figures are means over each run's own ranks", style="dim")
    for reason in why:
        yield Text(f"  {reason.ns / 1e6:+,.2f} ms  {plain(reason.sentence, 400)}")
    yield from ("", _kinds(changed), "", Text("Largest changes, ms a step, mean over the ranks", style="bold"))
    yield _parts(changed, width, rows)
    if changed.gaps and abs(changed.gaps[0].changed_ns) > 0.01 * base:
        yield from ("", Text("Idle gaps, by the work that ends them", style="bold"), _gaps(changed.gaps, width))
    if len(changed.ranks) > 1:
        yield from ("", Text("Ranks, change in ms a step, the most own time first", style="bold"), _ranks(changed))


def _table(*headings: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _kinds(changed: Difference) -> Table:
    """What the step is made of, before and after; the last line is the sum."""
    unit = time_unit(max(changed.base.step_ns, changed.new.step_ns))
    table = _table(unit.name, "base", "new", "change")
    table.columns[0].justify = "left"
    for kind, by in changed.by_kind().items():
        base = sum(part.base.ns for part in changed.parts if part.kind == kind)
        table.add_row(KIND_NAMES[kind], unit.of(base), unit.of(base + by), _signed(by, unit.ns, unit.decimals))
    whole = (changed.base.step_ns, changed.new.step_ns)
    table.add_row("step", *map(unit.of, whole), _signed(changed.changed_ns, unit.ns, unit.decimals))
    return table


def _signed(ns: float, unit_ns: int = 10**6, decimals: int = 3) -> str:
    return f"{ns / unit_ns:+,.{decimals}f}"


def _parts(changed: Difference, width: int, rows: int) -> Table:
    shown = [(part, _numbers(part)) for part in changed.parts[:rows]]
    headings = ("change", "base", "new", "calls", "each, µs")
    used = sum(max(map(len, column)) + 2 for column in zip(headings, *(cells for _, cells in shown), strict=True))
    table = _table(*headings)
    table.add_column("what", no_wrap=True)
    for part, cells in shown:
        table.add_row(*cells, Text(_what(part, max(width - used - 2, 16)), style=_STYLES.get(part.how, "")))
    rest = changed.parts[rows:]
    if rest:
        sums = (sum(part.changed_ns for part in rest), sum(p.base.ns for p in rest), sum(p.new.ns for p in rest))
        told = (_signed(sums[0]), f"{sums[1] / 1e6:,.3f}", f"{sums[2] / 1e6:,.3f}")
        table.add_row(*told, "", "", f"{len(rest):,} others, {_unpaired(rest)}")
    table.add_row(_signed(changed.changed_ns), "", "", "", "", "together: the step's difference")
    return table


_STYLES = {"new": "green", "gone": "red", "renamed": "yellow"}


def _unpaired(rest: Sequence[Changed]) -> str:
    counts = {how: sum(part.how == how for part in rest) for how in ("new", "gone")}
    return f"{counts['new']} new, {counts['gone']} gone"


def _numbers(part: Changed) -> tuple[str, ...]:
    calls = _pair(part.base.calls, part.new.calls) if part.kind in ("compute", "comm", "memory") else ""
    each = f"{_signed(part.new.each_ns - part.base.each_ns, 10**3, 1)}" if part.how in ("paired", "renamed") else ""
    return (
        _signed(part.changed_ns), f"{part.base.ns / 1e6:,.3f}", f"{part.new.ns / 1e6:,.3f}", calls,
        each if calls else "",
    )  # fmt: skip


def _pair(base: float, new: float) -> str:
    return f"{base:,.4g}" if f"{base:,.4g}" == f"{new:,.4g}" else f"{base:,.4g} → {new:,.4g}"


def _what(part: Changed, width: int) -> str:
    told = part.how if part.how in ("new", "gone") else ""
    nth = f"call {', '.join(map(str, part.nth[:4]))}" if part.nth else ""
    marks = ", ".join(one for one in (told, nth) if one)
    shape = f" {part.shape}" if part.shape else ""
    kind = f"{part.kind}: " if part.kind in ("idle",) else ""
    before, arrow, after = part.name.partition(" → ")
    room = max(12, width - len(shape) - len(marks) - (3 if marks else 0))
    name = kernel_name(part.name, room)
    if arrow:
        name = f"{kernel_name(before, room // 2)} → {kernel_name(after, room // 2)}"
    return plain(f"{kind}{name}{shape}{f' ({marks})' if marks else ''}", width)


def _gaps(gaps: Sequence[Changed], width: int) -> Table:
    table = _table("change", "base", "new", "gaps")
    table.add_column("before", no_wrap=True)
    for gap in gaps[:5]:
        numbers = (_signed(gap.changed_ns), f"{gap.base.ns / 1e6:,.3f}", f"{gap.new.ns / 1e6:,.3f}")
        table.add_row(*numbers, _pair(gap.base.calls, gap.new.calls), kernel_name(gap.name, max(width - 45, 20)))
    return table


def _ranks(changed: Difference) -> Table:
    names = {"step_ns": "step", "own_ns": "own", **{column: KIND_NAMES[kind] for kind, column in KINDS.items()}}
    table = _table("rank", *names.values())
    for one in changed.ranks[:16]:
        cells = [one.changed(name) for name in names]
        table.add_row(str(one.rank), *("-" if ns is None else _signed(ns) for ns in cells))
    return table
