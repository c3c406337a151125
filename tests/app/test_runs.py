import gzip
import os

import pytest

pytest.importorskip("streamlit", reason="the extra 'app' is not installed")

from app import runs
from tracekit.errors import TracekitError, WrongUse


def test_folders_with_traces_are_runs(root):
    (root / "no traces").mkdir()
    (root / "archive.zip").write_bytes(b"")
    found = {run.name: run.files for run in runs.found(root)}
    assert found == {"a": 2, "deep/b": 2, "archive.zip": 1}
    assert "2 files" in next(run.words for run in runs.found(root) if run.name == "a")


def test_the_newest_stands_first(root):
    for file in (root / "a").iterdir():
        os.utime(file, (1, 1))
    assert [run.name for run in runs.found(root)] == ["deep/b", "a"]


@pytest.mark.parametrize("name", [
    "../secret", "a/../../secret", "/etc", "a\0", "no such", "file:///etc", "a::file:///etc", "..", "deep/../..",
])  # fmt: skip
def test_nothing_outside_the_root_is_read(root, name):
    with pytest.raises(WrongUse):
        runs.path_of(root, name)


def test_links_that_lead_out_are_not_followed(root, tmp_path):
    (root / "link").symlink_to(tmp_path / "secret")
    (root / "a" / "rank9.json").symlink_to(next((tmp_path / "secret").iterdir()))
    assert "link" not in {run.name for run in runs.found(root)}
    for name in ("link", "a"):
        with pytest.raises(WrongUse):
            runs.path_of(root, name)
    assert runs.path_of(root, "deep/b") == root / "deep" / "b"


def test_a_run_is_read_once_until_its_files_change(root):
    shelf, seen = runs.Shelf(), []
    first = shelf.opened(root / "a", lambda *told: seen.append(told))
    assert ("reading ranks", 2, 2) in seen
    assert shelf.opened(root / "a", lambda *told: seen.append(told)) is first
    os.utime(next((root / "a").iterdir()), (2e9, 2e9))
    assert shelf.get(root / "a") is None


def test_what_interrupts_the_progress_cancels_reading(root):
    class Cancelled(Exception):
        pass

    def cancel(*told):
        raise Cancelled

    shelf = runs.Shelf()
    with pytest.raises(Cancelled):
        shelf.opened(root / "a", cancel)
    assert shelf.get(root / "a") is None


def test_only_the_last_runs_stay_open(root, monkeypatch):
    monkeypatch.setattr(runs, "KEPT", 1)
    shelf = runs.Shelf()
    shelf.opened(root / "a", lambda *_: None)
    shelf.opened(root / "deep" / "b", lambda *_: None)
    assert shelf.get(root / "a") is None
    assert shelf.get(root / "deep" / "b") is not None


def test_a_broken_run_says_why(root):
    (root / "broken").mkdir()
    (root / "broken" / "rank0.json").write_text("{")
    with pytest.raises(TracekitError, match=r"rank0\.json"):
        runs.Shelf().opened(root / "broken", lambda *_: None)


@pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_the_list_tells_the_world_size_that_a_trace_begins_with(root, compress):
    (root / "c").mkdir()
    text = b'{"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 64}, "traceEvents": []}'
    (root / "c" / "rank0.json.gz").write_bytes(compress(text))
    assert next(run.about for run in runs.found(root) if run.name == "c") == "64 ranks"


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b no gzip", b'{"traceEvents": []}', b'{"world_size": "x"}'])
def test_what_a_trace_does_not_tell_is_not_in_the_list(root, content):
    (root / "c").mkdir()
    (root / "c" / "rank0.json").write_bytes(content)
    found = next(run for run in runs.found(root) if run.name == "c")
    assert found.about == ""
    assert found.words.endswith("world size not told before reading")


def test_a_diagnosis_is_not_made_again_after_a_restart(root, tmp_path, monkeypatch):
    monkeypatch.setenv("TRACEKIT_CACHE", str(tmp_path / "cache"))
    first = runs.Shelf().opened(root / "a", lambda *_: None)
    runs.diagnosed(first, lambda *_: None)
    again = runs.Shelf().opened(root / "a", lambda *_: None)
    assert (first.answered, again.answered) == (False, True)
    assert again.findings == first.findings
