"""What must hold of any run, however broken: each part of tracekit is asked for all that it can tell of it.

Whatever a part raises but TracekitError is a fault, and so is what an `assert` here denies.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np
import pandas as pd

from tests.hostile import SCRIPT
from tracekit.analysis import Analysis, measure_names
from tracekit.compare.difference import difference
from tracekit.errors import NotMeasured, TracekitError
from tracekit.evidence import step_ns
from tracekit.export.perfetto import write_perfetto
from tracekit.gate.check import Verdict, check
from tracekit.gate.history import add, drift, read_history, step_changes
from tracekit.gate.sides import base_side, summary_at
from tracekit.gate.summary import STEP, SUFFIX, Summary, from_json, summary_of, to_json
from tracekit.measures.breakdown import residue_ns
from tracekit.measures.pipeline import CAUSES
from tracekit.model import Run
from tracekit.read.load import load
from tracekit.report.annotations import github_annotations
from tracekit.report.difference_text import difference_text
from tracekit.report.history_text import history_document, history_text
from tracekit.report.html import html_text
from tracekit.report.json import document, json_text
from tracekit.report.junit import junit_xml
from tracekit.report.overview import overview
from tracekit.report.overview_markdown import overview_markdown
from tracekit.report.text import account_text
from tracekit.report.verdict_json import verdict_document
from tracekit.report.verdict_markdown import verdict_markdown
from tracekit.report.verdict_text import verdict_text
from tracekit.report.whatif import whatif_document, whatif_text

MOST_TIMES = 2.0
"""So many times as long as the base's is the mean step of a run that the gate calls no worse, at most."""


@dataclass(frozen=True)
class Case:
    """A run that was changed and the healthy one that it was made of; a steady run, and changed summaries of that."""

    folder: Path
    healthy: Summary
    steady: Summary
    saved: Sequence[Any]


@contextmanager
def allowed() -> Iterator[None]:
    """What may be said instead of an answer: an error that tracekit raises on purpose, with a sentence."""
    try:
        yield
    except TracekitError as why:
        _has_sentence(why)


def _has_sentence(why: TracekitError) -> None:
    assert str(why).strip(), f"{type(why).__name__} without a sentence"
    assert why.exit_code != 0


def reading(run: Run) -> None:
    """Each rank's tables: spans end after they begin, ranks are told once, steps are in the tables."""
    assert not run.ranks.duplicated(["rank", "window"]).any()
    assert (run.steps["end_ns"] >= run.steps["start_ns"]).all()
    assert not run.steps.duplicated(["rank", "window", "step"]).any()
    assert (run.calls["end_ns"] >= run.calls["start_ns"]).all()
    for key in run.sources:
        with allowed():
            one = run.rank(*key)
            assert (one.work["end_ns"] >= one.work["start_ns"]).all()
            assert (one.host["end_ns"] >= one.host["start_ns"]).all()
            assert one.allocations is not None


def matching(analysis: Analysis) -> None:
    """Every measure; the parts of a step sum to it, and no number is negative or infinite."""
    for name in measure_names():
        with allowed():
            rows = analysis[name]
            numbers = rows.select_dtypes("number").drop(columns=_SIGNED, errors="ignore")
            values = numbers.astype("float64").to_numpy()
            assert not (values < 0).any(), f"{name} is negative: {_where(numbers < 0)}"
            assert not np.isinf(values).any(), f"{name} is infinite: {_where(np.isinf(numbers.astype('float64')))}"
    with allowed():
        assert (residue_ns(analysis["breakdown"]) == 0).all(), "the parts do not sum to the step"


_SIGNED = [
    "start_ns",
    "end_ns",
    "host_start_ns",
    "host_end_ns",
    "rank",
    "step",
    "window",
    "from_rank",
    "to_rank",
    "blamed_rank",
    *CAUSES,
]
"""Points in time, keys, and the bubble's causes, which may make up for one another."""


def _where(flags: pd.DataFrame) -> list[str]:
    return [name for name in flags if flags[name].any()]


def replaying(analysis: Analysis) -> None:
    """Findings and what-if; costs add up to no more than the step."""
    costs = [finding.cost_ns or 0 for finding in analysis.findings]
    assert min(costs, default=0) >= 0
    with suppress(NotMeasured):
        assert sum(costs) <= math.ceil(step_ns(analysis.run)), "findings cost more than the step"
    with allowed():
        assert analysis.whatif is not None


