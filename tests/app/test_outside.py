"""Whatever is asked for, nothing outside the root folder is read, and the answer is a sentence."""

import io
import os
import tarfile
import zipfile

import pytest

pytest.importorskip("streamlit", reason="the extra 'app' is not installed")

from app import runs, shell
from tests import lanes
from tracekit.errors import WrongUse

ODD = [
    "~", "~root", "\\..\\..\\secret", "..\\secret", "C:\\", "//etc", "a/../../secret/.", "%2e%2e/secret", "..%2fsecret",
    "%252e%252e%252fsecret", "s3://bucket/a", "http://127.0.0.1:1/a", "zip://x::/etc/passwd", "simplecache::file:///etc",
    "memory://a", "a\n", "\n", "\x1b[31m", "x" * 5000, "a/" * 3000, "\ud800", "*", "a/*", "[a]", "/",
    "/proc/self/environ",
]  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_odd_names_are_no_runs_and_get_a_sentence(root, name):
    with pytest.raises(WrongUse, match="no such run"):
        runs.path_of(root, name)


def test_a_name_may_hold_a_line_break(root):
    (root / "two\nlines").mkdir()
    lanes.kineto("0/7 C", root / "two\nlines")
    assert "two\nlines" in {run.name for run in runs.found(root)}
    assert runs.path_of(root, "two\nlines") == root / "two\nlines"


@pytest.mark.parametrize("name", ["rank0.json", "run.json", "old.zip", "a.summary.json", "notes.txt"])
def test_a_run_with_a_link_that_leads_out_is_not_read(root, tmp_path, name):
    (tmp_path / "secret" / "content").write_text('{"distributedInfo": {"world_size": 4242}, "traceEvents": []}')
    (root / "linked").mkdir()
    (root / "linked" / name).symlink_to(tmp_path / "secret" / "content")
    lanes.kineto("0/7 C\n1/7 C", root / "linked")  # through the link, where it has a rank's name
    with pytest.raises(WrongUse, match="leads out"):
        runs.path_of(root, "linked")
    assert "4242" not in "".join(run.words for run in runs.found(root))


def test_the_list_reads_nothing_through_links(root, tmp_path):
    (tmp_path / "secret" / "content").write_text('{"distributedInfo": {"world_size": 4242}, "traceEvents": []}')
    (root / "linked").mkdir()
    for name in ("rank0.json", "old.zip", "a.summary.json"):
        (root / "linked" / name).symlink_to(tmp_path / "secret" / "content")
    assert {run.name for run in runs.found(root)} == {"a", "deep/b"}
    assert runs.histories(root) == []


def test_a_link_to_a_folder_whose_link_leads_out_is_not_followed(root, tmp_path):
    (root / "other").mkdir()
    (root / "other" / "rank5.json").symlink_to(next((tmp_path / "secret").iterdir()))
    (root / "a" / "more").symlink_to(root / "other")
    with pytest.raises(WrongUse, match="leads out"):
        runs.path_of(root, "a")


def test_links_inside_the_root_are_followed_once(root):
    (root / "linked").mkdir()
    (root / "linked" / "b").symlink_to(root / "deep" / "b")
    assert runs.path_of(root, "linked") == root / "linked"
    for target in (root / "a", root):
        (root / "a" / "circle").symlink_to(target)
        with pytest.raises(WrongUse, match=r"holds already|leads out"):
            runs.path_of(root, "a")
        (root / "a" / "circle").unlink()
    (root / "self").symlink_to(root / "self")
    with pytest.raises(WrongUse, match="no such run"):
        runs.path_of(root, "self")
    (root / "a" / "self").symlink_to(root / "a" / "self")
    with pytest.raises(WrongUse, match="leads out"):
        runs.path_of(root, "a")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_the_list_waits_for_no_pipe(root):
    (root / "pipe").mkdir()
    os.mkfifo(root / "pipe" / "rank0.json")
    assert "pipe" not in {run.name for run in runs.found(root)}


@pytest.mark.parametrize("name", [
    "../../etc/passwd", "/etc/passwd", "..\\..\\x.json", "a\0b.json", "two\nlines.json", "", "..", ".", ".hidden.json",
    "x" * 5000 + ".json", "\x1b]52;c;x\x07.json", "\u202e.json", "C:\\x.json",
])  # fmt: skip
def test_an_uploaded_file_stays_in_its_folder(name, tmp_path):
    file = tmp_path / shell._safe_name(name, 3)
    file.write_bytes(b"")
    assert [one.name for one in tmp_path.iterdir()] == [file.name]
    assert file.name.isprintable()
    assert file.name.startswith("0003_")


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_an_archives_members_lead_nowhere(root, tmp_path, kind):
    """Of names with `..`, absolute ones, and links, none is unpacked, and only files inside the archive are read."""
    [secret] = lanes.kineto("0/7 CCCCCCCC name=secret", tmp_path / "secret")[:1]
    archive = root / f"run.{kind}"
    before = {one for one in tmp_path.rglob("*") if one != archive}
    places = ("../../evil.json", str(tmp_path / "evil.json"))
    members = {place: (root / "a" / f"rank{rank}_window0.json").read_bytes() for rank, place in enumerate(places)}
    if kind == "zip":
        with zipfile.ZipFile(archive, "w") as packed:
            for name, content in members.items():
                packed.writestr(name, content)
            linked = zipfile.ZipInfo("rank2.json")
            linked.external_attr = 0o120777 << 16
            packed.writestr(linked, str(secret))
    else:
        with tarfile.open(archive, "w") as packed:
            for name, content in members.items():
                told = tarfile.TarInfo(name)
                told.size = len(content)
                packed.addfile(told, io.BytesIO(content))
            for kind_of_link in (tarfile.SYMTYPE, tarfile.LNKTYPE):
                told = tarfile.TarInfo("rank2.json")
                told.type, told.linkname = kind_of_link, str(secret)
                packed.addfile(told)
    opened = runs.Shelf().opened(runs.path_of(root, archive.name), lambda *_: None)
    assert "secret" not in set(opened["kernels"]["name"])
    assert len(opened["kernels"]) > 0
    assert {one for one in tmp_path.rglob("*") if one != archive} == before
