"""Files that are made to fill the memory, or the time, of whoever reads them."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest
import zstandard

from tracekit import load
from tracekit.errors import Unreadable
from tracekit.read import cache, limits
from tracekit.read.kineto import read_kineto
from tracekit.read.sources import opened, trace_files
from tracekit.read.tables import rank_parts

MB = 1 << 20
START = b'{"traceEvents":[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1},'
NO_TRACE, TOO_PACKED, NO_EVENTS = "no traceEvents", "over 200 times as long", "no events of a trace"


def span(number: int, **more: object) -> bytes:
    told = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": number + 1, "dur": 1, **more}
    return json.dumps(told).encode()


def trace(*events: bytes) -> bytes:
    return b'{"traceEvents":[' + b",".join(events) + b"]}"


def endless(size: int, *, start: bytes = START, of: bytes) -> bytes:
    return start + of * (size // len(of))


# What a file is made of, and what is told of it: an error, or how many events it has that can be read.
HOSTILE = {
    "zeros that were packed": (lambda: gzip.compress(bytes(100 * MB)), NO_TRACE),
    "blanks that were packed": (lambda: gzip.compress(endless(100 * MB, of=b" ")), TOO_PACKED),
    "brackets that were packed": (lambda: gzip.compress(endless(100 * MB, of=b"[")), TOO_PACKED),
    "blanks that were packed twice": (lambda: gzip.compress(gzip.compress(endless(100 * MB, of=b" "))), NO_TRACE),
    "blanks in zstd": (lambda: zstandard.compress(endless(100 * MB, of=b" ")), TOO_PACKED),
    "blanks": (lambda: endless(12 * MB, of=b" "), NO_EVENTS),
    "braces": (lambda: endless(12 * MB, of=b"{"), 1),
    "braces and commas": (lambda: endless(12 * MB, of=b"{ ,"), 1),
    "brackets": (lambda: endless(12 * MB, of=b"["), NO_EVENTS),
    "closing brackets": (lambda: endless(4 * MB, of=b"]"), 1),
    "lists": (lambda: endless(12 * MB, start=b'{"traceEvents":[', of=b"[],"), NO_EVENTS),
    "lists in an event": (lambda: endless(12 * MB, start=START + b'{"ph":"X","args":[', of=b"[],"), 1),
    "objects in an event": (lambda: endless(8 * MB, start=START + b'{"ph":"X","args":[', of=b"{},"), 1),
    "empty objects": (lambda: endless(2 * MB, start=b'{"traceEvents":[', of=b"{},"), NO_EVENTS),
    "commas": (lambda: endless(12 * MB, of=b","), 1),
    "quotes": (lambda: endless(12 * MB, of=b'"'), 1),
    "a name without end": (lambda: endless(12 * MB, start=START + b'{"ph":"X","name":"', of=b"x"), 1),
    "backslashes": (lambda: endless(12 * MB, start=START + b'{"ph":"X","name":"', of=b"\\"), 1),
    "metadata without end": (lambda: endless(12 * MB, start=b'{"distributedInfo":[', of=b"{},"), NO_TRACE),
    "breaks": (lambda: endless(4 * MB, of=b'{"ph" "X"},'), "broken in more than 100,000 places"),
    "names of a megabyte": (lambda: trace(*(span(one, name=f"{one}" + "n" * MB) for one in range(40))), 40),
    "too many names": (lambda: trace(*(span(one, name=f"{one:01000}") for one in range(130_000))), "different names"),
    "too many ranks": (lambda: trace(*(span(one, args={"rank": one}) for one in range(3000))), "hold 3,000 ranks"),
    "too many steps": (
        lambda: trace(*(span(2 * one, cat="user_annotation", name=f"ProfilerStep#{one}") for one in range(101_000))),
        "marks 101,000 steps",
    ),
    "numbers beyond 64 bits": (
        lambda: trace(span(0), span(1, ts=10**400), span(2, dur=2**64), span(3, args={"correlation": 2**200})), 2,
    ),
}  # fmt: skip

UNDER_A_LIMIT = """
import json, resource, sys, tempfile
from tracekit.read.cache import Settings, parsed
from tracekit.read.sources import trace_files

