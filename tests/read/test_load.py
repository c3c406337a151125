import gzip
import json
import multiprocessing
import zipfile
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import fsspec
import pandas as pd
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import lanes
from tests.read.tiny import NCCL, codes, kernel, launch, op, step, text, write
from tracekit import Analysis, load
from tracekit.errors import AmbiguousRanks, Unreadable, WrongUse
from tracekit.model import CALLS, EVENTS, NOTES, RANKS, STEPS, RankTables

EVENTS_OF_A_RANK = [step(1, 0, 20), launch(3, 1), kernel(2, 6, correlation=3), kernel(7, 9, NCCL, 20)]


def rank_file(folder, rank, world_size=2, name=None, events=EVENTS_OF_A_RANK, **more):
    info = {"rank": rank, "world_size": world_size, "backend": "nccl"}
    return write(folder, events, name or f"rank{rank}.json", distributedInfo=info, **more)


def ranks(path, **options):
    return load(path, **options).ranks["rank"].tolist()


# From wherever


def test_one_file_a_folder_a_pattern_and_a_list(tmp_path):
    files = [rank_file(tmp_path, 0), rank_file(tmp_path / "deep", 1)]
    assert ranks(files[1]) == [1]
    assert ranks(str(tmp_path)) == [0, 1]
    assert ranks(tmp_path / "*.json") == [0]
    assert ranks(files) == ranks(list(map(str, reversed(files)))) == [0, 1]


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("rank1.json", bytes), ("rank1.json.gz", gzip.compress), ("rank1.json.zst", zstandard.compress),
        ("rank1.pt.trace.json", bytes), ("rank1.123.pt.trace.json.gz", gzip.compress),
        ("rank1.json.gz", lambda text: gzip.compress(text[:200]) + gzip.compress(text[200:])),
    ],
)  # fmt: skip
def test_files_of_any_kind(tmp_path, name, pack):
    (tmp_path / name).write_bytes(pack(text(EVENTS_OF_A_RANK).encode()))
    run = load(tmp_path)
    assert run.ranks["rank"].tolist() == [1]
    assert (run.rank(1).work["end_ns"] // 1000).tolist() == [6, 9]


def test_an_archive(tmp_path):
    with zipfile.ZipFile(tmp_path / "run.zip", "w") as archive:
        for rank in (0, 1):
            archive.write(rank_file(tmp_path / "x", rank), f"job/trace_{rank}.json")
    run = load(tmp_path / "run.zip")
    assert run.ranks["rank"].tolist() == [0, 1]
    assert run.ranks["file"].str.endswith(("run.zip!job/trace_0.json", "run.zip!job/trace_1.json")).all()


def test_a_url():
    files = fsspec.filesystem("memory")
    files.pipe("/job/rank3.json", text(EVENTS_OF_A_RANK).encode())
    try:
        assert ranks("memory://job") == ranks("memory://job/rank*.json") == ranks(["memory://job/rank3.json"]) == [3]
    finally:
        files.rm("/job", recursive=True)


# What a run is


def test_the_tables_have_their_schemas(tmp_path):
    rank_file(tmp_path, 0)
    rank_file(tmp_path, 1, events=[op(1, 2)])
    run = load(tmp_path)
    for table, schema in ((run.ranks, RANKS), (run.steps, STEPS), (run.calls, CALLS), (run.notes, NOTES)):
        assert table.dtypes.astype(str).to_dict() == schema
    assert run.events(0).dtypes.astype(str).to_dict() == EVENTS
    assert run.path == str(tmp_path)


def test_the_row_of_a_rank(tmp_path):
    file = rank_file(
        tmp_path, 1, 2, deviceProperties=[{"id": 0, "name": "H100", "totalGlobalMem": 80}], host_name="node7"
    )
    [row] = load(tmp_path).ranks.to_dict("records")
    told = ("rank", "window", "file", "host", "device", "backend", "world_size", "events", "dropped", "clock_offset_ns")
    assert tuple(row[key] for key in told) == (1, 0, str(file), "node7", "H100", "nccl", 2, 4, 0, 0)
    assert row["device_memory_bytes"] == 80
    assert load(tmp_path).ranks["device_memory_bytes"].tolist() == [80]  # from the cache


def test_events_are_opened_when_asked_for(tmp_path):
    rank_file(tmp_path, 0)
    events = load(tmp_path).events(0)
    assert events["kind"].tolist() == ["annotation", "launch", "compute", "comm"]
    with pytest.raises(WrongUse, match="no rank 5"):
        load(tmp_path).events(5)


def test_several_windows_of_a_rank(tmp_path):
    for window, at in enumerate((0, 100)):
        rank_file(tmp_path, 0, 1, f"{window}.json", [step(window, at, at + 9), kernel(at, at + 4 + window)])
    run = load(tmp_path)
    assert run.ranks[["rank", "window"]].values.tolist() == [[0, 0], [0, 1]]
    rows = Analysis(run)["breakdown"]
    assert rows[["rank", "window", "compute_ns"]].values.tolist() == [[0, 0, 4000], [0, 1, 5000]]


def test_progress_is_told(tmp_path):
    for rank in range(3):
        rank_file(tmp_path, rank, 3)
    told = []
    load(tmp_path, progress=lambda *one: told.append(one))
    assert [(done, total, name.rsplit("/", 1)[-1]) for done, total, name in told] == [
        (1, 3, "rank0.json"), (2, 3, "rank1.json"), (3, 3, "rank2.json"),
    ]  # fmt: skip


def test_patterns_of_the_users_own(tmp_path):
    rank_file(tmp_path, 0, 1)
    assert load(tmp_path, comm_patterns=["SGEMM"]).rank(0).work["kind"].tolist() == ["comm", "comm"]


def compute_ns(one: RankTables) -> pd.DataFrame:
    busy = one.busy("compute")
    return pd.DataFrame({"compute_ns": [int((busy.ends - busy.starts).sum())]})


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_any_executor_reads_and_measures(tmp_path, kind):
    for rank in range(3):
        rank_file(tmp_path, rank, 3, events=[kernel(0, 1 + rank)])
    pools = {"threads": ThreadPoolExecutor, "processes": ProcessPoolExecutor}
    more = {"mp_context": multiprocessing.get_context("spawn")} if kind == "processes" else {}
    with pools[kind](2, **more) as executor:
        rows = load(tmp_path, executor=executor).map(compute_ns)
    assert rows.values.tolist() == [[0, 1000], [1, 2000], [2, 3000]]


def test_the_pool_of_processes_gives_the_same(tmp_path, monkeypatch):
    from tracekit.read import load as door

    for rank in range(2):
        rank_file(tmp_path, rank)
    want = load(tmp_path, cache=False)
    monkeypatch.setattr(door, "HEAVY_BYTES", 0)
    monkeypatch.setattr(door, "HEAVY_EVENTS", 0)
    got = load(tmp_path, cache=False)
    assert got.rank(1).work.equals(want.rank(1).work)
    assert Analysis(got)["breakdown"].equals(Analysis(want)["breakdown"])


# What is wrong


def test_a_file_that_is_no_trace_beside_the_traces_is_one_note(tmp_path):
    rank_file(tmp_path, 0, 1)
    (tmp_path / "run.json").write_text('{"world_size": 1}')
    run = load(tmp_path)
    notes = run.notes[run.notes["code"] == "not-a-trace"]
    assert len(notes) == 1
    assert "run.json" in notes["message"].iloc[0]
    assert "\n" not in notes["message"].iloc[0]
    assert run.ranks["rank"].tolist() == [0]


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", "no json", "\x00" * 100, '{"traceEvents": []}', "[1, 2]", '[{"a": 1}]']
)
def test_if_nothing_readable_remains_it_is_an_error(tmp_path, content):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(Unreadable, match=r"run\.json") as error:
        load(tmp_path)
    assert error.value.exit_code == 2
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("path", ["nowhere", "*.json", "nowhere/*.json.gz"])
def test_a_path_that_means_nothing(tmp_path, path):
    with pytest.raises(Unreadable, match="no such file"):
        load(tmp_path / path)


