"""What could read Kineto JSON fastest: each library that pip installs, on the text of one trace, decompressed.

    python -m benchmarks.readers [TRACE] [--repeat 5] [--write]

Each contender gets the same bytes in memory and gives what stands in its row; those that are not installed are left
out. The floor is decompression and one pass of a simdjson-class scan. `--write` puts the table into
`benchmarks/README.md`. None of the contenders but msgspec is needed by tracekit, so none of them is in its extras:
`pip install orjson pysimdjson polars duckdb numba`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import made_trace
from benchmarks.sections import write_section

DOCUMENT = Path(__file__).parent / "README.md"
BLOCK_BYTES = 1 << 18
COLUMNS = {"ph": "str", "cat": "str", "name": "str", "pid": "str", "tid": "str", "ts": "float", "dur": "float"}
Work = Callable[[], object]


def contenders(text: bytes, trace: Path) -> Iterator[tuple[str, str, Callable[[], Work]]]:
    """Name, what it gives, and what makes its work; making raises ImportError where its library is missing."""
    yield "isal", "decompression (floor)", lambda: _decompression(trace)
    yield "pysimdjson", "one scan, no values (floor)", lambda: _scan(text)
    yield "json", "objects of everything", lambda: lambda: json.loads(text)
    yield "orjson", "objects of everything", lambda: _orjson(text)
    yield "msgspec", "objects of everything", lambda: _untyped(text)
    yield "pysimdjson", "three fields of each event", lambda: _fields(text)
    yield "pyarrow.json", "five columns", lambda: _arrow(text)
    yield "polars", "seven columns, text made NDJSON", lambda: _polars(text)
    yield "duckdb", "eight columns, from a file in memory", lambda: _duckdb(text)
    yield "numba", "brackets and quotes counted, byte by byte", lambda: _numba(text)
    yield "msgspec structs", "the fields that tracekit reads", lambda: _structs(text)
    yield "tracekit", "its columns, all of them", lambda: _columns(text)


def _decompression(trace: Path) -> Work:
    from isal import igzip

    packed = trace.read_bytes()
    return lambda: igzip.decompress(packed)


def _scan(text: bytes) -> Work:
    import simdjson

    parser = simdjson.Parser()

    def work() -> object:
        document = parser.parse(text)
        return len(document)

    return work


def _fields(text: bytes) -> Work:
    import simdjson

    parser = simdjson.Parser()

    def work() -> object:
        return [(event.get("name"), event.get("ts"), event.get("dur")) for event in parser.parse(text)] and None

    return work


def _orjson(text: bytes) -> Work:
    import orjson

    return lambda: orjson.loads(text)


def _untyped(text: bytes) -> Work:
    import msgspec

    return lambda: msgspec.json.decode(text)


def _lines(text: bytes) -> bytes:
    """One event a line, as these libraries want it."""
    return text.strip()[1:-1].replace(b"\n", b" ").replace(b"},   {", b"}\n{")


def _arrow(text: bytes) -> Work:
    import pyarrow as pa
    import pyarrow.json as reader

    kinds = {"str": pa.string(), "float": pa.float64()}
    schema = pa.schema([(name, kinds[kind]) for name, kind in COLUMNS.items() if name not in ("pid", "tid")])
    parsing = reader.ParseOptions(explicit_schema=schema, newlines_in_values=True, unexpected_field_behavior="ignore")
    reading = reader.ReadOptions(block_size=4 << 20)
    return lambda: reader.read_json(io.BytesIO(_lines(text)), reading, parsing)


def _polars(text: bytes) -> Work:
    import polars

    kinds = {"str": polars.String, "float": polars.Float64}
    schema = {name: kinds[kind] for name, kind in COLUMNS.items()}
    return lambda: polars.read_ndjson(_lines(text), schema=schema)


def _duckdb(text: bytes) -> Work:
    import duckdb

    held = tempfile.NamedTemporaryFile(suffix=".json", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)  # noqa: SIM115
    held.write(text)
    held.flush()
    kinds = {"str": "VARCHAR", "float": "DOUBLE"}
    columns = ", ".join(f"{name}: '{kinds[kind]}'" for name, kind in COLUMNS.items())
    columns += ", args: 'STRUCT(correlation UBIGINT)'"
    asked = f"select * from read_json('{held.name}', format = 'array', columns = {{{columns}}})"
    connection = duckdb.connect()
    return lambda: (connection.sql(asked).to_arrow_table(), held)


def _numba(text: bytes) -> Work:
    import numba
    import numpy as np

    values = np.frombuffer(text, np.uint8)

    @numba.njit
    def count(values):  # type: ignore[no-untyped-def]
        brackets = quotes = 0
        for value in values:
            brackets += value == 123 or value == 125
            quotes += value == 34
        return brackets, quotes

    count(values[:100])
    return lambda: count(values)


def _structs(text: bytes) -> Work:
    from tracekit.read.format import FAST

    blocks = [b"[" + block + b"]" for block in _blocks(text)]

    def work() -> object:
        return [FAST.decode(block)[1] for block in blocks]

    return work


def _blocks(text: bytes) -> Iterator[bytes]:
    """Pieces that end between two events."""
    text, place = text.strip()[1:-1], 0
    while place < len(text):
        end = text.find(b"},\n  {", place + BLOCK_BYTES)
        yield text[place:] if end < 0 else text[place : end + 1]
        place = len(text) if end < 0 else end + 2


def _columns(text: bytes) -> Work:
    from tracekit.read.cache import _without_collector
    from tracekit.read.kineto import read_kineto

    def work() -> object:
        with _without_collector():
            return read_kineto(io.BytesIO(b'{"traceEvents": ' + text + b"}"))

    return work


def measured(work: Work, repeat: int) -> tuple[float, float]:
    """The quickest of some tries, and the CPU that it took."""
    best = (float("inf"), 0.0)
    for _ in range(repeat):
        cpu, wall = time.process_time(), time.perf_counter()
        work()
        best = min(best, (time.perf_counter() - wall, time.process_time() - cpu))
    return best


def events_of(trace: Path) -> bytes:
    """The text of the list of events of a gzipped trace."""
    from isal import igzip

    text = igzip.decompress(trace.read_bytes())
    begin = text.index(b"[", text.index(b'"traceEvents"'))
    return text[begin : text.rindex(b"]") + 1]


def table(trace: Path, repeat: int) -> str:
    """The contenders as Markdown, the ratio to the floor last."""
    text, rows = events_of(trace), []
    for name, gives, make in contenders(text, trace):
        with contextlib.suppress(ImportError):
            rows.append((name, gives, *measured(make(), repeat)))
    floor = sum(wall for _, gives, wall, _ in rows if "floor" in gives) or float("nan")
    lines = ["| reader | what it gives | MB/s | CPU / wall | times the floor |", "|---|---|--:|--:|--:|"]
    lines += [
        f"| {name} | {gives} | {len(text) / 1e6 / wall:,.0f} | {cpu / wall:.1f} | {wall / floor:.1f} |"
        for name, gives, wall, cpu in rows
    ]
    return "\n".join(lines)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", nargs="?", type=Path)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="put the table into benchmarks/README.md")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trace = asked.trace or made_trace.write(Path(folder) / "made.json.gz")
        text = table(trace, asked.repeat)
    print(text)
    if asked.write:
        write_section(DOCUMENT, "readers", f"`python -m benchmarks.readers TRACE --write`:\n\n{text}")


if __name__ == "__main__":
    main()