room, healthy, *hostile = sys.argv[1:]
settings = Settings("", tempfile.mkdtemp())
parsed(trace_files([healthy])[0], settings)  # now all that is imported late is
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + int(room), used + int(room)))
for path in hostile:
    found = parsed(trace_files([path])[0], settings)
    events = sum(part.identity.events - part.identity.dropped for part in found.parts)
    print(json.dumps([found.error, events]), flush=True)
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> dict[str, tuple[str | None, int]]:
    """What one process, with half a gigabyte beyond its own, tells of each file: an error, or its events."""
    if sys.platform != "linux":
        pytest.skip("only Linux bounds a process's memory")
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "healthy").write_bytes(trace(span(0), span(1)))
    for name, (make, _) in HOSTILE.items():
        (folder / name).write_bytes(make())
    paths = [str(folder / name) for name in ("healthy", *HOSTILE)]
    done = subprocess.run(
        [sys.executable, "-c", UNDER_A_LIMIT, str(512 * MB), *paths], capture_output=True, text=True, timeout=400
    )
    shutil.rmtree(folder)
    answers = [tuple(json.loads(line)) for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"after {list(HOSTILE)[: len(answers) + 1][-1]}: {done.stderr}"
    return dict(zip(HOSTILE, answers, strict=True))


@pytest.mark.parametrize("name", HOSTILE)
def test_no_file_takes_half_a_gigabyte(told, name):
    error, events = told[name]
    expected = HOSTILE[name][1]
    assert expected in error if isinstance(expected, str) else (error, events) == (None, expected)


def test_a_file_for_which_there_is_no_memory_is_one_sentence_and_the_others_go_on(tmp_path, monkeypatch):
    for rank in (0, 1):
        (tmp_path / f"rank{rank}.json").write_bytes(trace(span(0), span(1)))

    def parts(found, basename, communicates):
        if basename == "rank0.json":
            raise MemoryError
        return rank_parts(found, basename, communicates)

    monkeypatch.setattr(cache, "rank_parts", parts)
    run = load(tmp_path, cache=False)
    assert run.ranks["rank"].tolist() == [1]
    [message] = run.notes.loc[run.notes["code"] == "unread-file", "message"]
    assert message == f"{tmp_path}/rank0.json: to read it takes more memory than there is"


def raw(content: bytes):
    return read_kineto(io.BytesIO(content))


def text_of(path):
    [file] = trace_files([str(path)])
    with opened(file) as stream:
        return b"".join(iter(lambda: stream.read(1 << 16), b""))


def test_long_names_are_cut_and_stay_different():
    names = ["n" * 20_000, "n" * 20_000 + "1", "n" * 20_000 + "2", "n" * limits.NAME_CHARACTERS]
    found = raw(trace(*(span(number, name=name) for number, name in enumerate([*names, names[1]])))).spans["name"]
    assert len(set(found)) == 4
    assert found[1] == found[4]
    assert found[3] == names[3]
    assert found[1].startswith("n" * (limits.NAME_CHARACTERS // 2) + "... (20001 characters, ")


@pytest.mark.parametrize(
    ("limit", "most", "told", "events"),
    [
        ("EVENTS", 9, "10 events and more", [span(one) for one in range(10)]),
        ("HALVES", 3, "events", [span(one, ph="B") for one in range(4)]),
        ("BROKEN_PLACES", 3, "broken in more than 3 places", [b'{"ph" "X"}'] * 5),
        ("NAMES_CHARACTERS", 2000, "different names", [span(one, name="n" * one) for one in range(50)]),
        ("NAMES_CHARACTERS", 2000, "different names", [
            span(one, args={"Collective name": "allreduce", "Process Group Ranks": str([one] * 9)}) for one in range(50)
        ]),
    ],
)  # fmt: skip
def test_a_file_beyond_a_limit_is_not_read_up_to_it_it_is(monkeypatch, limit, most, told, events):
    raw(trace(*events))
    monkeypatch.setattr(limits, limit, most)
    with pytest.raises(Unreadable, match=told):
        raw(trace(*events))


def test_as_many_ranks_as_one_file_may_fuse(monkeypatch):
    monkeypatch.setattr(limits, "RANKS", 3)
    events = [span(one, pid=one, args={"rank": one}) for one in range(4)]
    assert len(rank_parts(raw(trace(*events[:3])), "t.json", lambda _: False)) == 3
    with pytest.raises(Unreadable, match="4 ranks"):
        rank_parts(raw(trace(*events)), "t.json", lambda _: False)


@pytest.mark.parametrize("packed", [True, False])
def test_a_text_longer_than_any_trace(tmp_path, monkeypatch, packed):
    monkeypatch.setattr(limits, "TEXT_BYTES", 1 << 20)
    content = os.urandom(2 << 20)
    (tmp_path / "t.json").write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(Unreadable, match="longer than"):
        text_of(tmp_path / "t.json")


def test_a_member_of_an_archive_is_packed_no_tighter_than_a_file(tmp_path):
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("t.json", bytes(100 * MB))
    with pytest.raises(Unreadable, match=TOO_PACKED):
        text_of(tmp_path / "bomb.zip")


def test_an_archive_of_too_many_files(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MEMBERS", 2)
    with zipfile.ZipFile(tmp_path / "many.zip", "w") as archive:
        for number in range(3):
            archive.writestr(f"{number}.json", b"[]")
    with pytest.raises(Unreadable, match="more than 2 traces"):
        trace_files([str(tmp_path / "many.zip")])


def member(name: str, kind: bytes, **told: object) -> tarfile.TarInfo:
    one = tarfile.TarInfo(name)
    one.type = kind
    for key, value in told.items():
        setattr(one, key, value)
    return one


def test_an_archive_reaches_nothing_outside_itself(tmp_path):
    """Names are labels: nothing is unpacked, no link is followed, no device opened, no hole filled."""
    (tmp_path / "secret.json").write_bytes(trace(span(0, name="secret")))
    inside = trace(span(0), span(1))
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.GNU_FORMAT) as archive:
        archive.addfile(member("link.json", tarfile.SYMTYPE, linkname=str(tmp_path / "secret.json")))
        archive.addfile(member("hard.json", tarfile.LNKTYPE, linkname="../secret.json"))
        archive.addfile(member("zero.json", tarfile.CHRTYPE, devmajor=1, devminor=5))
        archive.addfile(member("pipe.json", tarfile.FIFOTYPE))
        for name in ("../secret.json", str(tmp_path / "secret.json"), "rank0.json"):
            archive.addfile(member(name, tarfile.REGTYPE, size=len(inside)), io.BytesIO(inside))
    files = trace_files([str(tmp_path / "a.tar")])
    assert {file.member for file in files} == {"../secret.json", str(tmp_path / "secret.json"), "rank0.json"}
    for file in files:
        with opened(file) as stream:
            assert stream.read(1 << 16) == inside
    assert (tmp_path / "secret.json").read_bytes() == trace(span(0, name="secret"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_what_is_no_plain_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "rank0.json").write_bytes(trace(span(0), span(1)))
    assert [file.basename for file in trace_files([str(tmp_path)])] == ["rank0.json"]
    with pytest.raises(Unreadable, match="no such file"):
        load(tmp_path / "pipe.json", cache=False)
    if os.path.exists("/dev/zero"):
        with pytest.raises(Unreadable, match="no such file"):
            load("/dev/zero", cache=False)
