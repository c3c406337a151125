"""A history for the terminal: a line per run, a sparkline, where the level stepped, whether it drifts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from tracekit.gate.history import History, drift, step_changes, values_of
from tracekit.gate.metrics import Series
from tracekit.report.gate_wording import metric_name, value
from tracekit.wording import plain, sentence

BARS = "▁▂▃▄▅▆▇█"
LATEST = 30


def sparkline(values: Sequence[float]) -> str:
    """The values as bars, the lowest as the least of them."""
    low, high = min(values), max(values)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((one - low) * scale)] for one in values)


def history_text(history: History, metrics: Sequence[str]) -> str:
    """The metrics (by full name) over the runs, the latest last."""
    return "".join(f"{line}\n" for line in _lines(history, metrics))


def _lines(history: History, metrics: Sequence[str]) -> Iterator[str]:
    runs = history.summaries
    yield f"{plain(history.folder)}: {len(runs)} {'run' if len(runs) == 1 else 'runs'}"
    for why in history.unread:
        yield f"not read: {sentence(why)}"
    known = [name for name in metrics if any(name in run.metrics for run in runs)]
    for name in known:
        yield from _metric(history, name)
    yield ""
    changes = {change.at for name in known for change in step_changes(runs, name)}
    heads = [metric_name(name, 24) for name in known]
    yield f"  {'saved':16}  {'commit':9}  {'steps':>5}  " + "  ".join(f"{head:>12}" for head in heads)
    if len(runs) > LATEST:
        yield f"  ... {len(runs) - LATEST} older runs"
    for at, run in list(enumerate(runs))[-LATEST:]:
        cells = [_cell(run.metrics.get(name)) for name in known]
        mark = ">" if at in changes else " "
        saved = plain(run.saved_at[:16]).replace("T", " ")
        yield f"{mark} {saved:16}  {plain(run.commit[:9]) or '-':9}  {run.steps:5}  " + "  ".join(
            f"{cell:>12}" for cell in cells
        )


def _cell(series: Series | None) -> str:
    return value(series.unit, sum(series.values) / len(series.values)) if series and series.values else "-"


def _metric(history: History, name: str) -> Iterator[str]:
    runs = history.summaries
    known = values_of(runs, name)
    unit = next(run.metrics[name].unit for run in runs if name in run.metrics)
    numbers = [number for _, number in known]
    last = value(unit, numbers[-1])
    yield f"{metric_name(name):16}  {sparkline(numbers[-LATEST:])}  {last}"
    for change in step_changes(runs, name):
        told = f"{value(unit, change.from_value)} → {value(unit, change.to_value)} ({100 * change.changed_frac:+.1f} %)"
        yield f"{'':16}  stepped at {plain(change.commit[:9]) or 'run ' + str(change.at + 1)}: {told}"
    drifting = drift(runs, name)
    if drifting is not None:
        yield f"{'':16}  drifts {100 * drifting.per_run_frac:+.2f} % a run over {drifting.runs} runs"


def history_document(history: History, metrics: Sequence[str]) -> dict[str, object]:
    """The history as dicts and lists: runs, and for each metric its means, steps and drift."""
    runs = history.summaries
    return {
        "schema": 1,
        "folder": history.folder,
        "unread": list(history.unread),
        "runs": [
            {"saved_at": one.saved_at, "commit": one.commit, "label": one.label, "steps": one.steps} for one in runs
        ],
        "metrics": {name: _document(history, name) for name in metrics if values_of(runs, name)},
    }


def _document(history: History, name: str) -> dict[str, object]:
    runs = history.summaries
    means = dict(values_of(runs, name))
    drifting = drift(runs, name)
    return {
        "unit": next(run.metrics[name].unit for run in runs if name in run.metrics),
        "values": [means.get(at) for at in range(len(runs))],
        "steps": [{**asdict(one), "changed_frac": one.changed_frac} for one in step_changes(runs, name)],
        "drift": None if drifting is None else asdict(drifting),
    }