def test_no_path_at_all():
    with pytest.raises(Unreadable):
        load([])


def test_two_files_that_claim_one_rank_at_the_same_time(tmp_path):
    rank_file(tmp_path, 0, name="one.json")
    rank_file(tmp_path, 0, name="other.json")
    with pytest.raises(AmbiguousRanks, match=r"one\.json and .*other\.json") as error:
        load(tmp_path)
    assert error.value.exit_code == 2


def test_missing_ranks_are_noted(tmp_path):
    rank_file(tmp_path, 1, 4)
    rank_file(tmp_path, 2, 4)
    notes = load(tmp_path).notes
    [note] = notes[notes["code"] == "missing-rank"].to_dict("records")
    assert "0, 3" in note["message"]
    assert note["severity"] == "warning"


def test_one_ranks_troubles_are_its_own(tmp_path):
    rank_file(tmp_path, 0)
    broken = rank_file(tmp_path, 1)
    broken.write_text(broken.read_text()[:-60])
    (tmp_path / "rank2.json.gz").write_bytes(gzip.compress(b"noise" * 100)[:50])
    run = load(tmp_path)
    assert run.ranks["rank"].tolist() == [0, 1]
    assert run.notes.loc[run.notes["code"] == "truncated", "rank"].tolist() == [1]
    assert codes(run)["not-a-trace"] == 1
    assert len(run.rank(0).work) == 2


def test_notes_name_their_file_and_rank(tmp_path):
    rank_file(tmp_path, 1, 2, "odd name.json", [*EVENTS_OF_A_RANK, {**kernel(1, 2), "dur": -1}])
    notes = load(tmp_path).notes
    [note] = notes[notes["code"] == "impossible-time"].to_dict("records")
    assert (note["rank"], note["count"]) == (1, 1)
    assert note["message"].startswith("odd name.json: ")


