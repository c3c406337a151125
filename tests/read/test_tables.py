import pandas as pd
import pytest

from tests.read import tiny
from tests.read.tiny import MAIN, NCCL, kernel, launch, noted, part, parts, rows, span, step
from tracekit.model import ALLOCATIONS, EVENTS

TELLING = {
    "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8},
    "deviceProperties": [{"id": 0, "name": "Zero"}, {"id": 2, "name": "Two"}],
    "host_name": "node7",
}


def test_who_a_file_is():
    who = part([kernel(5, 9), kernel(1, 2, NCCL)], **TELLING).identity
    assert (who.rank, who.world_size, who.backend, who.host, who.device) == (3, 8, "nccl", "node7", "Zero")
    assert (who.start_ns, who.end_ns, who.events, who.dropped) == (1000, 9000, 2, 0)


def test_the_device_is_the_one_that_works():
    assert part([{**kernel(5, 9), "pid": 2}], **TELLING).identity.device == "Two"
    assert part([{**kernel(5, 9), "pid": 2}]).identity.device == "device"


def test_the_devices_memory():
    devices = [{"id": 0, "totalGlobalMem": 100}, {"id": 2, "totalGlobalMem": 85_899_345_920}]
    found = part([{**kernel(5, 9), "pid": 2}], deviceProperties=devices).identity
    assert found.device_memory_bytes == 85_899_345_920


@pytest.mark.parametrize("told", [None, 0, -1, "", "much", 10**30, [], {}, True, float("inf"), 0.5])
def test_a_devices_memory_that_says_nothing(told):
    devices = [{"id": 0, "totalGlobalMem": told}]
    assert part([kernel(5, 9)], deviceProperties=devices).identity.device_memory_bytes is None


def test_a_trace_without_a_device_has_no_memory_of_it():
    devices = [{"id": 0, "totalGlobalMem": 100}]
    assert part([tiny.op(1, 2)], deviceProperties=devices).identity.device_memory_bytes is None


@pytest.mark.parametrize("info", [None, [], "x", 5, {}, {"rank": None}, {"rank": "x"}])
def test_a_file_that_does_not_say_who_it_is(info):
    who = part([kernel(5, 9)], distributedInfo=info).identity
    assert (who.rank, who.world_size, who.backend) == (None, None, None)


@pytest.mark.parametrize("told", [10**6 + 1, 2**40, -1, "9999999"])
def test_a_world_size_that_cannot_be_is_not_told_and_noted(told):
    found = part([kernel(5, 9)], distributedInfo={"rank": 0, "world_size": told})
    assert (found.identity.rank, found.identity.world_size) == (0, None)
    [note] = [note for note in found.notes if note.code == "world-size"]
    assert note.message == f"tells a world size of {told}, which cannot be: it is taken as not told"


@pytest.mark.parametrize("properties", [None, [], {}, [None], [5], [{"id": 0}], "GPU"])
def test_device_properties_that_say_nothing(properties):
    assert part([kernel(5, 9)], deviceProperties=properties).identity.device == "device"


def test_a_rank_may_be_text():
    assert part([kernel(5, 9)], distributedInfo={"rank": "3", "world_size": "8"}).identity.rank == 3


def test_an_undefined_backend_is_none():
    assert part([kernel(5, 9)], distributedInfo={"backend": "undefined"}).identity.backend is None


def test_the_host_in_the_name_of_pytorchs_files():
    [found] = parts([kernel(5, 9)], "gpu-node-4_1375.1724066820235157909.pt.trace.json.gz")
    assert found.identity.host == "gpu-node-4"
    [found] = parts([kernel(5, 9)], "rank0.1724066820235157909.pt.trace.json.gz")
    assert found.identity.host is None


def test_events_have_the_schema_and_are_in_order():
    found = part([kernel(9, 12), kernel(5, 8), launch(3, 2), launch(4, 1), step(1, 0, 20)])
    for table in (found.work, found.host):
        assert table.dtypes.astype(str).to_dict() == EVENTS
        assert table["start_ns"].is_monotonic_increasing
    assert found.allocations.dtypes.astype(str).to_dict() == ALLOCATIONS


def test_only_names_in_use_are_kept_as_categories():
    found = part([kernel(9, 12, "one"), tiny.op(5, 8, "two")])
    assert list(found.work["name"].cat.categories) == ["one"]
    assert list(found.host["name"].cat.categories) == ["two"]