def reporting(analysis: Analysis, folder: Path) -> None:
    """Every report: JSON that is JSON, no script of a trace in HTML and Markdown, a merged trace that is one."""
    _whole_json(json_text(document(analysis, calls=True)))
    page = html_text(analysis)
    assert SCRIPT not in page
    assert SCRIPT not in overview_markdown(overview(analysis))
    for width in (40, 120):
        assert _quiet(account_text(analysis, width=width))
    with allowed():
        _whole_json(json_text(whatif_document(analysis.whatif, analysis.run)))
        assert _quiet(whatif_text(analysis.whatif, analysis.run, every=True))
    with allowed():
        count = write_perfetto(analysis, folder / "merged.json")
        events = _whole_json((folder / "merged.json").read_text(encoding="utf-8"))["traceEvents"]
        assert len(events) == count


def _whole_json(text: str) -> Any:
    """The values, by a strict reader."""

    def no_number(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=no_number)


def _quiet(text: str) -> str:
    """Text that turns no terminal's state: no control bytes but newlines."""
    assert all(char >= " " or char == "\n" for char in text), "a control byte is shown"
    text.encode("utf-8")
    return text


def gating(analysis: Analysis, case: Case) -> None:
    """The gate on both sides, and what it shows."""
    with allowed():
        new = summary_of(analysis, commit="new")
        assert from_json(to_json(new), "kept") == new
        _compared(case.healthy, new)
        _compared(new, case.healthy)


def saved_summaries(case: Case, folder: Path) -> None:
    """Saved summaries with something else in them, as each side and in a history."""
    history = folder / "history"
    add(case.steady, history)
    for nth, told in enumerate(case.saved):
        file = history / f"changed{nth}{SUFFIX}"
        file.write_text(json.dumps(told), encoding="utf-8")
        with allowed():
            changed = summary_at(str(file))
            _compared(case.steady, changed)
            _compared(changed, case.steady)
    with allowed():
        _history(history, case.steady)


def _history(folder: Path, new: Summary) -> None:
    """What is told of a history, and the verdict on a run that it is the base of."""
    history = read_history(folder)
    assert history_text(history, [STEP])
    _whole_json(json.dumps(history_document(history, [STEP]), allow_nan=False))
    step_changes(history.summaries, STEP)
    drift(history.summaries, STEP)
    base, drifts = base_side([str(folder)], new)
    _shown(check(base, [new], drifts=drifts))


def _compared(base: Summary, new: Summary) -> None:
    """The verdict, also where all that differs is allowed."""
    for allow in ((), ("all",)):
        with allowed():
            verdict = check([base], [new], allow=allow)
            _shown(verdict)
            if verdict.exit_code == 0 and verdict.outcome != "unsure":
                was, now = _mean_step(base), _mean_step(new)
                assert 0 < now <= MOST_TIMES * was < math.inf, f"passed with steps of {now:g} after {was:g} ns"
    assert _quiet(difference_text(difference(base.account, new.account)))


def _mean_step(one: Summary) -> float:
    return sum(one.step_values) / len(one.step_values)


def _shown(verdict: Verdict) -> None:
    _whole_json(json_text(verdict_document(verdict)))
    expat.ParserCreate().Parse(junit_xml(verdict), True)
    assert SCRIPT not in verdict_markdown(verdict)
    assert _quiet(verdict_text(verdict))
    assert github_annotations(verdict) is not None


def unreadable(case: Case) -> None:
    """Where no trace can be read, the gate does not pass, on whichever side it is."""
    try:
        summary = summary_at(str(case.folder), lambda path: Analysis(load(path, cache=False)))
    except TracekitError:
        return
    raise AssertionError(f"a run that cannot be read has {summary.steps} steps")


PARTS: dict[str, Callable[[Analysis, Case, Path], None]] = {
    "reader": lambda analysis, *_: reading(analysis.run),
    "matching": lambda analysis, *_: matching(analysis),
    "replay": lambda analysis, *_: replaying(analysis),
    "report": lambda analysis, _, scratch: reporting(analysis, scratch),
    "gate": lambda analysis, case, _: gating(analysis, case),
}


def examine(case: Case, scratch: Path, parts: tuple[str, ...] = tuple(PARTS)) -> bool:
    """Asks the parts for all that they tell of the case; whether it could be read. `scratch` is an empty folder."""
    if "gate" in parts:
        saved_summaries(case, scratch)
    try:
        run = load(case.folder, cache=False)
    except TracekitError as why:
        _has_sentence(why)
        unreadable(case)
        return False
    analysis = Analysis(run)
    for part in parts:
        PARTS[part](analysis, case, scratch)
    return True
