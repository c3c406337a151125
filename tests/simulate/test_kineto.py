"""How the files look, read in plain Python; what tracekit reads in them is in `tests/test_simulated.py`."""

import gzip
import json
from collections import Counter

import pytest

from tracekit.simulate import simulate
from tracekit.simulate.job import job_of
from tracekit.simulate.kineto import BASE_NS, ORIGIN_NS

MODEL = {"preset": "megatron-1.7b", "layers": 4, "hidden": 1024, "heads": 8, "vocabulary": 1000}
LAYOUT = {"axes": "dp 2 x tp 2 x pp 2", "microbatches": 2}


def files(folder, layout=LAYOUT, **more):
    done = simulate(job_of({"model": MODEL, "layout": layout, "steps": 2, **more}), folder)
    return done, [json.loads(gzip.open(file).read()) for file in sorted(folder.glob("rank*.json.gz"))]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return files(tmp_path_factory.mktemp("traces"))


def of(trace, category):
    return [event for event in trace["traceEvents"] if event.get("cat") == category]


def ns(event, key="ts"):
    return round(event[key] * 1000)


def test_metadata_is_what_pytorch_writes(written):
    trace = written[1][5]
    assert trace["distributedInfo"]["rank"] == 5
    assert (trace["distributedInfo"]["backend"], trace["distributedInfo"]["world_size"]) == ("nccl", 8)
    groups = {one["pg_desc"]: one["ranks"] for one in trace["distributedInfo"]["pg_config"]}
    assert groups == {
        "default_pg": [*range(8)], "mesh_dp": [5, 7], "mesh_tp": [4, 5], "mesh_pp": [1, 5], "embedding": [1, 5],
    }  # fmt: skip
    assert trace["baseTimeNanoseconds"] == BASE_NS
    assert trace["deviceProperties"][0]["id"] == 5
    assert (trace["schemaVersion"], trace["displayTimeUnit"]) == (1, "ms")


def test_all_categories_are_there(written):
    found = Counter(event.get("cat") for event in written[1][0]["traceEvents"])
    assert set(found) - {None} == {
        "cpu_op", "user_annotation", "cuda_runtime", "kernel", "gpu_memcpy", "gpu_user_annotation", "cuda_sync",
        "cpu_instant_event",
    }  # fmt: skip


def test_each_piece_of_work_has_one_launch_inside_its_operator(written):
    for trace in written[1][:2]:
        launches = {event["args"]["correlation"]: event for event in of(trace, "cuda_runtime")}
        assert len(launches) == len(of(trace, "cuda_runtime"))
        operators = {
            event["args"]["External id"]: event
            for event in of(trace, "cpu_op")
            if event["name"] != "record_param_comms"
        }
        for work in of(trace, "kernel") + of(trace, "gpu_memcpy"):
            launch, operator = launches[work["args"]["correlation"]], operators[work["args"]["External id"]]
            assert ns(work) >= ns(launch)
            assert ns(operator) <= ns(launch) < ns(launch) + ns(launch, "dur") <= ns(operator) + ns(operator, "dur")
            assert work["args"]["stream"] == work["tid"]


def test_calls_carry_nccls_arguments(written):
    calls = [event for event in of(written[1][0], "kernel") if event["name"].startswith("nccl")]
    by_name = {event["args"]["Collective name"]: event for event in calls}
    assert set(by_name) == {"allreduce", "_allgather_base", "send", "recv"}
    told = by_name["allreduce"]["args"]
    assert told["dtype"] == "BFloat16"
    assert told["Process Group Description"] in ("mesh_dp", "mesh_tp", "embedding")
    assert json.loads(told["Process Group Ranks"])[0] == 0
    assert {"Seq", "Comms Id", "In msg nelems", "Out msg nelems", "Group size", "Process Group Name"} <= set(told)
    assert (by_name["send"]["args"]["Src Rank"], by_name["send"]["args"]["Dst Rank"]) == (0, 4)
    gathered = by_name["_allgather_base"]["args"]
    assert gathered["Out msg nelems"] == 2 * gathered["In msg nelems"]


