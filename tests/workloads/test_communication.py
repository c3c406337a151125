"""Every call is annotated, whoever issues it, and its annotation leads to gloo's span."""

import time

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

from tests.workloads import ranks, traces
from tests.workloads.traces import collectives, end

IN_FLIGHT = 4
SIZES = {0: 100_000, 1: 200_000}
GROUPS = []


def two_groups_of_the_same_ranks():
    GROUPS.extend([dist.new_group([0, 1]), dist.new_group([0, 1])])


def four_in_flight_in_each(rank):
    tensors = {index: [torch.ones(size + turn) for turn in range(IN_FLIGHT)] for index, size in SIZES.items()}
    time.sleep(0.3 * rank)  # so that on rank 0 all are issued before any can end
    works = [
        dist.all_reduce(tensors[index][turn], group=group, async_op=True)
        for turn in range(IN_FLIGHT)
        for index, group in enumerate(GROUPS)
    ]
    for work in works:
        work.wait()


@pytest.fixture(scope="module")
def in_flight(tmp_path_factory):
    return ranks.run(tmp_path_factory.mktemp("flight"), four_in_flight_in_each, two_groups_of_the_same_ranks)


def test_all_are_in_flight_at_once(in_flight):
    spans = [span for _, span in collectives(in_flight[0])]
    issued = [end(annotation) for _, annotation in traces.calls(in_flight[0])]
    assert len(spans) == 2 * IN_FLIGHT
    assert max(issued) < min(end(span) for span in spans)


@pytest.mark.parametrize("rank", [0, 1])
def test_group_and_order_lead_to_the_span(in_flight, rank):
    pairs = collectives(in_flight[rank])
    assert len(pairs) == 2 * IN_FLIGHT
    for call, span in pairs:
        assert traces.size(span) * 4 == call["bytes"]
    groups = sorted({call["group"] for call, _ in pairs})
    for index, group in enumerate(groups):
        of_group = sorted((call["seq"], traces.size(span)) for call, span in pairs if call["group"] == group)
        assert [size for _, size in of_group] == [SIZES[index] + turn for turn in range(IN_FLIGHT)]


def test_the_groups_have_threads_of_their_own(in_flight):
    by_group = {call["group"]: set(call["threads"]) for call, _ in traces.calls(in_flight[0])}
    first, second = by_group.values()
    assert len(first) == len(second) == 2
    assert not first & second


def test_members_count_alike(in_flight):
    first, second = ([(call["group"], call["seq"]) for call, _ in traces.calls(events)] for events in in_flight)
    assert first == second


def one_of_each(rank):
    whole, part, peer = torch.ones(4000), torch.ones(2000), 1 - rank
    parts = [torch.ones(2000), torch.ones(2000)] if rank == 0 else None
    dist.all_reduce(whole)
    dist.all_gather_into_tensor(whole, part)
    dist.reduce_scatter_tensor(part, whole)
    dist.all_to_all_single(torch.empty(4000), whole)
    dist.broadcast(whole, 0)
    dist.reduce(whole, 0)
    dist.gather(part, parts, 0)
    dist.scatter(part, parts, 0)
    functional.all_reduce(whole, "sum", dist.group.WORLD).sum()
    dist.barrier()
    for _ in range(2):
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, part, peer), dist.P2POp(dist.irecv, part, peer)]):
            work.wait()


@pytest.fixture(scope="module")
def each(tmp_path_factory):
    return ranks.run(tmp_path_factory.mktemp("each"), one_of_each, list)


EXPECTED = {
    "all_reduce": 16000,
    "all_gather": 16000,
    "reduce_scatter": 16000,
    "all_to_all": 16000,
    "broadcast": 16000,
    "reduce": 16000,
    "gather": 16000,
    "scatter": 16000,
    "barrier": 0,
    "send": 8000,
    "recv": 8000,
}


@pytest.mark.parametrize("rank", [0, 1])
def test_operation_and_bytes_of_each(each, rank):
    found = [(call["op"], call["bytes"]) for call, _ in traces.calls(each[rank])]
    assert dict(found) == EXPECTED
    assert len(found) == len(EXPECTED) + 3  # a second all_reduce, send and recv


@pytest.mark.parametrize("rank", [0, 1])
def test_every_collective_has_its_span(each, rank):
    assert len(collectives(each[rank])) == 10


def test_both_ends_of_a_transfer_count_alike(each):
    sent = [(c["seq"], c["src"], c["dst"]) for c, _ in traces.calls(each[0]) if c["op"] == "send"]
    received = [(c["seq"], c["src"], c["dst"]) for c, _ in traces.calls(each[1]) if c["op"] == "recv"]
    assert sent == received
    assert [ends for _, *ends in sent] == [[0, 1], [0, 1]]


def test_a_transfer_begins_inside_its_annotation(each):
    events = each[0]
    for call, annotation in traces.calls(events):
        if "src" in call:
            spans = [e for e in events if e["name"] == f"gloo:{call['op']}" and e["tid"] == annotation["tid"]]
            assert sum(annotation["ts"] <= span["ts"] <= end(annotation) for span in spans) == 1


def late(rank):
    whole = torch.ones(1000)
    time.sleep(0.1 * rank)
    dist.all_reduce(whole)
    whole.exp()


def test_a_wait_for_a_peer_shows_as_a_wait_not_as_compute(tmp_path):
    waiting, _ = ranks.run(tmp_path, late, list)
    [(_, span)] = collectives(waiting)
    operators = [event for event in waiting if event["cat"] == "cpu_op" and event["name"].startswith("aten::")]
    assert span["dur"] > 90 * traces.MS
    assert traces.overlap(span, operators) < 5 * traces.MS
