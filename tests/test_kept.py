import pytest
from pandas.testing import assert_frame_equal

from tests import lanes
from tracekit import kept
from tracekit.analysis import Analysis, measure_names
from tracekit.errors import NotMeasured
from tracekit.read.load import load

DRAWING = """
    step 000000000011111111111
    0/7  CCCC......CCCC.......
    0/20 ..NNNN......NNNN.....  op=all_reduce group=dp bytes=2048
    1/7  CC........CC.........
    1/20 ....NN........NN.....  op=all_reduce group=dp bytes=2048
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACEKIT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "run").mkdir()
    lanes.kineto(DRAWING, tmp_path / "run")
    return tmp_path / "run"


def looked_at(folder):
    analysis = Analysis(load(folder))
    assert kept.keep(analysis, measure_names())
    return analysis


def answer(analysis, name):
    """The measure's rows, or why there are none."""
    try:
        return analysis[name]
    except NotMeasured as why:
        return str(why)


def entry(folder):
    [file] = (folder.parent / "cache").glob("answers-*/entry.json")
    return file


def test_answers_come_back_as_they_were(folder):
    first, again = looked_at(folder), kept.analysis_of(load(folder))
    assert again.answered
    assert again.findings == first.findings
    assert again.whatif.changes.equals(first.whatif.changes)
    assert (again.whatif.step_ns, again.whatif.doubts) == (first.whatif.step_ns, first.whatif.doubts)
    for name in measure_names():
        told, was = answer(again, name), answer(first, name)
        if isinstance(was, str):
            assert told == was
        else:
            assert_frame_equal(told, was, check_exact=True)


def test_another_file_has_no_answers(folder):
    looked_at(folder)
    lanes.kineto(DRAWING.replace("0/7  CCCC", "0/7  CCC."), folder)
    assert not kept.analysis_of(load(folder)).answered


def test_another_program_has_no_answers(folder, monkeypatch):
    looked_at(folder)
    monkeypatch.setattr(kept, "_program", lambda: "another")
    assert not kept.analysis_of(load(folder)).answered


@pytest.mark.parametrize("spoil", [
    lambda text: text[:-1], lambda text: b"", lambda text: text[:40] + bytes([text[40] ^ 1]) + text[41:],
])  # fmt: skip
def test_broken_answers_are_none(folder, spoil):
    looked_at(folder)
    entry(folder).write_bytes(spoil(entry(folder).read_bytes()))
    assert not kept.analysis_of(load(folder)).answered


def test_nothing_is_kept_of_a_run_whose_ranks_are_not(folder):
    analysis = Analysis(load(folder, cache=False))
    assert not kept.keep(analysis, measure_names())
    assert not kept.analysis_of(analysis.run).answered


def test_a_full_disk_keeps_nothing_and_says_so(folder, monkeypatch):
    analysis = Analysis(load(folder))
    monkeypatch.setattr(kept.Path, "write_bytes", lambda *_: (_ for _ in ()).throw(OSError(28, "no space")))
    assert not kept.keep(analysis, measure_names())