def test_what_copies_and_calls_tell_stands_beside_them():
    events = [
        kernel(1, 2),
        kernel(3, 4, NCCL),
        span("Memcpy HtoD (Pageable -> Device)", 5, 6, "gpu_memcpy", bytes=4096),
        span("Memset (Device)", 7, 8, "gpu_memset"),
    ]
    work = part(events).work
    assert work["operation"].isna().tolist() == [True, False, False, False]
    assert work["operation"].tolist()[1:] == ["all_reduce", "host_to_device", "set"]
    assert work["bytes"].isna().tolist() == [True, True, False, True]
    assert work["bytes"].tolist()[2] == 4096


def test_host_rows_belong_to_the_step_in_which_they_began():
    found = part([step(1, 0, 10), step(2, 10, 20), kernel(1, 2), tiny.op(5, 15), tiny.op(10, 12), tiny.op(25, 26)])
    told = rows(found.host[found.host["kind"] == "operator"], "start_ns", "step")
    assert told == [(5, 1), (10, 2), (25, -1)]


def test_what_is_left_out_is_counted():
    events = [kernel(1, 2), {**kernel(1, 2), "dur": -1}, {"ph": "unheard of"}, {**kernel(1, 2), "ph": "E"}]
    events += [launch(3, 50), kernel(10, 20, correlation=3)]
    found = part(events)
    assert noted(found) == {"impossible-time": 1, "strange-event": 1, "half-span": 1, "before-launch": 1, "no-steps": 1}
    assert found.identity.dropped == 4
    assert found.identity.events == 6


# Files that a tool fused of several ranks


def fused(rank, offset, **more):
    """The events of one rank, its process ids moved."""
    tag = {"rank": rank}
    return [
        {**step(1, 0, 10, (100 + offset, 1)), "args": tag},
        {**launch(5, 1, (100 + offset, 1)), "args": {**tag, "correlation": 5}},
        {**kernel(2 + rank, 4 + rank), "pid": offset, "args": {**tag, "correlation": 5}},
        {**kernel(6, 7, NCCL, 20), "pid": offset, "args": tag},
    ]


def test_a_fused_file_is_split():
    one, other = parts([*fused(0, 0), *fused(1, 1000)], distributedInfo={"rank": 0, "world_size": 2})
    assert (one.identity.rank, other.identity.rank) == (0, 1)
    assert rows(one.work, "start_ns", "end_ns") == [(2, 4), (6, 7)]
    assert rows(other.work, "start_ns", "end_ns") == [(3, 5), (6, 7)]
    assert rows(other.work, "launch_ns")[0] == (1,)
    assert len(one.calls) == len(other.calls) == 1
    assert rows(other.steps, "step", "start_ns", "end_ns") == [(1, 0, 10)]


def test_ids_of_fused_ranks_do_not_mix():
    late = [{**launch(5, 3, (1100, 1)), "args": {"rank": 1, "correlation": 5}}]
    one, other = parts([*fused(0, 0), *[e for e in fused(1, 1000) if e["cat"] != "cuda_runtime"], *late])
    assert rows(one.work, "launch_ns")[0] == (1,)
    assert rows(other.work, "launch_ns")[0] == (3,)


def test_events_of_a_fused_file_without_a_rank_go_by_their_process():
    silent = {**kernel(8, 9), "pid": 1000, "args": {}}
    one, other = parts([*fused(0, 0), *fused(1, 1000), silent])
    assert (len(one.work), len(other.work)) == (2, 3)


def test_events_of_a_fused_file_that_nobody_claims_are_counted():
    stray = {**kernel(8, 9), "pid": 5000, "args": {}}
    one, other = parts([*fused(0, 0), *fused(1, 1000), stray])
    assert (len(one.work), len(other.work)) == (2, 2)
    assert noted(one)["no-rank-told"] == 1


def test_what_is_wrong_with_a_fused_file_is_told_once():
    wrong = [{**kernel(1, 2), "dur": -1, "args": {"rank": 0}}, {"ph": "unheard of"}]
    one, other = parts([*fused(0, 0), *fused(1, 1000), *wrong])
    assert (noted(one).get("impossible-time"), noted(one).get("strange-event")) == (1, 1)
    assert not {"impossible-time", "strange-event"} & set(noted(other))


def test_ranks_of_a_fused_file_may_share_process_ids():
    one, other = parts([*fused(0, 0), *fused(1, 0)])
    assert (len(one.work), len(other.work)) == (2, 2)


