"""A run as the gate keeps it: metrics per step, what the step is made of, facts, findings; to JSON and back.

A summary is written whole or not at all (to a temporary file, then renamed), so that no reader meets a half.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

from tracekit.analysis import Analysis
from tracekit.compare.account import Account, Amount, account_of
from tracekit.errors import NotMeasured, Unreadable, WrongUse
from tracekit.gate.facts import facts_of
from tracekit.gate.metrics import Series, metrics_of
from tracekit.model import Severity

SCHEMA = 1
DISTRIBUTION = "tracekit-torch"
SUFFIX = ".summary.json"
LARGEST_BYTES = 256 << 20
COMMIT_VARIABLES = ("TRACEKIT_COMMIT", "GITHUB_SHA", "CI_COMMIT_SHA", "BUILDKITE_COMMIT", "GIT_COMMIT")
STEP = "breakdown.step_ns"
MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""For each old schema that can still be read: what makes it the next one."""


@dataclass(frozen=True)
class Found:
    """A finding, as far as the gate compares them."""

    code: str
    severity: Severity
    title: str
    ranks: tuple[int, ...] = ()
    cost_ns: Amount = 0.0


@dataclass(frozen=True)
class Summary:
    """One run. `metrics` are named as in `gate.metrics`; `facts` as in `gate.facts`; `findings` null if not sought."""

    schema: int
    tracekit: str
    saved_at: str
    commit: str
    label: str
    steps: int
    facts: dict[str, str]
    metrics: dict[str, Series]
    account: Account
    findings: tuple[Found, ...] | None = None
    notes: dict[str, int] = field(default_factory=dict)

    @property
    def step_values(self) -> tuple[float, ...]:
        """The step times in nanoseconds, in order."""
        return self.metrics[STEP].values


def summary_of(analysis: Analysis, *, commit: str = "", label: str = "", now: datetime | None = None) -> Summary:
    """The run's summary; Unreadable where it has no complete step, and so nothing to judge."""
    run = analysis.run
    try:
        metrics = metrics_of(analysis)
    except NotMeasured as why:
        raise Unreadable(f"{run.path}: {why}") from why
    if not _has_time(metrics):
        raise Unreadable(f"{run.path} has no complete step that takes time: there is nothing to compare")
    counts = run.notes[run.notes["severity"] != "info"]["code"].value_counts()
    saved_at = (now or datetime.now(UTC)).isoformat(timespec="microseconds")
    return Summary(
        SCHEMA, own_version(), saved_at, commit or current_commit(),
        label or run.path, len(metrics[STEP].values), facts_of(analysis), metrics, account_of(analysis),
        _findings(analysis), {str(code): int(count) for code, count in counts.items()},
    )  # fmt: skip


def _has_time(metrics: Mapping[str, Series]) -> bool:
    """Whether there are steps, none of them is shorter than nothing, and some are longer."""
    steps = metrics[STEP].values if STEP in metrics else ()
    return bool(steps) and min(steps) >= 0 < max(steps)


def _findings(analysis: Analysis) -> tuple[Found, ...] | None:
    told = getattr(analysis, "findings", None)
    if told is None:
        return None
    return tuple(
        Found(str(one.code), one.severity, str(one.title), tuple(map(int, one.ranks)), float(one.cost_ns or 0))
        for one in told
    )


def own_version() -> str:
    """The installed version of tracekit; "" where it is not installed."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return ""


def current_commit() -> str:
    """The commit that CI says it builds, or that is checked out here; "" for none."""
    for name in COMMIT_VARIABLES:
        if os.environ.get(name):
            return os.environ[name]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        told = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10, check=False)
        return told.stdout.strip() if told.returncode == 0 else ""
    return ""


def to_json(summary: Summary) -> bytes:
    """The summary as JSON."""
    return msgspec.json.encode(summary) + b"\n"


def from_json(text: bytes, where: str) -> Summary:
    """The summary that JSON holds; Unreadable, with what is wrong, where it is none that can be used."""
    try:
        told = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as why:
        raise Unreadable(f"{where} is no whole summary (cut off, perhaps): {why}") from why
    if not isinstance(told, dict) or not {"schema", "metrics", "account"} <= set(told):
        raise Unreadable(f"{where} is no summary of tracekit: make one with tracekit check RUN --save FILE")
    try:
        summary = msgspec.convert(_migrated(told, where), Summary)
    except msgspec.ValidationError as why:
        raise Unreadable(f"{where} is no summary of tracekit {own_version()}: {why}") from why
    if not _has_time(summary.metrics):
        raise Unreadable(f"{where} has no step that takes time: there is nothing to compare")
    return summary


def _migrated(told: dict[str, Any], where: str) -> dict[str, Any]:
    """The summary in today's schema; Unreadable where there is no way from its own."""
    schema = told["schema"]
    if isinstance(schema, int) and schema > SCHEMA:
        raise Unreadable(f"{where} has schema {schema}, this tracekit reads up to {SCHEMA}: update tracekit")
    while told["schema"] != SCHEMA:
        migrate = MIGRATIONS.get(told["schema"]) if isinstance(told["schema"], int) else None
        if migrate is None:
            raise Unreadable(
                f"{where} has schema {schema!r}, which this tracekit no longer reads (it reads {SCHEMA}): "
                "make the summary again from the traces"
            )
        told = migrate(told)
    return told


def is_summary(path: str) -> bool:
    """Whether a path names a file that holds a summary and no trace: its name, or its first bytes, say so."""
    file = Path(path)
    if not file.is_file() or file.suffix != ".json":
        return False
    if path.endswith(SUFFIX):
        return True
    with file.open("rb") as opened:
        return opened.read(10).replace(b" ", b"").startswith(b'{"schema":') and not _is_analysis(file)


def _is_analysis(file: Path) -> bool:
    with file.open("rb") as opened:
        return b'"traceEvents"' in opened.read(4096)


def read_summary(path: str | Path) -> Summary:
    """The summary in a file; Unreadable where there is none."""
    file = Path(path)
    try:
        if file.stat().st_size > LARGEST_BYTES:
            raise Unreadable(f"{path} is larger than any summary ({LARGEST_BYTES >> 20} MiB)")
        return from_json(file.read_bytes(), str(path))
    except OSError as why:
        raise Unreadable(f"{path}: {why.strerror}") from why


def write_summary(summary: Summary, path: str | Path) -> Path:
    """Writes the summary into a file, in place of what was there; WrongUse where that cannot be."""
    return _written(summary, Path(path), os.replace)


def write_new(summary: Summary, path: Path) -> Path:
    """Writes the summary into a file that must not be there yet."""

    def link(temporary: str, final: str) -> None:
        try:
            os.link(temporary, final)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            os.rename(temporary, final)
        else:
            os.unlink(temporary)

    return _written(summary, path, link)


def _written(summary: Summary, path: Path, place: Callable[[str, str], None]) -> Path:
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as file:
            file.write(to_json(summary))
            file.flush()
            os.fsync(file.fileno())
        place(str(temporary), str(path))
    except OSError as why:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise WrongUse(f"{path}: the summary cannot be written: {why.strerror}") from why
    return path


def with_facts(summary: Summary, facts: Mapping[str, str]) -> Summary:
    """The summary with facts that a person adds, such as a model's version."""
    return replace(summary, facts={**summary.facts, **facts})