# A drawing written as Kineto files and read again is the drawing

DRAWINGS = {
    "a rich one": """
        0/main    abcd.e.SS.DDD.GG.fg.......
        0/main    .....PPP..................
        0/main    ..............R.OO.AA.....
        0/7       C.CCC.CC!CC....CC..CC.CC..  by=abcd-efg
        0/20      ..NNN..NN....N......NN....  group=dp seq=1
        0/21      ...NN...............N.N...  group=tp op=all_gather
        0/9       .MM..MM.........MMM.......  bytes=4000
        0/memory  1.2..3...4....5...........
    """,
    "several ranks": """
        0/7   CCCC..CC..
        0/20  ..NNNN....  op=reduce_scatter bytes=64
        1/7   .CCCCC....
        1/20  ....NN....  op=reduce_scatter bytes=64
        2/7   CC........
        2/20  ..NNNN....  op=reduce_scatter bytes=64
    """,
    "steps": """
        step    000000111111
        0/main  a.b...c.d...
        0/7     .CC..C.CC.C.  by=abcd
        1/main  a.....b.....
        1/7     .CCCC..CCCC.  by=ab
    """,
    "copies": """
        0/7   CC..CC....
        0/9   .MMM......  bytes=100 op=device_to_host
        0/10  ..MM..MM..  op=device_to_device
        0/11  ........M.  op=set bytes=7
    """,
    "waits of streams": """
        step    0000000...
        0/main  a.........
        0/7     .CCC......  by=a
        0/20    ..WW......
        0/20    ....NNN...
    """,
    "windows": """
        0.0/7  CCC.......
        0.1/7  ......CC..
        1.0/7  CCC.......
        1.1/7  ......CC..
    """,
    "a CPU rank": """
        0/main  CCC.AA.CC..
        0/gloo  ..NNN..NN..
        1/main  CC.........
        1/gloo  ..NNN..NN..
    """,
}  # fmt: skip
SAME = ["kind", "name", "lane", "step", "start_ns", "end_ns", "launch_ns", "correlation", "operation", "bytes", "shape"]
SAME_OF_CALLS = ["rank", "window", "step", "group", "op", "seq", "bytes", "lane", "start_ns", "end_ns", "device_work"]


def values(table, columns):
    """Rows as plain values, in an order of their own."""
    plain = table[columns].astype(object)
    return sorted(map(tuple, plain.where(plain.notna(), None).values.tolist()), key=str)


def assert_same(drawing, folder):
    want, got = lanes.run(drawing), load(lanes.kineto(drawing, folder), cache=False)
    assert got.steps.equals(want.steps)
    for key in want.sources:
        mine, drawn = got.rank(*key), want.rank(*key)
        assert mine.on_cpu == drawn.on_cpu
        host = mine.host[~mine.host["name"].astype(str).str.startswith("ProfilerStep#")]
        drawn_work = drawn.work.assign(bytes=drawn.work["bytes"].where(drawn.work["kind"] == "memory"))
        assert values(mine.work, SAME) == values(drawn_work, SAME)
        assert values(host, SAME) == values(drawn.host, SAME)
        sizes = ["time_ns", "allocated_bytes", "reserved_bytes"]
        assert values(mine.allocations, sizes) == values(drawn.allocations, sizes)
    grouped = got.calls.assign(group=got.calls["group"].where(got.calls["group"] != "all", "default"))
    assert values(grouped, SAME_OF_CALLS) == values(want.calls, SAME_OF_CALLS)


@pytest.mark.parametrize("drawing", DRAWINGS.values(), ids=DRAWINGS)
def test_a_drawing_is_read_as_it_was_drawn(drawing, tmp_path):
    assert_same(drawing, tmp_path)


def test_measures_of_a_drawing_and_of_its_files_agree(tmp_path):
    drawing = DRAWINGS["a rich one"]
    drawn, read = Analysis(lanes.run(drawing)), Analysis(load(lanes.kineto(drawing, tmp_path)))
    for measure in ("breakdown", "overlap", "overlap_operation", "idle", "kernels"):
        assert read[measure].equals(drawn[measure]), measure


CELLS = (
    st.text("C.", min_size=8, max_size=8),
    st.text("N.", min_size=8, max_size=8),
    st.text("M.", min_size=8, max_size=8),
)


@settings(max_examples=8)
@given(compute=CELLS[0], comm=CELLS[1], copies=CELLS[2])
def test_any_drawing_is_read_as_it_was_drawn(compute, comm, copies, tmp_path_factory):
    if not set(compute + comm + copies) - {"."}:
        compute = "C......."
    assert_same(f"0/7 {compute}\n0/20 {comm}\n0/9 {copies} bytes=8", tmp_path_factory.mktemp("drawing"))


def test_the_files_of_a_drawing_are_plain_json(tmp_path):
    [file] = lanes.kineto("0/7 CC", tmp_path)
    assert json.loads(file.read_text())["distributedInfo"]["rank"] == 0
