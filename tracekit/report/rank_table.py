"""Where the step goes on average, and, in the middle of the screen, a row for each rank, the worst first."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from math import isnan

import pandas as pd
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from tracekit.analysis import Analysis
from tracekit.measures.breakdown import PARTS
from tracekit.report.account import rank_means, waits_known
from tracekit.wording import TimeUnit, counted, percent, time_unit

RANK_ROWS = 16
OWN = {True: "waits for other ranks", False: "exposed comm"}
NAMES = dict(zip(PARTS, ("compute", "exposed comm", "exposed memory", "idle"), strict=True))
STYLES = dict(zip(PARTS, ("green", "magenta", "blue", "yellow"), strict=True))
FILLS = dict(zip(PARTS, "█▓▒·", strict=True))
BAR_LEGEND = "█ compute ▓ comm ▒ memory · idle"
BAR_FROM_WIDTH, NUMBERS_WIDTH = 116, 82

Mean = Mapping[Hashable, float]


def step_section(analysis: Analysis) -> Iterator[RenderableType]:
    """Two sentences: where the job's step goes, and how much communication is hidden."""
    means = rank_means(analysis)
    if means.empty:
        yield Text("No step is complete, so there is nothing to average; --json tells each step.")
        return
    mean = means.mean(numeric_only=True).to_dict()
    unit = time_unit(means["step_ns"].max())
    yield _step_sentence(mean, unit, len(means))
    yield _hidden_sentence(mean, unit, handles=not analysis.run.calls["device_work"].all())


def rank_section(analysis: Analysis, width: int) -> Iterator[RenderableType]:
    """The ranks as a table, the worst first."""
    means = rank_means(analysis)
    if means.empty:
        return
    mean = means.mean(numeric_only=True).to_dict()
    unit = time_unit(means["step_ns"].max())
    yield _rank_title(means, unit, OWN[waits_known(analysis)])
    yield _rank_table(means, mean, unit, width)
    if len(means) > RANK_ROWS:
        rest = means["own_ns"].iloc[RANK_ROWS:]
        yield Text(f"and {counted(len(rest), 'more rank')}, own {unit.of(rest.min())} to {unit.of(rest.max())}")


def _step_sentence(mean: Mean, unit: TimeUnit, ranks: int) -> Text:
    line = Text("Step ").append(unit.with_name(mean["step_ns"]), style="bold")
    line.append(" on average over the ranks: " if ranks > 1 else ": ")
    for number, part in enumerate(PARTS):
        line.append(", " if number else "")
        line.append(f"{NAMES[part]} {percent(mean[part], mean['step_ns'])}", style=STYLES[part])
    return line.append(".")


def _hidden_sentence(mean: Mean, unit: TimeUnit, *, handles: bool) -> Text:
    """How much is hidden; `handles` are calls whose spans tell no length."""
    if mean["comm_ns"] == 0:
        untold = "No communication but gloo's sends and receives; how long the program waits for them is not annotated."
        return Text(untold if handles else "No communication.")
    hidden = percent(mean["overlap_ns"], mean["comm_ns"])
    return Text(f"Of {unit.with_name(mean['comm_ns'])} of communication {hidden} is hidden under compute.")


def _rank_title(means: pd.DataFrame, unit: TimeUnit, own: str) -> Text:
    fewest, most = means["steps"].min(), means["steps"].max()
    steps = counted(most, "complete step") if fewest == most else f"{fewest} to {counted(most, 'complete step')}"
    title = Text(f"Ranks, {unit.name} a step, mean over {steps}", style="bold")
    if len(means) > 1:
        title.append(f"\nworst first: most own time, which is step - {own}", style="not bold dim")
    return title


def _rank_table(means: pd.DataFrame, mean: Mean, unit: TimeUnit, width: int) -> Table:
    table = _columns_of_ranks("rank/\nwindow" if "window" in means else "rank", compared=len(means) > 1)
    bar = width - NUMBERS_WIDTH if width >= BAR_FROM_WIDTH else 0
    if bar:
        table.add_column(BAR_LEGEND, no_wrap=True, vertical="bottom")
    longest = means["step_ns"].max()
    for row in means.head(RANK_ROWS).to_dict("records"):
        cells = _rank_cells(row, unit, compared=len(means) > 1)
        table.add_row(_rank_label(row), *cells, *([_bar(row, bar / longest)] if bar else []))
    if len(means) > 1:
        table.add_row("mean", *_rank_cells(mean, unit, compared=True), style="dim")
    return table


def _columns_of_ranks(label: str, *, compared: bool) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column(label, justify="right", no_wrap=True, vertical="bottom")
    for heading in ("step", "own") if compared else ("step",):
        table.add_column(heading, justify="right", no_wrap=True, vertical="bottom", min_width=8)
    for part in PARTS:
        table.add_column(NAMES[part].replace(" ", "\n"), justify="right", no_wrap=True, min_width=8, style=STYLES[part])
        table.add_column("%", justify="right", no_wrap=True, min_width=3, style="dim")
    return table


def _rank_label(row: Mean) -> str:
    window = f"/{row['window']:.0f}" if "window" in row else ""
    return f"{row['rank']:.0f}{window}"


def _rank_cells(row: Mean, unit: TimeUnit, *, compared: bool) -> Iterator[str]:
    """The numbers of a row; own time only where ranks are compared by it."""
    for name in ("step_ns", "own_ns") if compared else ("step_ns",):
        yield "-" if isnan(row[name]) else unit.of(row[name])
    for part in PARTS:
        yield from (unit.of(row[part]), percent(row[part], row["step_ns"]).removesuffix(" %"))


def _bar(row: Mean, cells_per_ns: float) -> Text:
    """The parts of a step as a bar, each part ending where the sum so far rounds to."""
    bar, end_ns = Text(), 0.0
    for part in PARTS:
        end_ns += row[part]
        bar.append(FILLS[part] * (round(end_ns * cells_per_ns) - len(bar)), style=STYLES[part])
    return bar
