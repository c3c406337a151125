"""The drawings themselves: what is drawn is what the run and the files hold."""

import json

import pytest

from tests import lanes
from tracekit.model import NO_STEP, NO_TIME

DRAWING = """
    step       000111....  incomplete=1
    0/main     a..SS.....
    0/7        .CcC...M!.  by=aa
    0/20       .....NNN..  op=all_gather group=dp bytes=800 seq=4
    0/20       ..W.......
    0/memory   ..5.......
    1/7        ..........
"""


def test_a_run():
    run = lanes.run(DRAWING)
    work = run.rank(0).work[["kind", "lane", "step", "start_ns", "end_ns", "launch_ns"]]
    assert work.values.tolist() == [
        ["compute", "0/7", 0, 1000, 2000, 0],
        ["compute", "0/7", 0, 2000, 3000, 0],
        ["compute", "0/7", 1, 3000, 4000, NO_TIME],
        ["comm", "0/20", 1, 5000, 8000, NO_TIME],
        ["memory", "0/7", NO_STEP, 7000, 8000, NO_TIME],
        ["compute", "0/7", NO_STEP, 8000, 8000, NO_TIME],
    ]
    assert run.rank(0).host[["kind", "lane"]].values.tolist() == [
        ["launch", "1000/1"],
        ["stream_wait", "0/20"],
        ["synchronize", "1000/1"],
    ]
    assert run.calls[["rank", "step", "group", "op", "seq", "bytes"]].values.tolist() == [
        [0, 1, "dp", "all_gather", 4, 800]
    ]
    assert run.steps[["rank", "step", "complete"]].values.tolist() == [
        [0, 0, True],
        [0, 1, False],
        [1, 0, True],
        [1, 1, False],
    ]
    assert run.rank(0).allocations["allocated_bytes"].to_list() == [5]
    assert run.ranks["world_size"].to_list() == [2, 2]


def test_its_files(tmp_path):
    files = lanes.kineto(DRAWING, tmp_path)
    assert [file.name for file in files] == ["rank0_window0.json", "rank1_window0.json"]
    trace = json.loads(files[0].read_text())
    assert trace["distributedInfo"] == {"backend": "nccl", "rank": 0, "world_size": 2}
    spans = {
        (event["cat"], event["name"], event["tid"], event["ts"], event.get("dur")) for event in trace["traceEvents"]
    }
    assert {span for span in spans if span[0] in ("kernel", "gpu_memcpy", "cuda_sync")} == {
        ("kernel", "ampere_sgemm_128x64_tn", 7, 1.0, 1.0),
        ("kernel", "ampere_sgemm_128x64_tn", 7, 2.0, 1.0),
        ("kernel", "ampere_sgemm_128x64_tn", 7, 3.0, 1.0),
        ("kernel", "ampere_sgemm_128x64_tn", 7, 8.0, 0.0),
        ("kernel", "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 20, 5.0, 3.0),
        ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 7, 7.0, 1.0),
        ("cuda_sync", "Stream Wait Event", 20, 2.0, 1.0),
    }
    assert ("user_annotation", "ProfilerStep#1", 1, 3.0, 3.0) in spans
    launched = [event for event in trace["traceEvents"] if event["args"].get("correlation") == ord("a")]
    assert [(event["cat"], event["ts"]) for event in launched] == [
        ("cuda_runtime", 0.0),
        ("kernel", 1.0),
        ("kernel", 2.0),
    ]


def test_a_cpu_rank(tmp_path):
    drawing = "0/main CCC.\n0/gloo .NNN\n0/gloo NNNN op=send"
    one = lanes.run(drawing).rank(0)
    assert one.on_cpu
    assert one.work["kind"].to_list() == ["compute", "comm"]
    assert one.calls[["op", "device_work"]].values.tolist() == [["send", False], ["all_reduce", True]]
    events = json.loads(lanes.kineto(drawing, tmp_path)[0].read_text())["traceEvents"]
    assert [event["name"] for event in events] == ["ProfilerStep#0", "aten::mm", "gloo:send", "gloo:all_reduce"]


@pytest.mark.parametrize("drawing", ["0/7 CCXC", "0/main CC\n0/7", "0/main M"])
def test_what_means_nothing_is_an_error(drawing):
    with pytest.raises(ValueError, match="no "):
        lanes.run(drawing)


def test_calls_of_several_ranks_are_matched_in_their_order():
    run = lanes.run("""
        0/20 NN.NN.NN  group=dp
        1/20 .N..N...  group=dp
        0/21 NN......  op=send peer=1
        1/21 NN......  op=recv peer=0
        0/22 NN......  group=tp match=none
        1/22 NN......  group=tp
        2/22 NN......  group=alone
    """)
    told = run.calls.groupby("match")[["rank", "start_ns"]].agg(list).values.tolist()
    assert sorted(told) == [[[0, 1], [0, 0]], [[0, 1], [0, 1000]], [[0, 1], [3000, 4000]]]
    assert run.calls["how"].value_counts().to_dict() == {"order": 6, "none": 4}
