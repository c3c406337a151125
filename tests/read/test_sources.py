import bz2
import gzip
import io
import json
import lzma
import os
import tarfile
import zipfile
from contextlib import suppress

import fsspec
import pytest
import zstandard

from tracekit.errors import Unreadable
from tracekit.read import decompression
from tracekit.read.sources import TraceFile, opened, trace_files

CONTENT = json.dumps(
    {"traceEvents": [{"ph": "X", "name": f"event {n}", "ts": n, "dur": 1} for n in range(3000)]}
).encode()
PACKERS = {
    "plain": lambda content: content,
    "gzip": gzip.compress,
    "zstd": zstandard.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
}
EVERY_PACKER = pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)


def names(*paths):
    return [file.basename for file in trace_files([str(path) for path in paths])]


def content(file, size=1 << 14):
    """All bytes of a trace."""
    with opened(file) as stream:
        return b"".join(iter(lambda: stream.read(size), b""))


def only(path):
    [file] = trace_files([str(path)])
    return file


def put(folder, *paths):
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(b"[]")


# Which files


def test_one_file_by_whatever_name(tmp_path):
    put(tmp_path, "trace.dat")
    assert names(tmp_path / "trace.dat") == ["trace.dat"]


def test_a_folder_gives_its_traces_at_any_depth(tmp_path):
    put(tmp_path, "b.json", "a.json.gz", "deep/er/c.pt.trace.json.gz", "d.json.zst", "e.pt.trace.json.tmp", "F.JSON")
    put(tmp_path, "notes.txt", "model.pt", "json", "a.csv", "x.py")
    assert sorted(names(tmp_path)) == [
        "F.JSON",
        "a.json.gz",
        "b.json",
        "c.pt.trace.json.gz",
        "d.json.zst",
        "e.pt.trace.json.tmp",
    ]


def test_a_pattern(tmp_path):
    put(tmp_path, "rank0.json", "rank1.json", "other.json", "deep/rank2.json")
    assert names(tmp_path / "rank*.json") == ["rank0.json", "rank1.json"]
    assert names(tmp_path / "**" / "rank*.json") == ["rank0.json", "rank1.json", "rank2.json"] or sorted(
        names(tmp_path / "**" / "rank*.json")
    ) == ["rank0.json", "rank1.json", "rank2.json"]
    assert names(tmp_path / "rank[1-9].json") == ["rank1.json"]


def test_a_name_that_looks_like_a_pattern(tmp_path):
    put(tmp_path, "run [1]/rank0.json", "run [1]/rank*.json", "a?.json")
    assert names(tmp_path / "run [1]") == ["rank*.json", "rank0.json"]
    assert names(tmp_path / "run [1]" / "rank0.json") == ["rank0.json"]
    assert names(tmp_path / "a?.json") == ["a?.json"]


def test_several_paths_each_file_once(tmp_path):
    put(tmp_path, "a.json", "b.json")
    assert names(tmp_path / "b.json", tmp_path, tmp_path / "*.json") == ["b.json", "a.json"]


@pytest.mark.parametrize("path", ["nowhere", "nowhere/*.json", "nowhere.zip", ""])
def test_a_path_that_means_nothing(tmp_path, path):
    (tmp_path / "empty").mkdir()
    for missing in (tmp_path / "empty", tmp_path / "empty" / path) if path else (tmp_path / "empty",):
        with pytest.raises(Unreadable, match="empty"):
            trace_files([str(missing)])


def test_a_protocol_that_nobody_knows():
    with pytest.raises(Unreadable, match="nonsense://x"):
        trace_files(["nonsense://x"])


def test_urls_of_files(tmp_path):
    put(tmp_path, "rank0.json")
    [file] = trace_files([f"file://{tmp_path}/rank0.json"])
    assert file == only(tmp_path / "rank0.json")
    assert names(f"file://{tmp_path}") == ["rank0.json"]


def test_urls_of_other_file_systems():
    memory = fsspec.filesystem("memory")
    memory.pipe({"/job/rank0.json": CONTENT, "/job/rank1.json.gz": gzip.compress(CONTENT), "/job/log.txt": b""})
    try:
        files = trace_files(["memory://job"])
        assert [file.basename for file in files] == ["rank0.json", "rank1.json.gz"]
        assert [content(file) for file in files] == [CONTENT, CONTENT]
        assert names("memory://job/*.gz") == ["rank1.json.gz"]
        assert names("memory://job/rank0.json") == ["rank0.json"]
        assert all(file.version for file in files)
    finally:
        memory.rm("/job", recursive=True)


def test_a_version_changes_with_the_file(tmp_path):
    put(tmp_path, "a.json")
    before = only(tmp_path / "a.json")
    assert only(tmp_path / "a.json") == before
    (tmp_path / "a.json").write_bytes(b"[ ]")
    assert only(tmp_path / "a.json").version != before.version
    os.utime(tmp_path / "a.json", (1, 1))
    assert len({before.version, only(tmp_path / "a.json").version}) == 2


