import pytest

from tests.read.tiny import MAIN, NCCL, OTHER_THREAD, kernel, launch, noted, op, part, rows, span, step

SEND_RECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
GENERIC = "ncclDevKernel_Generic(ncclDevComm*, channelMasks, ncclWork*)"


def told(name="allreduce", elements=(1024, 1024), dtype="Float", **more):
    """NCCL's arguments, as PyTorch writes them."""
    sizes = {"In msg nelems": elements[0], "Out msg nelems": elements[1]}
    return {"Collective name": name, **sizes, "Group size": 2, "dtype": dtype, **more}


def call(*events, columns=("op",)):
    """The only call of a trace."""
    [row] = rows(part(list(events)).calls, *columns)
    return row[0] if len(columns) == 1 else row


def test_a_kernel_with_its_own_arguments():
    arguments = told(
        "_allgather_base", (1024, 2048), "BFloat16", Seq=7,
        **{"Process Group Name": "3", "Process Group Description": "dp", "Process Group Ranks": "[0, 1]"},
        **{"Comms Id": 2**64 - 1},
    )  # fmt: skip
    name = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    row = part([kernel(5, 9, name, 20, **arguments)]).calls.iloc[0]
    assert (row["op"], row["group"], row["seq"], row["bytes"], row["dtype"]) == (
        "all_gather",
        "dp",
        7,
        4096,
        "BFloat16",
    )
    assert (row["algorithm"], row["protocol"], row["lane"]) == ("RING", "LL", "0/20")
    assert (row["start_ns"], row["end_ns"], row["comms_id"]) == (5000, 9000, str(2**64 - 1))
    assert (row["group_size"], row["group_ranks"], row["device_work"]) == (2, "[0, 1]", True)


def test_a_kernel_tells_its_operation_by_its_name_alone():
    assert call(kernel(5, 9, NCCL)) == "all_reduce"
    assert call(kernel(5, 9, GENERIC)) == "unknown"
    assert call(kernel(5, 9, SEND_RECV)) == "sendrecv"


def test_the_collectives_name_outweighs_the_kernels():
    assert call(kernel(5, 9, SEND_RECV, **told("all_to_allv"))) == "all_to_all"
    assert call(kernel(5, 9, GENERIC, **told("allgather"))) == "all_gather"


def test_the_annotation_around_the_launch_tells_the_operation():
    around = span("nccl:all_to_all", 1, 4, "user_annotation", MAIN)
    assert call(around, launch(3, 2), kernel(5, 9, SEND_RECV, correlation=3)) == "all_to_all"


@pytest.mark.parametrize("at", [0, 5, 9])
def test_an_annotation_elsewhere_tells_nothing(at):
    around = span("nccl:all_to_all", 1, 4, "user_annotation", MAIN)
    assert call(around, launch(3, at), kernel(10, 12, SEND_RECV, correlation=3)) == "sendrecv"


def test_an_annotation_on_another_thread_tells_nothing():
    around = span("nccl:all_to_all", 1, 4, "user_annotation", OTHER_THREAD)
    assert call(around, launch(3, 2), kernel(5, 9, SEND_RECV, correlation=3)) == "sendrecv"


def test_the_record_around_the_launch_tells_all():
    record = op(1, 4, "record_param_comms", **told("all_to_allv", (100, 200), Seq=5, **{"Process Group Name": "1"}))
    row = call(record, launch(3, 2), kernel(5, 9, SEND_RECV, correlation=3), columns=("op", "seq", "bytes", "group"))
    assert row == ("all_to_all", 5, 400, "1")


def test_a_kernels_own_arguments_outweigh_the_record():
    record = op(1, 4, "record_param_comms", **told(Seq=5))
    assert call(record, launch(3, 2), kernel(5, 9, NCCL, correlation=3, **told(Seq=6)), columns=("seq",)) == 6


def test_records_named_wait_are_no_calls():
    waits = [op(at, at + 1, "record_param_comms", **told("wait", (0, 0))) for at in (1, 2, 3)]
    assert len(part([*waits, kernel(5, 9, NCCL)]).calls) == 1


