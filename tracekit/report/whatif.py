"""What mending would buy, on a screen and as JSON for scripts."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from tracekit.model import Run
from tracekit.replay.replay import TRUSTED_FRAC
from tracekit.replay.whatif import WhatIf
from tracekit.report.json import SCHEMA, records
from tracekit.report.screen import screen_text
from tracekit.wording import TimeUnit, counted, plain, time_unit

ROWS, PATH_ROWS = 12, 6
WORTH_FRAC = 0.001
"""Changes that save less than this share of the step are left to the JSON."""


def whatif_document(told: WhatIf, run: Run) -> dict[str, object]:
    """The answers as dicts, lists, text, numbers and None, ready for `json_text`."""
    numbers = ("measured_step_ns", "step_ns", "ideal_step_ns", "slowdown", "waste_frac", "replay_error_frac", "trusted")
    return {
        "schema": SCHEMA,
        "run": {"path": run.path, "ranks": int(run.ranks["rank"].nunique())},
        **{name: getattr(told, name) for name in numbers},
        "doubts": list(told.doubts),
        "m_workers": told.m_workers,
        "m_last_stage": told.m_last_stage,
        "slowest_workers": list(told.slowest_workers),
        "whatif": records(told.changes.drop(columns="words")),
        "by_rank": records(told.by_rank),
        "by_stage": records(told.by_stage),
        "by_class": records(told.by_class),
        "steps": records(told.steps),
        "critical_path": records(told.path),
    }


def whatif_text(told: WhatIf, run: Run, *, width: int = 80, colour: bool = False, every: bool = False) -> str:
    """The screen, of at most `width` columns; with `every`, changes that save nothing too."""
    return screen_text(_screen(told, run, every=every), width=width, colour=colour)


def _screen(told: WhatIf, run: Run, *, every: bool) -> Iterator[RenderableType]:
    unit = time_unit(max(told.step_ns, told.measured_step_ns))
    yield Text(plain(run.path), style="bold")
    yield Text(
        f"A step took {unit.with_name(told.measured_step_ns)} (mean of {counted(len(told.steps), 'step')}); replayed "
        f"with the measured durations it takes {unit.with_name(told.step_ns)}: {_error(told)} off."
    )
    if not told.trusted:
        yield Text(
            f"Not to be trusted for this run: the replay is more than {TRUSTED_FRAC:.0%} off. "
            + " ".join(f"{doubt[0].upper()}{doubt[1:]}." for doubt in told.doubts),
            style="yellow",
        )
    yield from ("", _table(told, unit, every=every), "", _slowdown(told, unit))
    yield from _by(told)
    yield from ("", *_path(told, unit))


def _error(told: WhatIf) -> str:
    return f"{100 * told.replay_error_frac:.2f} %"


def _table(told: WhatIf, unit: TimeUnit, *, every: bool) -> RenderableType:
    rows = told.changes if every else told.changes[told.changes["saved_frac"] >= WORTH_FRAC]
    if rows.empty:
        return Text("Nothing that could be mended would save more than a thousandth of the step.")
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("if this were mended")
    table.add_column(f"step, {unit.name}", justify="right", no_wrap=True)
    table.add_column("saved", justify="right", no_wrap=True)
    table.add_column("as an option", style="dim", no_wrap=True)
    shown = rows if every else rows.head(ROWS)
    columns = (shown[name].tolist() for name in ("what", "words", "step_ns", "saved_frac"))
    for what, words, step_ns, saved_frac in zip(*columns, strict=True):
        table.add_row(words, unit.of(step_ns), f"{100 * saved_frac:.1f} %", _option(what))
    return table


def _option(what: str) -> str:
    """The change as it is asked for on the command line."""
    kind, _, name = what.partition(":")
    if " + " in what or kind == "microbatches":
        return ""
    if kind == "links":
        return f"--links {name}"
    fixes = ("rank", "stage", "class", "axis")
    return f"--fix {plain(what, 40)}" if kind in fixes else f"--ideal {plain(what, 40)}"


def _slowdown(told: WhatIf, unit: TimeUnit) -> RenderableType:
    if told.slowdown <= 1:
        return Text(f"With all work at its mean and all transfers at their median the step would be no shorter: "
                    f"slowdown {told.slowdown:.3f}.")  # fmt: skip
    return Text(
        f"Slowdown {told.slowdown:.3f}: with all work at its mean and all transfers at their median a step would take "
        f"{unit.with_name(told.ideal_step_ns)}; {100 * told.waste_frac:.1f} % of the time is wasted."
    )


def _by(told: WhatIf) -> Iterator[RenderableType]:
    """Which ranks, stages and classes alone would slow the ideal down, and what M_W and M_S say."""
    for key, table in (("rank", told.by_rank), ("stage", told.by_stage), ("class", told.by_class)):
        slow = table[table["slowdown"] > 1 + WORTH_FRAC].head(PATH_ROWS)
        if len(slow):
            names = ", ".join(f"{plain(str(name), 40)} {slowdown:.3f}" for name, slowdown in _pairs(slow, key))
            yield Text(f"Slowdown of each {key} alone: {names}.")
    saved = told.step_ns - told.ideal_step_ns
    if told.m_workers is not None and saved > WORTH_FRAC * told.step_ns:
        ranks = ", ".join(map(str, told.slowest_workers))
        yield Text(f"Of that, {_whole(told.m_workers)} % goes with the slowest workers alone (rank {ranks}).")
        if told.m_last_stage is not None:
            yield Text(f"With the last pipeline stage alone {_whole(told.m_last_stage)} % goes.")


def _whole(share: float) -> int:
    return round(100 * share)


def _pairs(table: pd.DataFrame, key: str) -> list[tuple[object, float]]:
    return list(zip(table[key].tolist(), table["slowdown"].tolist(), strict=True))


def _path(told: WhatIf, unit: TimeUnit) -> Iterator[RenderableType]:
    """What the critical path is made of, and on which ranks."""
    yield Text("The critical path of the job, per step:", style="bold")
    table = Table.grid(padding=(0, 2, 0, 0))
    shown = told.path_shares.head(PATH_ROWS)
    columns = (shown[name].tolist() for name in ("what", "length_ns", "frac"))
    for what, length_ns, frac in zip(*columns, strict=True):
        ranks = told.path[told.path["what"] == what].groupby("rank")["length_ns"].sum()
        most = (ranks / ranks.sum()).sort_values(ascending=False, kind="stable").head(3)
        where = ", ".join(f"rank {rank} {part:.0%}" for rank, part in most.items())
        table.add_row(plain(what, 40), unit.with_name(length_ns), f"{frac:.0%}", Text(where, style="dim"))
    yield table
