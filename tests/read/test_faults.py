"""What goes wrong around a run: files that change, go away or end whoever reads them, disks that are full."""

import os
import platform
import signal
import subprocess
import sys
from functools import partial

import pytest
from fsspec.implementations.local import LocalFileSystem

from tests.read.tiny import codes, kernel, step, text
from tracekit import load
from tracekit.cli import main
from tracekit.errors import LostWork, Unreadable
from tracekit.read import cache as store
from tracekit.read import load as door
from tracekit.read import workers
from tracekit.read.cache import sweep
from tracekit.read.kineto import read_kineto
from tracekit.read.stores import StoredFile

MANY = 15_000
"""Kernels of which the text is read in several pieces."""


def trace_of(rank, *, kernels=2, world_size=3, start=1):
    """A rank's trace: a step and kernels of half a microsecond, one a microsecond from the start on."""
    work = [kernel(start + n, start + n + 0.5, f"gemm{n:05}") for n in range(kernels)]
    info = {"rank": rank, "world_size": world_size, "backend": "nccl"}
    return text([step(1, 0, start + kernels), *work], distributedInfo=info)


@pytest.fixture
def three(tmp_path):
    """A folder of three ranks."""
    for rank in range(3):
        (tmp_path / f"rank{rank}.json").write_text(trace_of(rank))
    return tmp_path


@pytest.fixture
def pool(monkeypatch):
    """Even small runs are read and measured by two processes."""
    monkeypatch.setattr(door, "HEAVY_BYTES", 0)
    monkeypatch.setattr(door, "HEAVY_EVENTS", 0)
    monkeypatch.setattr(workers, "_cores", lambda: 2)