def test_a_name_that_is_no_text(tmp_path):
    (tmp_path / os.fsdecode(b"rank0-\xff.json")).write_bytes(CONTENT)
    [file] = trace_files([str(tmp_path)])
    assert content(file) == CONTENT
    file.name.encode()
    file.basename.encode()


# What is in them


@EVERY_PACKER
@pytest.mark.parametrize("name", ["t.json", "t.json.gz", "t.json.zst", "t.pt.trace.json.gz", "t"])
def test_what_a_file_is_packed_with_is_told_by_its_bytes(tmp_path, pack, name):
    (tmp_path / name).write_bytes(pack(CONTENT))
    assert content(only(tmp_path / name)) == CONTENT


@EVERY_PACKER
@pytest.mark.parametrize("size", [1, 7, 1 << 22])
def test_pieces_of_any_size(tmp_path, pack, size):
    (tmp_path / "t.json").write_bytes(pack(CONTENT[:3000]))
    assert content(only(tmp_path / "t.json"), size) == CONTENT[:3000]


@EVERY_PACKER
def test_files_packed_in_several_members(tmp_path, pack):
    (tmp_path / "t.json").write_bytes(b"".join(pack(CONTENT[at : at + 1000]) for at in range(0, len(CONTENT), 1000)))
    assert content(only(tmp_path / "t.json")) == CONTENT


@EVERY_PACKER
def test_members_that_end_where_a_piece_does(tmp_path, pack, monkeypatch):
    parts = [pack(CONTENT[:500]), pack(b""), pack(CONTENT[500:1000])]
    for size in range(1, len(parts[0]) + 3):
        monkeypatch.setattr(decompression, "COMPRESSED_BYTES", max(size, 6))
        (tmp_path / "t.json").write_bytes(b"".join(parts))
        assert content(only(tmp_path / "t.json")) == CONTENT[:1000]


def test_gzip_with_zeros_behind_it(tmp_path):
    (tmp_path / "t.json.gz").write_bytes(gzip.compress(CONTENT) + bytes(1000))
    assert content(only(tmp_path / "t.json.gz")) == CONTENT


