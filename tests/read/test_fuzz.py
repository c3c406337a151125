"""Bytes of traces changed at random, always the same: reading never fails but with a sentence, and never invents."""

import gzip
import json
import random
import time

import pytest

from tests import lanes
from tests.conftest import DATA, REAL_TRACES
from tests.read.tiny import raw
from tracekit import Analysis, load
from tracekit.errors import TracekitError
from tracekit.measures.breakdown import residue_ns
from tracekit.read import names
from tracekit.read.cache import Settings, parsed
from tracekit.read.sources import trace_files
from tracekit.read.tables import CPU, rank_parts

REAL = [
    "single/amd_trace__mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    "single/cpu_only__rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz",
    "single/distributed_info_unavailable__distributed_info_not_found.json.gz",
    "dlrm_x8/worker0_step_12.1694128201545.pt.trace.json.gz",
    "resnet18_ddp2/ip-172-31-16-248.us-east-2.compute.internal_85866.1698107929560561434.pt.trace.json.gz",
    "production_st/rank0.json.gz",
]
OWN = sorted(path.relative_to(DATA).as_posix() for path in (DATA / "cases").glob("*/*.json"))
DRAWING = """
    0/main  abcd.e.SS.DDD.GG.fg.......
    0/7     C.CCC.CC!CC....CC..CC.CC..  by=abcd-efg
    0/20    ..NNN..NN....N......NN....  group=dp
    0/9     .MM..MM.........MMM.......  bytes=4000
    0/memory  1.2..3...4....5...........
"""
PIECES = [
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\0",
    b"\xff",
    b"},{",
    b'"ph":"X"',
    b"NaN",
    b"-1",
    b"1e999",
    b'"ts":',
]
SECONDS_AT_MOST = 20


def text_of(name):
    """The decompressed text of a real trace, or the test is skipped; of a large one, its first events."""
    if not REAL_TRACES.is_dir():
        pytest.skip(f"no real traces at {REAL_TRACES}: set TRACEKIT_REAL_TRACES to their folder")
    text = gzip.decompress((REAL_TRACES / name).read_bytes())
    return text if len(text) < 300_000 else text[:200_000] + text[-20_000:]


def changed(text, dice):
    """The text with a few changes: flipped bits, foreign pieces, cuts, copies from elsewhere, lost and moved parts."""
    for _ in range(dice.choice([1, 1, 2, 5, 20])):
        at, long = dice.randrange(len(text) + 1), dice.choice([1, 3, 30, 300, 3000])
        other = dice.randrange(len(text) + 1)
        kind = dice.randrange(6)
        if kind == 0 and at < len(text):
            text = text[:at] + bytes([text[at] ^ 1 << dice.randrange(8)]) + text[at + 1 :]
        elif kind == 1:
            text = text[:at] + dice.choice(PIECES) + text[at + dice.randrange(2) :]
        elif kind == 2:
            text = text[:at] + text[at + long :]
        elif kind == 3:
            text = text[:at] + text[other : other + long] + text[at:]
        elif kind == 4:
            text = text[:at] + dice.randbytes(long) + text[at + long :]
        elif dice.randrange(4) == 0:
            text = text[: max(at, len(text) // 2)]
    return text


def check(text):
    """Reads the text as far as to tables; what it says must hold together."""
    begin = time.monotonic()
    try:
        found = raw(text)
        parts = rank_parts(found, "rank0.json", names.communication())
    except TracekitError:
        return
    finally:
        assert time.monotonic() - begin < SECONDS_AT_MOST
    assert (found.spans["end_ns"] >= found.spans["start_ns"]).all()
    assert len(found.spans) <= found.events <= text.count(b"{") + text.count(b",") + 2
    for part in parts:
        assert (part.work["end_ns"] >= part.work["start_ns"]).all()
        in_pieces = part.identity.device == CPU  # operators, without what they communicate inside
        assert len(part.host) + (0 if in_pieces else len(part.work)) <= len(found.spans)
        assert (part.steps["end_ns"] >= part.steps["start_ns"]).all()


@pytest.mark.parametrize("name", REAL)
def test_changed_real_traces(name):
    text, dice = text_of(name), random.Random(name)
    for _ in range(25):
        check(changed(text, dice))


@pytest.mark.parametrize("name", OWN)
def test_changed_cases(name):
    text, dice = (DATA / name).read_bytes(), random.Random(name)
    for _ in range(15):
        check(changed(text, dice))


def test_two_traces_spliced():
    dice = random.Random(7)
    texts = [(DATA / name).read_bytes() for name in OWN]
    for _ in range(30):
        one, other = dice.sample(texts, 2)
        check(one[: dice.randrange(len(one))] + other[dice.randrange(len(other)) :])


def test_noise():
    dice = random.Random(3)
    for _ in range(12):
        check(dice.randbytes(dice.randrange(2000)))
        check(b'{"traceEvents": [' + dice.randbytes(dice.randrange(2000)))
        check(b"[" + b"".join(dice.choices(PIECES, k=200)))


def test_what_is_measured_of_changed_traces_still_adds_up(tmp_path):
    dice = random.Random(5)
    text = lanes.kineto(DRAWING, tmp_path)[0].read_bytes()
    for n in range(20):
        (tmp_path / f"{n}").mkdir()
        (tmp_path / f"{n}" / "rank0.json").write_bytes(changed(text, dice))
        try:
            rows = Analysis(load(tmp_path / f"{n}", cache=False))["breakdown"]
        except TracekitError:
            continue
        assert (residue_ns(rows) == 0).all()
        assert (rows.select_dtypes("number").drop(columns=["rank", "step"]) >= 0).all(axis=None)


def test_changed_compressed_files(tmp_path, cache_folder):
    dice = random.Random(11)
    packed = gzip.compress(lanes.kineto(DRAWING, tmp_path)[0].read_bytes())
    for _ in range(40):
        (tmp_path / "rank0.json.gz").write_bytes(changed(packed, dice))
        [file] = trace_files([str(tmp_path / "rank0.json.gz")])
        found = parsed(file, Settings("", str(cache_folder)))
        assert bool(found.error) != bool(found.parts)
        assert found.error is None or "rank0.json.gz" in found.error


def test_a_cut_invents_nothing():
    """Of a trace cut anywhere, what is read is the beginning of what was written."""
    [text] = [(DATA / name).read_bytes() for name in OWN if "t1_rank0" in name]
    written = [event["name"] for event in json.loads(text)["traceEvents"] if event["ph"] == "X"]
    for cut in range(text.index(b"[") + 1, len(text), 29):
        found = raw(text[:cut])
        read = found.spans.sort_index()["name"].tolist()
        assert read == written[: len(read)]
        assert text[:cut].count(b'"dur"') - len(read) <= 1
