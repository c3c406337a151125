from tests.replay.drawn import TWO_RANKS, analysis
from tracekit.replay.path import critical_path, shares


def pieces(drawing):
    rows = critical_path(analysis(drawing).replay)
    return [
        (step, rank, what, start // 1000, end // 1000)
        for step, rank, what, start, end in rows[["step", "rank", "what", "start_ns", "end_ns"]].values.tolist()
    ]


def test_the_path_goes_through_the_late_rank():
    """Rank 1's launch takes effect after 1 us, it computes until 9 us, and the transfer ends the step on rank 0."""
    assert pieces(TWO_RANKS) == [
        (0, 1, "host", 0, 1),
        (0, 1, "other compute", 1, 9),
        (0, 0, "data all_reduce", 9, 11),
    ]


def test_its_lengths_sum_to_the_step():
    asked = analysis(TWO_RANKS)
    assert critical_path(asked.replay)["length_ns"].sum() == asked.whatif.step_ns


def test_the_host_is_on_it_where_kernels_wait_for_launches():
    drawing = """
        step   0000000000000000
        0/main a....b....c.....
        0/7    .CC...CC...CC...  by=abc
    """
    assert pieces(drawing) == [(0, 0, "host", 0, 11), (0, 0, "other compute", 11, 13)]


def test_a_cpu_rank_computes_on_its_host():
    drawing = """
        step   000000000000
        0/main CCCCCCCC....
        0/comm ........NN..
        1/main CC..........
        1/comm ..NNNNNNNN..
    """
    assert pieces(drawing)[0] == (0, 0, "other compute", 0, 8)
    assert pieces(drawing)[-1][2:] == ("data all_reduce", 8, 10)


def test_shares():
    told = shares(critical_path(analysis(TWO_RANKS).replay))
    assert told[["what", "length_ns"]].values.tolist() == [
        ["other compute", 8000],
        ["data all_reduce", 2000],
        ["host", 1000],
    ]
    assert told["frac"].sum() == 1


def test_each_step_has_its_own_part():
    """The second launch decides, and that comes of the host alone: the kernel before it could be longer by 1 us."""
    drawing = """
        step   0000000000111111111111
        0/main a.........c...........
        0/7    .CCCCCCCCC.CCCCCCCC...  by=ac
    """
    assert pieces(drawing) == [
        (0, 0, "host", 0, 10),
        (1, 0, "host", 10, 11),
        (1, 0, "other compute", 11, 19),
    ]
