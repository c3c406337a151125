import json

import pytest

from tracekit.errors import Unreadable, WrongUse
from tracekit.plan import hardware
from tracekit.plan.hardware import Cluster, Link

CLUSTER = Cluster(16, 4, 80e9, 1e14, 0.5, Link(100e9, 1e-6), Link(10e9, 5e-6))


def sweep(tmp_path, fit, *, ranks=4, ranks_per_host=4):
    told = {"ranks": ranks, "ranks_per_host": ranks_per_host, "operations": {"all_reduce": {"fit": fit}}}
    path = tmp_path / "collectives.json"
    path.write_text(json.dumps(told))
    return path


def test_ranks_fill_node_after_node():
    assert [CLUSTER.node(rank) for rank in (0, 3, 4, 15)] == [0, 0, 1, 3]


def test_inside_a_node_the_link_is_the_inside_one():
    assert CLUSTER.link([0, 1, 2, 3]) == CLUSTER.inside


def test_across_nodes_a_group_has_as_many_adapters_as_ranks_in_each_node():
    assert CLUSTER.link([0, 4, 8, 12]).bandwidth == 10e9
    assert CLUSTER.link([0, 2, 4, 6]).bandwidth == 20e9
    assert CLUSTER.link(list(range(8))) == Link(40e9, 5e-6)


@pytest.mark.parametrize("link", [(0, 0), (-1, 0), (1, -1), (float("nan"), 0)])
def test_links_that_cannot_be(link):
    with pytest.raises(WrongUse):
        Link(*link)


@pytest.mark.parametrize(("name", "value"), [("gpus", 0), ("memory_bytes", 0), ("efficiency", 1.5), ("efficiency", 0)])
def test_clusters_that_cannot_be(name, value):
    numbers = {"gpus": 8, "gpus_per_node": 8, "memory_bytes": 1, "flops": 1, "efficiency": 0.5}
    with pytest.raises(WrongUse):
        Cluster(**{**numbers, name: value}, inside=Link(1, 0), between=Link(1, 0))


def test_a_preset_is_the_data_sheets():
    a100 = hardware.preset("a100-80gb", 16)
    assert (a100.gpus_per_node, a100.memory_bytes, a100.flops) == (8, 80e9, 312e12)
    assert a100.between.bandwidth == 0.8 * 200e9 / 8


def test_an_unknown_preset_names_the_known_ones():
    with pytest.raises(WrongUse, match="h100-80gb"):
        hardware.preset("a1000", 8)


def test_a_sweeps_link_holds_for_any_number_of_ranks(tmp_path):
    # Of 4 ranks a ring's all-reduce takes 6 messages; bus bandwidth does not depend on the ranks.
    path = sweep(tmp_path, {"latency_ns": 60_000, "bandwidth_gbs": 2.0, "busbw_gbs": 3.0, "error_frac": 0.1})
    link = hardware.links_of_sweep(path)["all_reduce"]
    assert (link.bandwidth, link.latency) == (3e9, pytest.approx(10e-6))


def test_a_sweep_on_one_host_tells_the_inside_link_and_on_several_the_other(tmp_path):
    fit = {"latency_ns": 0, "bandwidth_gbs": 2.0, "busbw_gbs": 3.0, "error_frac": 0.1}
    assert hardware.with_sweep(CLUSTER, sweep(tmp_path, fit)).inside.bandwidth == 3e9
    across = hardware.with_sweep(CLUSTER, sweep(tmp_path, fit, ranks_per_host=2))
    assert (across.inside, across.between.bandwidth) == (CLUSTER.inside, 3e9)


def test_without_a_fit_there_is_no_link(tmp_path):
    assert hardware.links_of_sweep(sweep(tmp_path, None)) == {}
    with pytest.raises(Unreadable, match="more than one size"):
        hardware.link_of_sweep(sweep(tmp_path, None))


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"ranks": 2, "operations": {"all_reduce": 3}}'])
def test_other_files_are_no_sweep(tmp_path, text):
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(Unreadable, match="not a sweep"):
        hardware.links_of_sweep(path)
