"""gloo's spans joined to the annotations around their issue; the file is written as Kineto writes it."""

import json

import pytest

from tracekit import Analysis, load
from tracekit.errors import NotMeasured
from tracekit.report.text import account_text
from tracekit.waiting import with_waits

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


def awaits(op, start, end, seq=0, group="0", size=8, **ends):
    told = f"group={group} seq={seq} bytes={size} dtype=float32 src={ends['src']} dst={ends['dst']}"
    return span(f"wait:{op} {told}", 9, start, end)


TO_1, FROM_1 = {"src": 0, "dst": 1}, {"src": 1, "dst": 0}


def test_a_call_that_the_program_waits_for_is_as_long_as_the_wait(tmp_path):
    found = calls(
        tmp_path,
        *(issued("recv", 10, seq=3, end=13, **FROM_1), ran("recv", 9, 12, 90)),
        *(issued("send", 14, seq=5, end=17, **TO_1), ran("send", 9, 16, 70)),
        *(awaits("recv", 40, 90, seq=3, **FROM_1), awaits("send", 92, 93, seq=5, **TO_1)),
    )
    told = found[["op", "seq", "peer", "start_ns", "end_ns", "arrival_ns", "device_work"]]
    assert told.values.tolist() == [
        ["recv", 3, 1, 40_000, 90_000, 10_000, True],
        ["send", 5, 1, 92_000, 93_000, 14_000, True],
    ]
    assert found["bytes"].tolist() == [8, 8]


def test_a_call_that_nobody_waits_for_stays_a_handle(tmp_path):
    found = calls(
        tmp_path,
        *(issued("recv", 10, seq=3, end=13, **FROM_1), ran("recv", 9, 12, 90)),
        *(issued("recv", 20, seq=4, end=23, **FROM_1), ran("recv", 9, 22, 95)),
        awaits("recv", 40, 90, seq=3, **FROM_1),
    )
    assert found[["seq", "device_work"]].values.tolist() == [[4, False], [3, True]]
    assert found["arrival_ns"].isna().tolist() == [True, False]


def test_a_wait_for_what_was_issued_before_the_file_begins_is_nobodys_counterpart(tmp_path):
    found = calls(tmp_path, awaits("recv", 40, 90, seq=3, **FROM_1))
    assert found[["op", "device_work"]].values.tolist() == [["recv", True]]
    assert found[["seq", "peer", "arrival_ns"]].isna().all(axis=None)


def test_a_second_wait_for_a_call_is_none_of_its_own(tmp_path):
    found = calls(
        tmp_path,
        *(issued("recv", 10, seq=3, end=13, **FROM_1), ran("recv", 9, 12, 90)),
        *(awaits("recv", 40, 80, seq=3, **FROM_1), awaits("recv", 85, 90, seq=3, **FROM_1)),
    )
    assert found["seq"].isna().tolist() == [False, True]


def test_an_annotation_of_a_wait_that_is_cut_tells_nothing(tmp_path):
    found = calls(tmp_path, span("wait:recv group=0 seq=3", 9, 40, 90))
    assert found.empty


def test_waits_between_two_files_are_what_the_programs_waited(tmp_path):
    """Rank 0 issues its send at 9 and computes until 60; rank 1 waits from 5 on, and has the array at 30."""

    def write(rank, *events):
        info = {"backend": "gloo", "rank": rank, "world_size": 2, "pg_config": GROUPS}
        trace = {"distributedInfo": info, "traceEvents": [span("ProfilerStep#3", 9, 0, 100), *events]}
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(trace))

    write(
        0,
        *(issued("send", 9, end=11, **TO_1), ran("send", 9, 10, 30), span("aten::mm", 9, 11, 60)),
        awaits("send", 60, 61, **TO_1),
    )
    write(
        1,
        *(issued("recv", 3, end=5, **TO_1), ran("recv", 9, 4, 30), awaits("recv", 5, 30, **TO_1)),
        span("aten::mm", 9, 30, 100),
    )
    run = load(tmp_path)
    timed = with_waits(run).calls.set_index("op")
    assert timed.loc["recv", ["wait_ns", "transfer_ns", "last_rank"]].tolist() == [4000, 21_000, 0]
    assert timed.loc["send", "wait_ns"] == 0
    assert timed["transfer_ns"].isna()["send"]  # it went by while rank 0 computed
    analysis = Analysis(run)
    assert analysis["ranks"].set_index("rank")["wait_ns"].to_dict() == {0: 0, 1: 4000}
    assert analysis["blame"][["rank", "blamed_rank", "wait_ns"]].values.tolist() == [[1, 0, 4000]]
    breakdown = analysis["breakdown"].set_index("rank")
    assert breakdown["exposed_comm_ns"].to_dict() == {0: 1000, 1: 25_000}
    assert breakdown["compute_ns"].to_dict() == {0: 49_000, 1: 70_000}
    assert analysis["collectives"][["op", "calls", "unmatched"]].values.tolist() == [["send", 1, 0]]


def test_without_such_annotations_nothing_is_measured_and_the_screen_says_what_is_missing(tmp_path):
    for rank, ends in ((0, TO_1), (1, TO_1)):
        op = "recv" if rank else "send"
        info = {"backend": "gloo", "rank": rank, "world_size": 2, "pg_config": GROUPS}
        events = [span("ProfilerStep#3", 9, 0, 100), issued(op, 9, end=11, **ends), ran(op, 9, 10, 30)]
        events.append(span("aten::mm", 9, 11, 60))
        (tmp_path / f"rank{rank}.json").write_text(json.dumps({"distributedInfo": info, "traceEvents": events}))
    analysis = Analysis(load(tmp_path))
    assert analysis.run.calls["match"].tolist() == [0, 0]
    for name in ("waits", "ranks", "blame", "bandwidth"):
        with pytest.raises(NotMeasured, match="takes an annotation around each wait"):
            analysis[name]
    assert "how long the program waits for them is not annotated" in account_text(analysis, width=200)


def test_a_span_whose_issue_the_file_does_not_show_stays_untold(tmp_path):
    found = calls(tmp_path, ran("all_reduce", 91, 5, 8), issued("all_reduce", 10, seq=1), ran("all_reduce", 91, 12, 20))
    assert found["seq"].isna().tolist() == [True, False]
    assert found["group"].tolist() == ["all", "default_pg"]


def test_an_annotation_that_is_cut_tells_nothing(tmp_path):
    found = calls(tmp_path, span("comm:all_reduce group=0 seq=", 9, 10, 11), ran("all_reduce", 91, 12, 20))
    assert found["seq"].isna().all()