def test_an_id_names_one_call_on_all_its_members(written):
    ids = Counter(
        event["args"]["Comms Id"]
        for trace in written[1]
        for event in of(trace, "kernel")
        if "Comms Id" in event["args"]
    )
    assert set(ids.values()) == {2}


def test_times_are_exact_to_the_nanosecond(written):
    done, traces = written
    mine = done.truth.calls[done.truth.calls["rank"] == 3]
    told = sorted(
        (ns(event), ns(event, "dur")) for event in of(traces[3], "kernel") if event["name"].startswith("nccl")
    )
    wanted = zip(mine["start_ns"] + ORIGIN_NS, mine["end_ns"] - mine["start_ns"], strict=True)
    assert told == sorted((int(start), int(long)) for start, long in wanted)


def test_steps_actions_loading_and_allocations_are_told(written):
    names = Counter(event["name"] for event in of(written[1][0], "user_annotation"))
    assert (names["ProfilerStep#0"], names["ProfilerStep#1"]) == (1, 1)
    assert (names["PP:0F0"], names["PP:0B1"]) == (2, 2)
    assert names["enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"] == 4
    assert names["Optimizer.step#AdamW.step"] == 2
    held = [event["args"] for event in of(written[1][0], "cpu_instant_event")]
    assert all(one["Total Reserved"] >= one["Total Allocated"] > 0 for one in held)
    assert sum(one["Bytes"] for one in held) == 0


def test_garbage_collection_is_told_in_every_second_step(tmp_path):
    _, [trace, _] = files(tmp_path, "dp 2", faults=["gc:0:50"])
    [collected] = [event for event in of(trace, "user_annotation") if event["name"] == "Python GC generation=2"]
    assert ns(collected, "dur") == 50_000_000


def test_how_much_calls_tell_can_be_chosen(tmp_path):
    keys = {}
    for told in ("id", "seq", "order"):
        _, [trace, _] = files(tmp_path / told, "dp 2", trace={"calls_told_by": told, "memory": False})
        [first, *_] = [event["args"] for event in of(trace, "kernel") if "Collective name" in event["args"]]
        keys[told] = {"Seq", "Comms Id"} & set(first)
        assert not of(trace, "cpu_instant_event")
    assert keys == {"id": {"Seq", "Comms Id"}, "seq": {"Seq"}, "order": set()}


def test_a_skewed_clock_shifts_all_times_of_its_rank(tmp_path):
    _, plain = files(tmp_path / "plain", "dp 2")
    _, skewed = files(tmp_path / "skewed", "dp 2", faults=["clock_skew:1:5"])
    assert plain[0] == skewed[0]
    pairs = zip(plain[1]["traceEvents"], skewed[1]["traceEvents"], strict=True)
    assert {ns(one) - ns(other) for other, one in pairs} == {5_000_000}


def test_lost_events_are_lost_and_missing_ranks_have_no_file(tmp_path):
    whole, _ = files(tmp_path / "whole", "dp 4")
    some, traces = files(tmp_path / "some", "dp 4", faults=["lost_events:0:0.1", "missing_ranks:2"])
    assert (whole.files, some.files, len(traces)) == (4, 3, 3)
    assert not (tmp_path / "some" / "rank2.json.gz").exists()
    assert len(traces[0]["traceEvents"]) == pytest.approx(0.9 * len(traces[1]["traceEvents"]), rel=0.05)
    assert sum(event["name"].startswith("ProfilerStep") for event in of(traces[0], "user_annotation")) == 2


def test_long_lists_of_ranks_are_cut_as_pytorch_cuts_them(tmp_path):
    _, traces = files(tmp_path, "dp 32", steps=1)
    [first, *_] = [event["args"] for event in of(traces[0], "kernel") if "Collective name" in event["args"]]
    assert first["Process Group Ranks"].endswith("27, 28, ..., 31]")


def test_a_file_does_not_tell_when_it_was_written(written):
    done, _ = written
    assert (done.folder / "rank0.json.gz").read_bytes()[4:8] == bytes(4)  # gzip's time of change
