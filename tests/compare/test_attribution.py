"""Every instant is given to what runs in it: counted on drawings, in microseconds."""

from tests import lanes
from tracekit.compare.attribution import attributed, gaps_before


def shares(drawing, rank=0):
    """Microseconds per step of each kind and name."""
    rows = attributed(lanes.run(drawing).rank(rank))
    return {(kind, name): ns / 1000 for (kind, name), ns in rows.groupby(["kind", "name"])["ns"].sum().items()}


def test_each_kernel_gets_its_own_time():
    assert shares("0/7 CCC..CC  name=a") == {("compute", "a"): 5.0}


def test_kernels_at_once_share():
    assert shares("""
        0/7  CCCC..  name=a
        0/8  ..CCCC  name=b
    """) == {("compute", "a"): 3.0, ("compute", "b"): 3.0}


def test_communication_gets_what_compute_does_not_cover():
    told = shares("""
        0/7  CCCC....  name=a
        0/20 ..NNNN..  group=dp
        0/9  ...MMMMM
    """)
    assert told["compute", "a"] == 4.0
    assert told["comm", "all_reduce dp"] == 2.0
    assert sum(ns for (kind, _), ns in told.items() if kind == "memory") == 2.0


def test_nested_operators_get_their_own_time():
    assert shares("""
        0/main CCCCCCCC  name=outer
        0/main .CC.....  name=inner
        0/main ....CC..  name=inner
    """) == {("compute", "outer"): 4.0, ("compute", "inner"): 4.0}


def test_steps_are_averaged_and_incomplete_ones_left_out():
    assert shares("""
        step   000011112222  incomplete=2
        0/7    CC..CCC.CCCC  name=a
    """) == {("compute", "a"): 2.5}


def test_work_is_cut_at_the_steps():
    assert shares("""
        step   ..0000..
        0/7    CCCC..CC  name=a
    """) == {("compute", "a"): 2.0}


def test_calls_have_their_group_and_size():
    [row] = attributed(lanes.run("0/20 NN  op=all_gather group=tp bytes=800").rank(0)).to_dict("records")
    assert (row["name"], row["shape"], row["calls"], row["nth"]) == ("all_gather tp", "800 B", 1.0, 0)


def test_calls_of_a_name_are_told_in_their_order():
    rows = attributed(
        lanes.run("""
        step   000000001111111
        0/7    C.CC.CC.C.CCC..  name=a
    """).rank(0)
    )
    # step 0: 1, 2, 2 us; step 1: 1, 3 us
    assert rows.sort_values("nth")["ns"].tolist() == [1000, 2500, 1000]
    assert rows.sort_values("nth")["calls"].tolist() == [1, 1, 0.5]


def test_no_step_no_rows():
    assert attributed(lanes.run("0/main OO").rank(0)).empty


def test_gaps_belong_to_what_ends_them():
    rows = gaps_before(
        lanes.run("""
        0/7    CC...CC..CC  name=a
        0/8    ..C........  name=b
    """).rank(0)
    )
    assert rows.to_dict("records") == [{"name": "a", "gaps": 2.0, "ns": 4000.0}]