def starts(run, rank):
    return (run.rank(rank).work["start_ns"] // 1000).tolist()


def only_rank_1_is_lost(run):
    """The other ranks are there, and one note tells the rank, its file and why; what it tells."""
    assert run.ranks["rank"].tolist() == [0, 2]
    assert [starts(run, rank) for rank in (0, 2)] == [[1, 2], [1, 2]]
    [note] = run.notes[run.notes["code"] == "unread-file"].to_dict("records")
    assert (note["rank"], note["severity"]) == (1, "warning")
    assert "rank1.json: " in note["message"]
    assert "\n" not in note["message"]
    return note["message"]


# A file that is lost


def test_a_file_that_goes_away_before_it_is_read(three, monkeypatch):
    listed = door.trace_files

    def then_it_goes(paths):
        files = listed(paths)
        (three / "rank1.json").unlink()
        return files

    monkeypatch.setattr(door, "trace_files", then_it_goes)
    assert "No such file" in only_rank_1_is_lost(load(three))


def test_a_file_that_goes_away_while_they_are_listed(three, monkeypatch):
    known = LocalFileSystem.info

    def gone(system, path, **options):
        if str(path).endswith("rank1.json"):
            (three / "rank1.json").unlink(missing_ok=True)
            raise FileNotFoundError(2, "No such file or directory", path)
        return known(system, path, **options)

    monkeypatch.setattr(LocalFileSystem, "info", gone)
    only_rank_1_is_lost(load(three))


def test_a_link_to_nowhere(three):
    (three / "rank1.json").unlink()
    (three / "rank1.json").symlink_to(three / "nowhere.json")
    only_rank_1_is_lost(load(three))


def test_a_disk_that_fails_half_way_is_no_short_file(three, monkeypatch):
    (three / "rank1.json").write_text(trace_of(1, kernels=MANY))
    read, count = StoredFile.read, iter(range(100))

    def fails(file, size=-1):
        if file._url.endswith("rank1.json") and next(count) == 3:
            file._file.read = lambda size: (_ for _ in ()).throw(OSError(5, "Input/output error"))
        return read(file, size)

    monkeypatch.setattr(StoredFile, "read", fails)
    assert "Input/output error" in only_rank_1_is_lost(load(three))
    monkeypatch.undo()
    assert len(load(three, cache=False).rank(1).work) == MANY


def test_what_was_lost_is_told_on_the_screen_and_among_the_findings(three, capsys):
    (three / "rank1.json").unlink()
    (three / "rank1.json").symlink_to(three / "nowhere.json")
    assert main(["analyze", str(three)]) == 0
    out = capsys.readouterr().out
    assert "unread-file" in out.split("Findings")[0]
    assert "unread-file" in out.split("Findings")[1]


def test_a_cache_that_was_not_filled_when_a_disk_failed_is_filled_later(three, monkeypatch, cache_folder):
    read = StoredFile.read
    monkeypatch.setattr(StoredFile, "read", lambda *_: (_ for _ in ()).throw(Unreadable("no disk")))
    with pytest.raises(Unreadable, match="no disk"):
        load(three)
    assert list(cache_folder.iterdir()) == []
    monkeypatch.setattr(StoredFile, "read", read)
    assert load(three).ranks["rank"].tolist() == [0, 1, 2]


# A file that ends whoever reads it


def crash(settings, file):
    """Reads a file; that of rank 1 ends the process, as a fault in native code does, or want of memory."""
    if file.basename == "rank1.json":
        os.kill(os.getpid(), signal.SIGKILL)
    return store.parsed(file, settings)


def crash_once(mark, settings, file):
    """As `crash`, but the second time it is read."""
    if file.basename == "rank1.json" and not os.path.exists(mark):
        open(mark, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return store.parsed(file, settings)


def test_a_file_that_ends_whoever_reads_it_is_left_out(three, monkeypatch, pool):
    monkeypatch.setattr(door, "_parsed", crash)
    assert "ended the process that did, twice" in only_rank_1_is_lost(load(three))


def test_a_process_that_is_killed_while_it_reads_costs_no_rank(three, monkeypatch, pool, tmp_path_factory):
    mark = tmp_path_factory.mktemp("mark") / "died"
    monkeypatch.setattr(door, "_parsed", partial(crash_once, str(mark)))
    run = load(three)
    assert mark.exists()
    assert [starts(run, rank) for rank in range(3)] == [[1, 2]] * 3
    assert "unread-file" not in codes(run)


def crash_measuring(rank):
    if rank.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return rank.work


def test_a_rank_that_ends_whoever_measures_it_is_told(three, pool):
    run = load(three)
    with pytest.raises(LostWork, match=r"^rank 1: measuring it ended the process"):
        run.map(crash_measuring)
    assert len(run.map(lambda rank: rank.work)) == 6


# A file that changes while it is read


@pytest.fixture
def meanwhile(monkeypatch):
    """Has something done once, after the first piece of a file was read."""

    def then(do):
        read, did = StoredFile.read, []

        def and_does(file, size=-1):
            piece = read(file, size)
            if not did:
                did.append(True)
                do()
            return piece

        monkeypatch.setattr(StoredFile, "read", and_does)

    return then


@pytest.fixture
def one(tmp_path):
    """A file of one rank, written long ago."""

    def of(content):
        file = tmp_path / "rank0.json"
        file.write_text(content)
        os.utime(file, (10**9, 10**9))
        return file

    return of


def test_a_file_that_grows_to_its_end_while_it_is_read(one, meanwhile):
    whole = trace_of(0, kernels=MANY, world_size=1)
    file = one(whole[: len(whole) // 2])

    def rest():
        with file.open("a") as more:
            more.write(whole[len(whole) // 2 :])

    meanwhile(rest)
    first = load(file)
    assert (len(first.rank(0).work), codes(first)["changed-file"]) == (MANY, 1)
    again = load(file)
    assert (len(again.rank(0).work), "changed-file" in codes(again)) == (MANY, False)


def test_a_file_that_is_still_being_written(one, meanwhile):
    whole = trace_of(0, kernels=MANY, world_size=1)
    places = [len(whole) // 2, len(whole) * 2 // 3]
    file = one(whole[: places[0]])

    def some():
        with file.open("a") as more:
            more.write(whole[places[0] : places[1]])

    meanwhile(some)
    first = load(file)
    assert codes(first).keys() >= {"changed-file", "truncated"}
    assert starts(first, 0) == list(range(1, len(starts(first, 0)) + 1))
    assert MANY / 2 < len(first.rank(0).work) < MANY
    file.write_text(whole)
    again = load(file)
    assert (len(again.rank(0).work), codes(again).keys() & {"changed-file", "truncated"}) == (MANY, set())


def test_a_file_that_is_overwritten_while_it_is_read_and_then_put_back(one, meanwhile, cache_folder):
    old, new = (trace_of(0, kernels=MANY, world_size=1, start=start) for start in (10_000, 10_001))
    assert len(old) == len(new)
    file = one(old)
    meanwhile(lambda: file.write_text(new))
    assert codes(load(file))["changed-file"] == 1
    assert list(cache_folder.iterdir()) == []
    one(old)
    assert starts(load(file), 0) == list(range(10_000, 10_000 + MANY))


def test_a_file_that_was_read_and_then_goes_away(one, meanwhile):
    file = one(trace_of(0, kernels=MANY, world_size=1))
    meanwhile(file.unlink)
    run = load(file)
    assert (len(run.rank(0).work), "changed-file" in codes(run)) == (MANY, False)


# A disk that is full


@pytest.fixture
def disk(tmp_path_factory, monkeypatch):
    """A file system of 200 kB for the cache."""
    place = tmp_path_factory.mktemp("disk")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", place], capture_output=True).returncode:
        pytest.skip("no file system may be mounted here")
    monkeypatch.setenv("TRACEKIT_CACHE", str(place))
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_cache_on_a_full_disk(three, disk):
    (three / "rank1.json").write_text(trace_of(1, kernels=MANY))
    run = load(three)
    assert [len(run.rank(rank).work) for rank in range(3)] == [2, MANY, 2]
    assert not list(disk.glob("writing-*"))
    assert starts(load(three), 1) == list(range(1, MANY + 1))


def test_no_disk_has_room(three, disk, monkeypatch):
    monkeypatch.setattr(store.tempfile, "tempdir", str(disk))
    for rank in range(3):
        (three / f"rank{rank}.json").write_text(trace_of(rank, kernels=MANY))
    with pytest.raises(Unreadable, match="is the disk full"):
        load(three)


def test_a_cache_that_may_only_be_read_serves(three, disk, monkeypatch):
    load(three)
    (three / "rank1.json").write_text(trace_of(1, kernels=3))
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    read = []
    monkeypatch.setattr(store, "read_kineto", lambda stream: read.append(stream) or read_kineto(stream))
    run = load(three)
    assert [starts(run, rank) for rank in range(3)] == [[1, 2], [1, 2, 3], [1, 2]]
    assert (len(read), codes(run)["no-cache"]) == (1, 1)


def test_a_broken_entry_that_cannot_be_replaced_is_not_believed(three, disk):
    load(three)
    for piece in disk.glob("*/0-*.parquet"):
        piece.write_bytes(piece.read_bytes()[:-1])
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    store.HELD._tables.clear()
    run = load(three)
    assert [starts(run, rank) for rank in range(3)] == [[1, 2]] * 3


# What a process left that was ended


def test_what_an_ended_process_was_writing_is_removed(three, cache_folder):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    mine, its = (cache_folder / f"writing-{platform.node()}-{pid}-0123abc" for pid in (os.getpid(), ended.pid))
    elsewhere = cache_folder / f"writing-{platform.node()}x-{ended.pid}-0123abc"
    for folder in (mine, its, elsewhere):
        folder.mkdir()
        (folder / "0-work.parquet").write_bytes(b"half")
    load(three)
    assert sorted(cache_folder.glob("writing-*")) == sorted([mine, elsewhere])


def test_nothing_is_swept_where_nothing_is(tmp_path):
    sweep(str(tmp_path / "nowhere"))