def test_allocations_of_a_fused_file_go_to_their_rank():
    def allocation(rank, at):
        args = {"Bytes": 1, "Total Allocated": 2, "Total Reserved": 3, "Device Type": 1, "Device Id": 0, "rank": rank}
        return {"ph": "i", "name": "[memory]", "pid": 100, "tid": 1, "ts": at, "args": args}

    one, other = parts([*fused(0, 0), *fused(1, 1000), allocation(0, 3), allocation(1, 4)])
    assert (rows(one.allocations, "time_ns"), rows(other.allocations, "time_ns")) == ([(3,)], [(4,)])


def silent(rank, offset):
    """The same, without a word of whose they are."""
    return [
        {**event, "args": {key: value for key, value in event["args"].items() if key != "rank"}}
        for event in fused(rank, offset)
    ]


def called(pid, name, what="process_name"):
    return {"ph": "M", "name": what, "pid": pid, "args": {"labels" if what == "process_labels" else "name": name}}


def test_a_fused_file_is_split_by_what_its_processes_are_called():
    of_hosts = [
        called(100, "Rank-4-HOST"),
        called(1100, "python", "process_name"),
        called(1100, "rank: 7", "process_labels"),
    ]
    of_devices = [called(0, "rank 4 GPU 0"), called(1000, "GPU of rank 7")]
    allocation = {"ph": "i", "name": "[memory]", "pid": 1100, "tid": 1, "ts": 3}
    told = {"Bytes": 1, "Total Allocated": 2, "Total Reserved": 3, "Device Type": 1, "Device Id": 0}
    events = [*silent(4, 0), *of_hosts, *silent(7, 1000), *of_devices, {**allocation, "args": told}]
    one, other = parts(events, distributedInfo={"rank": 4, "world_size": 8})
    assert (one.identity.rank, other.identity.rank) == (4, 7)
    assert (len(one.work), len(other.work)) == (2, 2)
    assert (len(one.allocations), len(other.allocations)) == (0, 1)
    assert not {"no-rank-told", "several-processes"} & {*noted(one), *noted(other)}


def test_what_an_event_says_outweighs_what_its_process_is_called():
    names = [called(100, "rank 1"), called(1100, "rank 0"), called(0, "rank 1"), called(1000, "rank 0")]
    one, other = parts([*names, *fused(0, 0), *fused(1, 1000)])
    assert (rows(one.work, "start_ns")[0], rows(other.work, "start_ns")[0]) == ((2,), (3,))


@pytest.mark.parametrize("name", ["rank 5", "rank of 5", "frank 5", 5, None, ["rank 5"], {"rank": 5}])
def test_one_rank_that_a_process_is_called_after_is_not_taken_for_the_files(name):
    odd = {"ph": "M", "name": "process_name", "pid": 0, "args": name}
    [only] = parts([called(100, name), odd, *silent(0, 0)], distributedInfo={"rank": 3, "world_size": 8})
    assert only.identity.rank == 3
    assert len(only.work) == 2


def test_processes_that_mark_the_same_step_are_several_ranks():
    [only] = parts([*silent(0, 0), *silent(1, 1000)])
    assert noted(only)["several-processes"] == 2
    assert "several-processes" not in noted(part([*silent(0, 0), step(2, 20, 30, (200, 1))]))


def test_a_file_whose_events_all_name_one_rank_is_that_ranks():
    [only] = parts(fused(4, 0), distributedInfo={"rank": 0, "world_size": 8})
    assert only.identity.rank == 4


def test_a_trace_with_nothing_but_metadata_events():
    found = part([{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}])
    assert (len(found.work), len(found.host), len(found.steps), len(found.calls)) == (0, 0, 0, 0)
    assert noted(found) == {"no-work": 1}
    assert isinstance(found.work, pd.DataFrame)


def test_places_of_broken_text_are_listed_with_a_limit():
    text = tiny.text([kernel(n, n + 1, f"k{n}") for n in range(20)])
    raw = tiny.raw(text.replace('"name": "k', '"name": "k"k'))
    from tracekit.read import names
    from tracekit.read.tables import rank_parts

    [found] = rank_parts(raw, "x.json", names.communication())
    [note] = [note for note in found.notes if note.code == "lost-event"]
    assert note.count == 20
    assert "15 more places" in note.message


def test_main_and_gloo_threads_are_lanes():
    assert rows(part([tiny.op(1, 2), kernel(1, 2)]).host, "lane") == [("{}/{}".format(*MAIN),)]