def test_compute_copies_and_annotations_are_no_calls():
    others = [kernel(1, 2), span("Memcpy", 1, 2, "gpu_memcpy"), span("nccl:all_reduce", 1, 2, "gpu_user_annotation")]
    assert len(part([*others, span("nccl:all_reduce", 1, 2, "user_annotation", MAIN)]).calls) == 0


@pytest.mark.parametrize(("name", "peer"), [("send", 3), ("recv", 2), ("allreduce", None), ("coalesced", None)])
def test_the_peer_of_sends_and_receives(name, peer):
    found = part([kernel(5, 9, SEND_RECV, **told(name, **{"Src Rank": 2, "Dst Rank": 3}))]).calls["peer"]
    assert found.tolist() == [peer] if peer is not None else found.isna().all()


def test_a_send_may_name_only_its_destination():
    assert call(kernel(5, 9, SEND_RECV, **told("send", **{"Dst Rank": 1})), columns=("peer",)) == 1


def groups(*names):
    events = [
        kernel(n, n + 1, NCCL, **told(**{"Process Group Name": name, "Process Group Description": description}))
        for n, (name, description) in enumerate(names)
    ]
    return [group for (group,) in rows(part(events).calls, "group")]


def test_groups_are_called_by_their_description():
    assert groups(("0", "default_pg"), ("1", "dp"), ("0", "default_pg")) == ["default_pg", "dp", "default_pg"]


def test_groups_of_one_description_are_told_apart_by_their_number():
    assert groups(("1", "dp"), ("2", "dp"), ("3", "tp")) == ["dp:1", "dp:2", "tp"]


@pytest.mark.parametrize("nothing", ["undefined", "", None])
def test_groups_without_a_description_are_called_by_their_number(nothing):
    assert groups(("1", nothing), ("2", nothing)) == ["1", "2"]


def test_without_any_group_one_of_all_ranks_is_assumed_and_noted():
    found = part([kernel(1, 2, NCCL), kernel(3, 4, NCCL)])
    assert found.calls["group"].tolist() == ["all", "all"]
    assert noted(found)["no-group"] == 2


def test_calls_belong_to_the_step_that_launched_them():
    events = [
        step(1, 0, 10),
        step(2, 10, 20),
        launch(3, 5),
        kernel(12, 14, NCCL, correlation=3),
        launch(4, 15),
        launch(5, 25),
    ]
    events += [kernel(16, 18, NCCL, correlation=4), kernel(26, 28, NCCL, correlation=5)]
    found = part(events)
    assert found.calls["step"].tolist() == [1, 2, -1]
    assert noted(found)["call-outside-steps"] == 1


@pytest.mark.parametrize("elements", [-5, 2**53, 2**62, 10**30])
def test_sizes_that_cannot_be_are_not_told(elements):
    arguments = {**told(elements=(elements, elements)), "Group size": -2}
    row = part([kernel(5, 9, NCCL, **arguments)]).calls.iloc[0]
    assert row[["bytes", "group_size"]].isna().all()


@pytest.mark.parametrize("odd", [[1], {"a": 1}, 5, True, "", None])
def test_arguments_of_odd_types_stop_nothing(odd):
    arguments = dict.fromkeys(
        told(**{"Process Group Name": "", "Process Group Ranks": "", "Seq": 1, "Comms Id": 1}), odd
    )
    found = part([kernel(5, 9, NCCL, **arguments), kernel(15, 19, NCCL, **told(Seq=4))])
    assert found.calls["op"].tolist() == ["all_reduce", "all_reduce"]
    assert found.calls["seq"].tolist()[1] == 4


def test_calls_are_in_order_of_start():
    events = [kernel(20, 30, NCCL, 21), kernel(5, 9, NCCL, 20), kernel(12, 14, NCCL, 20)]
    assert rows(part(events).calls, "start_ns") == [(5,), (12,), (20,)]
