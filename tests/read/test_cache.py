import gc
import gzip
import os
import subprocess
import sys
import time
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.read.tiny import NCCL, codes, kernel, step, write
from tracekit import load
from tracekit.errors import Unreadable
from tracekit.read import cache as store
from tracekit.read.cache import ENTRY, YOUNG_SECONDS, Settings, Spare, is_kept, parsed, trim, usable
from tracekit.read.sources import trace_files

EVENTS = [step(1, 0, 20), kernel(1, 5), kernel(6, 9, NCCL, 20)]
INFO = {"distributedInfo": {"rank": 0, "world_size": 1}}


@pytest.fixture
def trace(tmp_path):
    return write(tmp_path, EVENTS, **INFO)


@pytest.fixture
def no_parsing(monkeypatch):
    """From when it is called on, whoever reads a trace's text fails, and no table is held in memory."""

    def forbid():
        def fail(stream):
            raise AssertionError("the trace was read again")

        monkeypatch.setattr(store, "read_kineto", fail)
        monkeypatch.setattr(store, "HELD", store.Held(0))

    return forbid


def test_tables_are_held_as_long_as_their_file_is_as_it_was(trace, cache_folder, monkeypatch):
    load(trace).rank(0).work  # noqa: B018
    read = []
    monkeypatch.setattr(
        store, "_read_table", lambda folder, part, name, entry: read.append(name) or ORIGINAL(folder, part, name, entry)
    )
    one = load(trace).rank(0)
    assert (len(one.work), read) == (2, ["steps", "calls"])
    [entry] = entries(cache_folder)
    os.utime(entry / "0-work.parquet", ns=(1, 1))
    assert (len(load(trace).rank(0).work), read[2:]) == (2, ["steps", "calls", "work"])


def test_no_more_rows_are_held_than_allowed(trace, cache_folder, monkeypatch):
    held = store.Held(3)
    monkeypatch.setattr(store, "HELD", held)
    load(trace).rank(0).work  # noqa: B018
    assert sum(map(len, held._tables.values())) <= 3


ORIGINAL = store._read_table