@EVERY_PACKER
def test_a_file_cut_anywhere_gives_what_is_there(tmp_path, pack):
    packed = pack(CONTENT)
    for cut in range(0, len(packed), max(len(packed) // 40, 1)):
        (tmp_path / "t.json").write_bytes(packed[:cut])
        got = content(only(tmp_path / "t.json"))
        assert CONTENT.startswith(got)
        if pack is gzip.compress and cut > len(packed) // 2:
            assert got


def test_gzip_without_its_trailer_loses_nothing(tmp_path):
    packed = gzip.compress(CONTENT)
    for missing in range(1, 9):
        (tmp_path / "t.json.gz").write_bytes(packed[:-missing])
        assert content(only(tmp_path / "t.json.gz")) == CONTENT


def test_gzip_with_a_wrong_checksum_loses_a_byte_at_most(tmp_path):
    packed = gzip.compress(CONTENT)
    (tmp_path / "t.json.gz").write_bytes(packed[:-6] + bytes([packed[-6] ^ 0x55]) + packed[-5:])
    assert content(only(tmp_path / "t.json.gz")) in (CONTENT, CONTENT[:-1])


def test_of_several_members_only_the_broken_one_loses_something(tmp_path):
    first, second = gzip.compress(CONTENT), bytearray(gzip.compress(CONTENT * 3))
    second[-6] ^= 0x55
    (tmp_path / "t.json.gz").write_bytes(first + second)
    assert content(only(tmp_path / "t.json.gz")) in (CONTENT * 4, (CONTENT * 4)[:-1])


def test_gzip_with_a_wrong_byte_gives_what_stands_before_it(tmp_path):
    many = b"".join(json.dumps({"n": n * 7919 % 10007}).encode() for n in range(40_000))
    packed = bytearray(gzip.compress(many))
    packed[len(packed) // 2] ^= 0xFF
    (tmp_path / "t.json.gz").write_bytes(packed)
    got = content(only(tmp_path / "t.json.gz"))
    same = next((at for at, (one, other) in enumerate(zip(got, many, strict=False)) if one != other), len(got))
    assert same > 0.45 * len(many)


@EVERY_PACKER
def test_wrong_bytes_never_raise(tmp_path, pack):
    packed = pack(CONTENT)
    for at in range(0, len(packed), max(len(packed) // 60, 1)):
        (tmp_path / "t.json").write_bytes(packed[:at] + bytes([packed[at] ^ 0x5A]) + packed[at + 1 :])
        content(only(tmp_path / "t.json"))


# Archives


def zipped(path, members, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def tarred(path, members, mode):
    with tarfile.open(path, mode) as archive:
        for name, data in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(data)
            archive.addfile(about, io.BytesIO(data))
    return path


MEMBERS = {"job/rank0.json": CONTENT, "job/rank1.json.gz": gzip.compress(CONTENT), "job/readme.txt": b"x"}
ARCHIVES = {
    "a.zip": lambda path: zipped(path, MEMBERS),
    "stored.zip": lambda path: zipped(path, MEMBERS, zipfile.ZIP_STORED),
    "a.tar": lambda path: tarred(path, MEMBERS, "w"),
    "a.tar.gz": lambda path: tarred(path, MEMBERS, "w:gz"),
    "a.tgz": lambda path: tarred(path, MEMBERS, "w:gz"),
    "a.tar.bz2": lambda path: tarred(path, MEMBERS, "w:bz2"),
    "a.tar.xz": lambda path: tarred(path, MEMBERS, "w:xz"),
}
EVERY_ARCHIVE = pytest.mark.parametrize("name", ARCHIVES)


@EVERY_ARCHIVE
def test_an_archive_gives_its_traces(tmp_path, name):
    files = trace_files([str(ARCHIVES[name](tmp_path / name))])
    assert [file.basename for file in files] == ["rank0.json", "rank1.json.gz"]
    assert [content(file) for file in files] == [CONTENT, CONTENT]
    assert files[0].name.endswith(f"{name}!job/rank0.json")


@EVERY_ARCHIVE
def test_an_archive_is_never_unpacked(tmp_path, name):
    trace_files([str(ARCHIVES[name](tmp_path / name))])
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_tar_packed_with_zstd(tmp_path):
    plain = tarred(tmp_path / "a.tar", MEMBERS, "w").read_bytes()
    (tmp_path / "b.tar.zst").write_bytes(zstandard.compress(plain))
    assert [content(file) for file in trace_files([str(tmp_path / "b.tar.zst")])] == [CONTENT, CONTENT]


def test_links_and_folders_in_an_archive_are_no_traces(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, kind in (("link.json", tarfile.SYMTYPE), ("folder.json", tarfile.DIRTYPE)):
            about = tarfile.TarInfo(name)
            about.type, about.linkname = kind, "/etc/passwd"
            archive.addfile(about)
    with pytest.raises(Unreadable):
        trace_files([str(tmp_path / "a.tar")])


@EVERY_ARCHIVE
def test_an_archive_that_is_none(tmp_path, name):
    (tmp_path / name).write_bytes(b"no archive" * 100)
    with pytest.raises(Unreadable, match=name):
        trace_files([str(tmp_path / name)])


@EVERY_ARCHIVE
def test_a_broken_archive_is_one_sentence(tmp_path, name):
    packed = ARCHIVES[name](tmp_path / name).read_bytes()
    for at in range(0, len(packed), max(len(packed) // 80, 1)):
        for broken in (packed[:at], packed[:at] + bytes([packed[at] ^ 0x5A]) + packed[at + 1 :]):
            (tmp_path / name).write_bytes(broken)
            with suppress(Unreadable):
                for file in trace_files([str(tmp_path / name)]):
                    content(file)


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tgz"])
def test_a_cut_archive_gives_the_members_that_are_there(tmp_path, name):
    noise = {f"rank{n}.json": os.urandom(30_000) for n in range(4)}
    packed = tarred(tmp_path / name, noise, "w" if name == "a.tar" else "w:gz").read_bytes()
    (tmp_path / name).write_bytes(packed[: len(packed) * 5 // 8])
    files = trace_files([str(tmp_path / name)])
    assert [file.basename for file in files][:2] == ["rank0.json", "rank1.json"]
    assert [content(file) for file in files[:2]] == [noise["rank0.json"], noise["rank1.json"]]


def test_an_archive_with_a_password(tmp_path):
    path = zipped(tmp_path / "a.zip", {"rank0.json": CONTENT})
    packed = bytearray(path.read_bytes())
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        packed[packed.index(signature) + flags] |= 1
    path.write_bytes(packed)
    with pytest.raises(Unreadable, match=r"a\.zip"):
        content(only(path))


# Files that go away


def test_a_file_that_is_gone(tmp_path):
    with pytest.raises(Unreadable, match=r"gone\.json"):
        content(TraceFile(str(tmp_path / "gone.json")))


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_a_member_that_is_gone(tmp_path, name):
    path = ARCHIVES[name](tmp_path / name)
    with pytest.raises(Unreadable, match=r"gone\.json"):
        content(TraceFile(str(path), "gone.json"))


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_that_may_not_be_read(tmp_path):
    put(tmp_path, "a.json")
    (tmp_path / "a.json").chmod(0)
    with pytest.raises(Unreadable, match=r"a\.json"):
        content(only(tmp_path / "a.json"))


def test_errors_of_whoever_reads_are_left_alone(tmp_path):
    put(tmp_path, "a.json")
    with pytest.raises(KeyError), opened(only(tmp_path / "a.json")):
        raise KeyError("a mistake in the reader")
