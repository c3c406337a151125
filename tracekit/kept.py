"""An analysis' answers kept beside the parsed ranks, so that a run that was looked at once opens with its findings.

An entry is one file, named by what its answers were made of: the ranks' own entries, their clocks and steps, and the
files of this very program, so that other files or other code never meet old answers. It holds tables as Arrow streams
and the rest as MessagePack, with a checksum in front; what is not as it was written counts as not there.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import fields
from functools import cache
from pathlib import Path
from uuid import uuid4

import msgspec
import pandas as pd
import pyarrow as pa
from isal import isal_zlib

from tracekit.analysis import Analysis, Answers
from tracekit.errors import NotMeasured
from tracekit.model import Finding, Run
from tracekit.read.cache import ENTRY, READER_VERSION, ParquetTables
from tracekit.replay.whatif import WhatIf

MOST_BYTES = 64 << 20
"""Larger answers are made again: they would crowd out the ranks."""
WORLD = "answers"


class _Kept(msgspec.Struct):
    """Answers as they are written; `absent` are reasons why there is no such measure, `no_whatif` why no what-if."""

    measures: dict[str, bytes]
    absent: dict[str, str]
    findings: list[Finding]
    whatif_tables: dict[str, bytes]
    whatif_values: dict[str, list[int | str] | int | float | None]
    no_whatif: str


def keep(analysis: Analysis, measures: list[str]) -> bool:
    """Writes the answers to these measures, the findings and the what-if; whether that could be done."""
    place = _place(analysis.run)
    if place is None:
        return False
    try:
        text = msgspec.msgpack.encode(_kept(analysis, measures))
        if len(text) > MOST_BYTES:
            return False
        place.parent.mkdir(parents=True, exist_ok=True)
        beside = place.with_name(f"writing-{os.getpid()}-{uuid4().hex}")
        try:
            beside.write_bytes(b"%08x\n" % isal_zlib.crc32(text) + text)
            beside.replace(place)
        finally:
            beside.unlink(missing_ok=True)
    except (OSError, pa.ArrowException, TypeError, OverflowError):
        return False
    return True


def analysis_of(run: Run) -> Analysis:
    """The run's analysis, `answered` where its answers were kept."""
    place = _place(run)
    if place is not None:
        with suppress(OSError, ValueError, TypeError, KeyError, msgspec.MsgspecError, pa.ArrowException):
            check, _, text = place.read_bytes().partition(b"\n")
            if check == b"%08x" % isal_zlib.crc32(text):
                answers = _answers(msgspec.msgpack.decode(text, type=_Kept))
                with suppress(OSError):
                    os.utime(place)
                return Analysis(run, answers)
    return Analysis(run)


def _place(run: Run) -> Path | None:
    """Where the run's answers are kept; None where its ranks are not kept either."""
    sources = [source for _, source in sorted(run.sources.items())]
    if not sources or not all(isinstance(one, ParquetTables) and one.settings.folder for one in sources):
        return None
    made_of = hashlib.sha256(_program().encode())
    for source in sources:
        assert isinstance(source, ParquetTables)
        if Path(source.folder).parent != Path(source.settings.folder):
            return None  # in a temporary folder
        made_of.update(f"{Path(source.folder).name} {source.part} {source.clock_offset_ns}\0".encode())
        root = Path(source.settings.folder)
    for rows in (run.steps, run.ranks.drop(columns="file")):
        made_of.update(pd.util.hash_pandas_object(rows, index=False).to_numpy().tobytes())
    return root / f"{WORLD}-{made_of.hexdigest()[:40]}" / ENTRY


@cache
def _program() -> str:
    """What tells this program from any other: its files and when they changed."""
    here = Path(__file__).parent
    stats = [(file, file.stat()) for file in sorted(here.rglob("*.py"))]
    told = [f"{file.relative_to(here)} {one.st_size} {one.st_mtime_ns}" for file, one in stats]
    return "\n".join([str(READER_VERSION), pd.__version__, *told])


def _kept(analysis: Analysis, measures: list[str]) -> _Kept:
    told, absent, findings = {}, {}, list(analysis.findings)
    for name in measures:
        try:
            told[name] = _packed(analysis[name])
        except NotMeasured as why:
            absent[name] = str(why)
    try:
        whatif = analysis.whatif
    except NotMeasured as why:
        return _Kept(told, absent, findings, {}, {}, str(why))
    values = {one.name: getattr(whatif, one.name) for one in fields(WhatIf)}
    tables = {name: _packed(value) for name, value in values.items() if isinstance(value, pd.DataFrame)}
    rest = {name: value for name, value in values.items() if name not in tables}
    return _Kept(told, absent, findings, tables, rest, "")


def _answers(kept: _Kept) -> Answers:
    measures: dict[str, pd.DataFrame | NotMeasured] = {name: _unpacked(told) for name, told in kept.measures.items()}
    measures |= {name: NotMeasured(why) for name, why in kept.absent.items()}
    tables = {name: _unpacked(told) for name, told in kept.whatif_tables.items()}
    values = {name: tuple(told) if isinstance(told, list) else told for name, told in kept.whatif_values.items()}
    whatif = WhatIf(**tables, **values) if tables else NotMeasured(kept.no_whatif)  # type: ignore[arg-type]
    return Answers(measures, tuple(kept.findings), whatif)


def _packed(rows: pd.DataFrame) -> bytes:
    """A table as an Arrow stream; TypeError where it would not come back as it is."""
    held = pa.Table.from_pandas(rows)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, held.schema) as stream:
        stream.write_table(held)
    packed: bytes = sink.getvalue().to_pybytes()
    if not rows.equals(_unpacked(packed)) or list(rows.dtypes) != list(_unpacked(packed).dtypes):
        raise TypeError("the table has values that Arrow does not tell")
    return packed


def _unpacked(packed: bytes) -> pd.DataFrame:
    with pa.ipc.open_stream(pa.BufferReader(packed)) as stream:
        rows: pd.DataFrame = stream.read_all().to_pandas()
    return rows
