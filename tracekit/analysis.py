"""A run with its measures, its replay and its findings, each computed once, when asked for."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType

import pandas as pd

from tracekit import measures
from tracekit.diagnosis import findings_of
from tracekit.errors import NotMeasured, WrongUse
from tracekit.model import Column, Finding, Run
from tracekit.replay.costs import Costs
from tracekit.replay.replay import Replay, replay_of
from tracekit.replay.whatif import WhatIf, what_if


@dataclass(frozen=True)
class Answers:
    """What was found out about a run before: measures by name, findings, what-if; or why there is none."""

    measures: dict[str, pd.DataFrame | NotMeasured]
    findings: tuple[Finding, ...]
    whatif: WhatIf | NotMeasured


class Analysis:
    """Gives measures by name: `Analysis(run)["overlap"]` is a frame with the columns that the measure declares."""

    def __init__(self, run: Run, known: Answers | None = None) -> None:
        self._run, self._known = run, known
        self._asked: dict[str, pd.DataFrame | NotMeasured] = dict(known.measures) if known else {}

    @property
    def run(self) -> Run:
        """The run that is analysed."""
        return self._run

    @property
    def answered(self) -> bool:
        """Whether its answers are known from before."""
        return self._known is not None

    def __getitem__(self, name: str) -> pd.DataFrame:
        """The measure's rows; NotMeasured where the run lacks its input, WrongUse where there is no such measure."""
        if name not in self._asked:
            self._asked[name] = self._measured(name)
        answer = self._asked[name]
        if isinstance(answer, NotMeasured):
            raise answer
        return answer.copy(deep=False)

    @cached_property
    def replay(self) -> Replay:
        """The run ready to be replayed with other durations; NotMeasured where it has nothing to replay."""
        return replay_of(self)

    @cached_property
    def whatif(self) -> WhatIf:
        """What mending each thing would buy; NotMeasured where there is nothing to replay."""
        if self._known is None:
            return what_if(self.replay, self)
        if isinstance(self._known.whatif, NotMeasured):
            raise self._known.whatif
        return self._known.whatif

    @cached_property
    def costs(self) -> Costs:
        """What mending one thing would save."""
        try:
            return Costs(self.replay)
        except NotMeasured:
            return Costs(None)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong with the job, the costliest first."""
        return findings_of(self) if self._known is None else self._known.findings

    def _measured(self, name: str) -> pd.DataFrame | NotMeasured:
        module = measure_module(name)
        try:
            rows: pd.DataFrame = module.measure(self)
        except NotMeasured as why:
            return why
        columns = list(module.COLUMNS)
        if "rank" in columns and "window" in rows and "window" not in columns:
            columns.insert(columns.index("rank") + 1, "window")
        return rows[columns]


def measure_names() -> list[str]:
    """The names of all measures, in alphabetical order: every file in `tracekit/measures` is one."""
    return sorted(module.name for module in pkgutil.iter_modules(measures.__path__))


def measure_module(name: str) -> ModuleType:
    """The measure's module, with its docstring, `COLUMNS` and `measure`; WrongUse where there is none."""
    if name not in measure_names():
        raise WrongUse(f"no measure is named {name!r}; there are {', '.join(measure_names())}")
    return importlib.import_module(f"{measures.__name__}.{name}")


def measure_columns(name: str) -> dict[str, Column]:
    """The measure's columns with their units and which way is better."""
    columns: dict[str, Column] = measure_module(name).COLUMNS
    return columns
