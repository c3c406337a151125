"""gloo's spans joined to the annotations around their issue; the file is written as Kineto writes it."""

import json

import pytest

from tracekit import load

GROUPS = [
    {"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2, "ranks": [0, 1]},
    {"pg_name": "1", "pg_desc": "dp", "pg_size": 2, "ranks": [0, 1]},
]
WORKER_THREADS = {"0": (91, 92), "1": (93, 94)}


def span(name, thread, start, end, **args):
    category = "cpu_op" if "::" in name else "user_annotation"
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": 9,
        "tid": thread,
        "ts": start,
        "dur": end - start,
        "args": args,
    }


def issued(op, start, group="0", seq=0, size=8, end=None, **more):
    threads = ",".join(map(str, WORKER_THREADS[group])) if op not in ("send", "recv") else ""
    told = f"group={group} seq={seq} bytes={size} dtype=float32" + "".join(f" {key}={more[key]}" for key in more)
    return span(f"comm:{op} {told}" + (f" threads={threads}" if threads else ""), 9, start, end or start + 1)


def ran(op, thread, start, end, floats=2):
    return span(f"gloo:{op}", thread, start, end, **{"Input Dims": [[floats]], "Input type": ["float"]})


def calls(tmp_path, *events):
    step = span("ProfilerStep#3", 9, 0, 1000)
    info = {"backend": "gloo", "rank": 0, "world_size": 2, "pg_config": GROUPS}
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps({"distributedInfo": info, "traceEvents": [step, span("aten::mm", 9, 0, 1), *events]}))
    return load(path).calls


def test_a_collective_gets_group_number_and_size_of_the_annotation_before_it(tmp_path):
    found = calls(tmp_path, issued("all_reduce", 10, group="1", seq=5), ran("all_reduce", 93, 12, 40))
    assert found[["group", "op", "seq", "bytes", "group_ranks"]].values.tolist() == [
        ["dp", "all_reduce", 5, 8, "[0, 1]"]
    ]


def test_two_groups_of_the_same_members_with_four_calls_in_flight_each(tmp_path):
    issue = [issued("all_reduce", 10 + 2 * n + k, group=str(k), seq=n) for n in range(4) for k in (0, 1)]
    runs = [
        ran("all_reduce", WORKER_THREADS[str(k)][n % 2], 30 + 10 * n + k, 39 + 10 * n + k)
        for n in range(4)
        for k in (0, 1)
    ]
    found = calls(tmp_path, *issue, *runs)
    assert found[["group", "seq"]].values.tolist() == [
        ["default_pg", 0], ["dp", 0], ["default_pg", 1], ["dp", 1], ["default_pg", 2], ["dp", 2], ["default_pg", 3],
        ["dp", 3],
    ]  # fmt: skip


def test_sizes_tell_apart_calls_that_overtake_each_other_on_two_threads(tmp_path):
    found = calls(
        tmp_path,
        issued("all_reduce", 10, seq=0, size=8),
        issued("all_reduce", 11, seq=1, size=400),
        ran("all_reduce", 92, 12, 20, floats=100),  # the second began first
        ran("all_reduce", 91, 13, 15, floats=2),
    )
    assert found[["seq", "bytes"]].values.tolist() == [[1, 400], [0, 8]]


def test_a_reduce_scatter_that_gloo_shows_as_all_reduce_is_one(tmp_path):
    found = calls(tmp_path, issued("reduce_scatter", 10), ran("all_reduce", 91, 12, 20))
    assert found["op"].tolist() == ["reduce_scatter"]


def test_an_all_gather_shows_its_part_and_is_told_as_the_whole(tmp_path):
    found = calls(tmp_path, issued("all_gather", 10, size=16), ran("all_gather", 91, 12, 20, floats=2))
    assert found[["op", "bytes"]].values.tolist() == [["all_gather", 16]]


@pytest.mark.parametrize(("op", "peer"), [("send", 1), ("recv", 1)])
def test_a_transfer_begins_inside_its_annotation(tmp_path, op, peer):
    ends = {"src": 0, "dst": 1} if op == "send" else {"src": 1, "dst": 0}
    found = calls(tmp_path, issued(op, 10, seq=3, end=14, **ends), ran(op, 9, 12, 90))
    assert found[["op", "seq", "peer", "device_work"]].values.tolist() == [[op, 3, peer, False]]


def test_a_span_whose_issue_the_file_does_not_show_stays_untold(tmp_path):
    found = calls(tmp_path, ran("all_reduce", 91, 5, 8), issued("all_reduce", 10, seq=1), ran("all_reduce", 91, 12, 20))
    assert found["seq"].isna().tolist() == [True, False]
    assert found["group"].tolist() == ["all", "default_pg"]


def test_an_annotation_that_is_cut_tells_nothing(tmp_path):
    found = calls(tmp_path, span("comm:all_reduce group=0 seq=", 9, 10, 11), ran("all_reduce", 91, 12, 20))
    assert found["seq"].isna().all()
