"""The grammar of budgets: how much worse a metric may get.

    step:5%                  5 % slower at most
    step:5%,1ms              more than 5 % and more than 1 ms slower is too much: both limits must be passed
    exposed_comm:0.5ms       half a millisecond more at most;  exposed_comm[data]:0.5ms  of one parallel axis
    bubble:+0.02             two points more of the makespan;  overlap:-5%  a twentieth less of itself
    host.sync_ns:10%         any column of a measure of which `tracekit explain` tells which way is better
    step:off  findings:off   takes a default budget away

`%` is always relative to the base; shares (bubble, overlap) are from 0 to 1, so that 0.02 is two points. A sign, if
there is one, says which way is worse.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tracekit.errors import NotMeasured, WrongUse
from tracekit.gate.metrics import HEADLINES, KEYED_HEADLINES, Series

DEFAULT = ("step:1%,10us", "bubble:+0.03", "overlap:-0.1", "memory:2%,16MiB", "findings:new")
"""What is gated if nothing is said. Shares tell on machines too restless for times; see `yields`."""
FINDINGS = "findings"
UNITS = {
    "ns": {"s": 1e9, "ms": 1e6, "us": 1e3, "µs": 1e3, "ns": 1.0},
    "bytes": {"B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30},
    "GB/s": {"GB/s": 1.0, "MB/s": 1e-3},
    "frac": {"": 1.0},
    "count": {"": 1.0},
}
_BUDGET = re.compile(r"(?P<name>[\w.]+)(?:\[(?P<key>[^\]]*)\])?\s*:\s*(?P<limits>\S.*)")
_LIMIT = re.compile(r"(?P<sign>[+-]?)(?P<number>\d+(?:\.\d*)?|\.\d+)\s*(?P<unit>%|[A-Za-zµ/]*)")


@dataclass(frozen=True)
class Budget:
    """How much worse the metrics of a name may get: more than `relative` of the base and more than `absolute`.

    `absolute` counts in `unit`s, as typed. `sign` is "" where none was typed. `off` takes the metric out of the gate.
    """

    text: str
    name: str
    key: str | None
    relative: float | None = None
    absolute: float | None = None
    unit: str = ""
    sign: str = ""
    off: bool = False

    @property
    def yields(self) -> bool:
        """Whether it is a default on a share, which does not count against a run whose step got better."""
        return self.text in DEFAULT and self.unit == "" and self.relative is None

    def metric(self) -> str:
        """The metric that the name stands for, without a key."""
        if self.key is not None and self.name in KEYED_HEADLINES:
            return KEYED_HEADLINES[self.name]
        return HEADLINES.get(self.name, self.name)

    def limit(self, base: float, series: Series) -> float:
        """How much worse than `base` the series may get; WrongUse where the unit or the sign does not fit it."""
        self._check(series)
        relative = abs(base) * self.relative if self.relative is not None else 0.0
        absolute = self.absolute * UNITS[series.unit][self.unit] if self.absolute is not None else 0.0
        return max(relative, absolute)

    def _check(self, series: Series) -> None:
        if self.absolute is not None and self.unit not in UNITS[series.unit]:
            units = ", ".join(unit or "none" for unit in UNITS[series.unit])
            raise WrongUse(f"budget {self.text!r}: its unit must be % or one of {units}")
        if self.sign and self.sign != ("-" if series.better == "up" else "+"):
            better = "higher" if series.better == "up" else "lower"
            raise WrongUse(f"budget {self.text!r}: {self.name} is better when {better}, so its sign is the other one")


def parsed(text: str) -> Budget:
    """The budget that a text means; WrongUse where it means none."""
    found = _BUDGET.fullmatch(text.strip())
    if found is None:
        raise WrongUse(f"no budget {text!r}: it is written as step:5%, exposed_comm:0.5ms, bubble:+0.02 or step:5%,1ms")
    name, key, limits = found["name"], found["key"], found["limits"].strip()
    if limits == "off" or (name == FINDINGS and limits == "new"):
        return Budget(text, name, key, off=limits == "off")
    if name == FINDINGS:
        raise WrongUse(f"budget {text!r}: findings:new fails for new findings, findings:off for none")
    return _with_limits(text, name, key, limits.split(","))


def _with_limits(text: str, name: str, key: str | None, limits: Sequence[str]) -> Budget:
    told = [_LIMIT.fullmatch(limit.strip()) for limit in limits]
    relative = [float(one["number"]) / 100 for one in told if one and one["unit"] == "%"]
    absolute = [(float(one["number"]), one["unit"]) for one in told if one and one["unit"] != "%"]
    known = {unit for units in UNITS.values() for unit in units}
    signs = {one["sign"] for one in told if one and one["sign"]}
    wrong = None in told or len(relative) > 1 or len(absolute) > 1 or len(signs) > 1
    if wrong or any(unit not in known for _, unit in absolute):
        raise WrongUse(
            f"budget {text!r}: its limits are a percentage, a value such as 0.5ms, 16MiB or 0.02, or both with a comma"
        )
    return Budget(
        text, name, key, relative[0] if relative else None, absolute[0][0] if absolute else None,
        absolute[0][1] if absolute else "", signs.pop() if signs else "",
    )  # fmt: skip


def chosen(asked: Iterable[str]) -> list[Budget]:
    """The default budgets and those asked for, of which the last of a name counts."""
    held: dict[tuple[str, str | None], Budget] = {}
    for budget in [parsed(text) for text in (*DEFAULT, *asked)]:
        held[budget.metric(), budget.key] = budget
    return list(held.values())


def gated(budgets: Sequence[Budget], asked: Iterable[str], metrics: Mapping[str, Series]) -> dict[str, Budget]:
    """Each gated metric with its budget.

    WrongUse where a budget that was asked for names nothing that could be measured, NotMeasured where neither run
    measured it. A default budget of which nothing is measured is left out.
    """
    typed = {(budget.metric(), budget.key) for budget in map(parsed, asked)}
    found: dict[str, Budget] = {}
    for budget in budgets:
        if budget.name == FINDINGS:
            continue
        names = _named(budget, metrics)
        if not names and (budget.metric(), budget.key) in typed and not budget.off:
            raise _nothing_named(budget, metrics)
        for name in names:
            budget.limit(1.0, metrics[name])
            found[name] = budget
            if budget.off:
                del found[name]
    return found


def _named(budget: Budget, metrics: Mapping[str, Series]) -> list[str]:
    metric = budget.metric()
    if budget.key is not None:
        keys = [part.strip() for part in budget.key.split(",")]
        return [name for name in metrics if _stem(name) == metric and set(keys) <= set(_keys(name))]
    names = [name for name in metrics if _stem(name) == metric]
    if names or "." in metric:
        return names
    stems = {_stem(name) for name in metrics if _stem(name).partition(".")[2] == metric}
    if len(stems) > 1:
        raise WrongUse(f"budget {budget.text!r} may mean {', '.join(sorted(stems))}: name one of them")
    return [name for name in metrics if _stem(name) in stems]


def _stem(name: str) -> str:
    return name.partition("[")[0]


def _keys(name: str) -> list[str]:
    return [part.strip() for part in name.partition("[")[2].removesuffix("]").split(",")]


def _nothing_named(budget: Budget, metrics: Mapping[str, Series]) -> WrongUse | NotMeasured:
    stem = budget.metric()
    same = sorted(name for name in metrics if _stem(name) == stem)
    if same:
        return WrongUse(f"budget {budget.text!r}: no such key; there are {', '.join(same[:8])}")
    if budget.name in HEADLINES or _could_be(stem):
        return NotMeasured(f"budget {budget.text!r}: neither run has what {budget.name} is measured from")
    return WrongUse(
        f"budget {budget.text!r}: there is no metric {budget.name!r}; there are {', '.join(HEADLINES)}, and "
        "measure.column, as in host.sync_ns (tracekit explain lists the measures)"
    )


def _could_be(stem: str) -> bool:
    from tracekit.analysis import measure_columns, measure_names

    measure, _, column = stem.partition(".")
    return measure in measure_names() and bool(getattr(measure_columns(measure).get(column), "better", ""))