def spans(path, **options):
    """Start and end of all work of a run's rank 0, in microseconds."""
    work = load(path, **options).rank(0).work
    return (work[["start_ns", "end_ns"]] // 1000).values.tolist()


def entries(folder):
    return sorted(path for path in Path(folder).iterdir() if path.is_dir())


def test_what_was_read_once_is_not_read_again(trace, cache_folder, no_parsing):
    first = load(trace)
    no_parsing()
    again = load(trace)
    for table in ("ranks", "steps", "calls", "notes"):
        assert getattr(again, table).equals(getattr(first, table)), table
    for table in ("work", "host", "allocations"):
        assert getattr(again.rank(0), table).equals(getattr(first.rank(0), table)), table
        assert (getattr(again.rank(0), table).dtypes == getattr(first.rank(0), table).dtypes).all()
    assert len(entries(cache_folder)) == 1


def test_a_file_that_changed_is_read_again(trace):
    assert spans(trace) == [[1, 5], [6, 9]]
    write(trace.parent, [*EVENTS, kernel(12, 13)], **INFO)
    assert spans(trace) == [[1, 5], [6, 9], [12, 13]]


def test_a_file_that_changed_without_changing_its_size_is_read_again(trace):
    assert spans(trace) == [[1, 5], [6, 9]]
    write(trace.parent, [EVENTS[0], kernel(2, 6), EVENTS[2]], **INFO)
    os.utime(trace, ns=(1, trace.stat().st_mtime_ns + 10**9))
    assert spans(trace) == [[2, 6], [6, 9]]


def test_other_patterns_of_communication_are_another_entry(trace, cache_folder):
    assert load(trace).rank(0).work["kind"].tolist() == ["compute", "comm"]
    assert load(trace, comm_patterns=["sgemm"]).rank(0).work["kind"].tolist() == ["comm", "comm"]
    assert load(trace).rank(0).work["kind"].tolist() == ["compute", "comm"]
    assert len(entries(cache_folder)) == 2


def test_another_version_of_the_reader_reads_again(trace, monkeypatch, cache_folder):
    load(trace)
    monkeypatch.setattr(store, "READER_VERSION", store.READER_VERSION + 1)
    load(trace)
    assert len(entries(cache_folder)) == 2


def test_without_a_cache_nothing_is_kept(trace, cache_folder):
    assert spans(trace, cache=False) == [[1, 5], [6, 9]]
    assert entries(cache_folder) == []


def test_what_cannot_be_read_is_not_kept(tmp_path, cache_folder):
    write(tmp_path, EVENTS, **INFO)
    (tmp_path / "run.json").write_text("{}")
    load(tmp_path)
    load(tmp_path)
    assert len(entries(cache_folder)) == 1


def test_nothing_half_written_is_left(trace, cache_folder):
    load(trace)
    assert {path.name[:7] for path in cache_folder.iterdir()} & {"writing"} == set()
    assert ENTRY in {path.name for path in entries(cache_folder)[0].iterdir()}


@pytest.mark.parametrize("at", range(5))
def test_a_disk_that_is_full_while_writing(trace, cache_folder, monkeypatch, at):
    write_table, count = store._write_table, iter(range(100))

    def full(folder, *rest):
        if str(cache_folder) in str(folder) and next(count) >= at:
            raise OSError(28, "No space left on device")
        return write_table(folder, *rest)

    monkeypatch.setattr(store, "_write_table", full)
    run = load(trace)
    assert len(run.rank(0).work) == 2
    assert list(cache_folder.iterdir()) == []
    monkeypatch.undo()


BREAKAGES = {
    "no entry file": lambda entry: (entry / ENTRY).unlink(),
    "empty entry file": lambda entry: (entry / ENTRY).write_bytes(b""),
    "foreign entry file": lambda entry: (entry / ENTRY).write_text('{"parts": 5}'),
    "cut entry file": lambda entry: (entry / ENTRY).write_bytes((entry / ENTRY).read_bytes()[:50]),
    "no steps": lambda entry: (entry / "0-steps.parquet").unlink(),
    "foreign steps": lambda entry: (entry / "0-steps.parquet").write_bytes(b"PAR1 not really PAR1"),
    "cut calls": lambda entry: (entry / "0-calls.parquet").write_bytes((entry / "0-calls.parquet").read_bytes()[:100]),
    "empty calls": lambda entry: (entry / "0-calls.parquet").write_bytes(b""),
    "no work": lambda entry: (entry / "0-work.parquet").unlink(),
    "cut work": lambda entry: (entry / "0-work.parquet").write_bytes((entry / "0-work.parquet").read_bytes()[:300]),
    "foreign work": lambda entry: (entry / "0-work.parquet").write_bytes(b"x" * 1000),
    "another table as work": lambda entry: (entry / "0-work.parquet").write_bytes(
        (entry / "0-steps.parquet").read_bytes()
    ),
    "a file as entry": lambda entry: (store.shutil.rmtree(entry), entry.write_text("x")),
    "an empty folder as entry": lambda entry: (store.shutil.rmtree(entry), entry.mkdir()),
}


@pytest.mark.parametrize("breakage", BREAKAGES)
def test_a_broken_entry_is_made_again(trace, cache_folder, breakage):
    load(trace)
    [entry] = entries(cache_folder)
    BREAKAGES[breakage](entry)
    assert spans(trace) == [[1, 5], [6, 9]]
    assert spans(trace) == [[1, 5], [6, 9]]


PIECES = [*(f"0-{name}.parquet" for name in ("work", "host", "allocations", "steps", "calls")), ENTRY]


@pytest.mark.parametrize("share", [0, 0.5, 0.999])
@pytest.mark.parametrize("piece", PIECES)
def test_a_cut_piece_of_an_entry_is_made_again(trace, cache_folder, piece, share):
    load(trace)
    [entry] = entries(cache_folder)
    whole = (entry / piece).read_bytes()
    (entry / piece).write_bytes(whole[: int(share * len(whole))])
    run = load(trace)
    got = {name: len(getattr(run.rank(0), name)) for name in ("work", "host", "allocations")}
    assert got == {"work": 2, "host": 1, "allocations": 0}
    assert (entry / piece).read_bytes() == whole


@pytest.mark.parametrize("table", PIECES)
def test_a_wrong_byte_in_an_entry_never_gives_a_wrong_number(trace, cache_folder, table):
    want = load(trace)
    [entry] = entries(cache_folder)
    whole = (entry / table).read_bytes()
    for at in range(0, len(whole), max(len(whole) // 8, 1)):
        (entry / table).write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
        got = load(trace)
        for name in ("work", "host", "allocations"):
            assert getattr(got.rank(0), name).equals(getattr(want.rank(0), name)), (name, at)
        assert got.steps.equals(want.steps), at
        assert got.calls[["start_ns", "end_ns"]].equals(want.calls[["start_ns", "end_ns"]]), at
        entry.mkdir(exist_ok=True)


def test_an_entry_that_vanishes_while_a_run_is_used_is_made_again(trace, cache_folder):
    run = load(trace)
    store.shutil.rmtree(entries(cache_folder)[0])
    assert len(run.rank(0).work) == 2


def test_an_entry_that_vanishes_with_its_file(trace, cache_folder):
    run = load(trace)
    store.shutil.rmtree(entries(cache_folder)[0])
    trace.unlink()
    with pytest.raises(Unreadable, match=r"rank0\.json"):
        run.rank(0).busy("compute")


def test_a_cache_folder_that_cannot_be_written(trace, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TRACEKIT_CACHE", str(tmp_path / "file" / "cache"))
    run = load(trace)
    assert len(run.rank(0).work) == 2
    assert codes(run)["no-cache"] == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_cache_folder_that_may_only_be_read_still_serves(trace, cache_folder, no_parsing):
    load(trace)
    cache_folder.chmod(0o500)
    no_parsing()
    try:
        assert spans(trace) == [[1, 5], [6, 9]]
    finally:
        cache_folder.chmod(0o700)


def test_usable(tmp_path):
    assert usable(str(tmp_path / "deep" / "er"))
    (tmp_path / "file").write_text("")
    assert not usable(str(tmp_path / "file"))


def test_a_file_without_a_version_is_known_by_its_content(cache_folder, no_parsing, monkeypatch):
    monkeypatch.setattr(
        MemoryFileSystem, "info", lambda *_, **__: {"name": "/rank0.json", "type": "file", "size": None}
    )
    files = fsspec.filesystem("memory")
    text = '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": %d, "dur": 4}]}'
    try:
        files.pipe("/rank0.json", (text % 1).encode())
        assert spans("memory://rank0.json") == [[1, 5]]
        files.pipe("/rank0.json", (text % 2).encode())
        assert spans("memory://rank0.json") == [[2, 6]]
        no_parsing()
        assert spans("memory://rank0.json") == [[2, 6]]
    finally:
        files.store.pop("/rank0.json")


SCRIPT = """
import sys
from tracekit import load
run = load(sys.argv[1])
work = run.rank(0).work
print(sorted(zip(work["start_ns"], work["end_ns"])) == [(1000 * n, 1000 * n + 500) for n in range(3000)])
"""


def test_processes_that_read_the_same_run_at_once(tmp_path, cache_folder):
    write(tmp_path, [kernel(n, n + 0.5) for n in range(3000)], **INFO)
    environment = {**os.environ, "TRACEKIT_CACHE": str(cache_folder)}
    command = [sys.executable, "-W", "error", "-c", SCRIPT, str(tmp_path)]
    racers = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [(racer.communicate(timeout=120)[0].strip(), racer.returncode) for racer in racers] == [("True", 0)] * 4
    assert len(entries(cache_folder)) == 1


def test_a_writer_that_loses_the_race_takes_the_winners_entry(trace, cache_folder, monkeypatch):
    [file] = trace_files([str(trace)])
    settings = Settings(str(cache_folder), "")
    real = store._write_table
    raced = []

    def slower(folder, *rest):
        if not raced:
            raced.append(True)
            parsed(file, settings)  # another process writes the same entry meanwhile
        return real(folder, *rest)

    monkeypatch.setattr(store, "_write_table", slower)
    assert parsed(file, settings).error is None
    assert len(entries(cache_folder)) == 1
    assert is_kept(file, settings)


# Size


def entry_of(folder, name, size, age_s):
    (folder / name).mkdir()
    (folder / name / "0-work.parquet").write_bytes(bytes(size))
    (folder / name / ENTRY).write_bytes(b"")
    used = time.time() - age_s
    os.utime(folder / name / ENTRY, (used, used))


def test_the_entries_used_longest_ago_go_first(cache_folder):
    for name, age_s in (("old", 9 * YOUNG_SECONDS), ("older", 10 * YOUNG_SECONDS), ("new", 2 * YOUNG_SECONDS)):
        entry_of(cache_folder, name, 1000, age_s)
    assert trim(str(cache_folder), 2000, time.time()) == 1
    assert [path.name for path in entries(cache_folder)] == ["new", "old"]
    assert trim(str(cache_folder), 2000, time.time()) == 0
    assert trim(str(cache_folder), 0, time.time()) == 2


def test_an_entry_in_use_stays(cache_folder):
    entry_of(cache_folder, "young", 1000, YOUNG_SECONDS / 2)
    assert trim(str(cache_folder), 0, time.time()) == 0


def test_leavings_of_a_process_that_died_go_too(cache_folder):
    (cache_folder / "writing-1-x").mkdir()
    (cache_folder / "writing-1-x" / "0-work.parquet").write_bytes(bytes(1000))
    assert trim(str(cache_folder), 0, time.time() + 2 * YOUNG_SECONDS) == 1


def test_reading_marks_an_entry_as_used(trace, cache_folder):
    load(trace)
    [entry] = entries(cache_folder)
    os.utime(entry / ENTRY, (1, 1))
    load(trace)
    assert time.time() - (entry / ENTRY).stat().st_mtime < 60


def test_the_cache_stays_within_its_limit(tmp_path, cache_folder, monkeypatch):
    monkeypatch.setenv("TRACEKIT_CACHE_BYTES", "1")
    monkeypatch.setattr(store, "YOUNG_SECONDS", -1)
    for n in range(3):
        load(write(tmp_path, EVENTS, f"rank{n}.json"))
        assert len(entries(cache_folder)) <= 1


@pytest.mark.parametrize(("told", "limit"), [("", 20 * 10**9), ("5", 5), ("much", 20 * 10**9), ("0", 0)])
def test_the_limit(monkeypatch, told, limit):
    monkeypatch.setenv("TRACEKIT_CACHE_BYTES", told)
    assert store.limit_bytes() == limit


def test_the_folder(monkeypatch):
    monkeypatch.setenv("TRACEKIT_CACHE", "/somewhere")
    assert store.default_folder() == "/somewhere"
    monkeypatch.delenv("TRACEKIT_CACHE")
    assert "tracekit" in store.default_folder()


def test_the_spare_folder_lives_as_long_as_its_run(trace):
    run = load(trace, cache=False)
    folder = Path(run.sources[0, 0].folder).parent
    assert folder.is_dir()
    del run
    gc.collect()
    assert not folder.exists()


def test_spare_folders_are_apart():
    one, other = Spare(), Spare()
    assert one.folder != other.folder


def test_an_entry_of_a_fused_file_has_all_its_ranks(tmp_path, no_parsing):
    events = [{**kernel(n, n + 1), "pid": n, "args": {"rank": n}} for n in range(3)]
    (tmp_path / "fused.json.gz").write_bytes(gzip.compress(write(tmp_path / "x", events).read_bytes()))
    first = load(tmp_path / "fused.json.gz")
    no_parsing()
    again = load(tmp_path / "fused.json.gz")
    assert first.ranks["rank"].tolist() == again.ranks["rank"].tolist() == [0, 1, 2]
    assert again.rank(2).work["start_ns"].tolist() == [2000]
